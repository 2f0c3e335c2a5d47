"""Records what serializable transactions read, before the reader gets it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from nessie_ops.model import CatalogTransactionState, ContentKey
from nessie_ops.store import ReadRecord, Store, WriteTransaction, once
from nessie_ops.transactions.reads import Kind, span, to_record

_REMEMBERED = 1_000  # transactions whose reads are in memory
_MOST = 500_000  # reads of them all in memory, of some hundred bytes each


class ReadRecorder:
    """Remembers what it has recorded, so that a key costs one write however often it is read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: OrderedDict[str, set[bytes]] = OrderedDict()

    def of(self, id: str) -> OneRecorder:
        """The recorder of one transaction."""
        return OneRecorder(self, id)

    def record(self, id: str, reads: list[ReadRecord]) -> None:
        """Make reads durable that are not known to be."""
        with self._lock:
            known = self._known.setdefault(id, set())
            self._known.move_to_end(id)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            new = [read for read in reads if read.digest not in known]
        if not new:
            return
        with once.aside():
            self._store.run(lambda tx: _add(tx, id, new))
        with self._lock:
            if len(known) < _MOST:
                known.update(read.digest for read in new)
            while len(self._known) > 1 and sum(map(len, self._known.values())) > _MOST:
                self._known.popitem(last=False)

    def forget(self, id: str) -> None:
        """A transaction has ended."""
        with self._lock:
            self._known.pop(id, None)


def _add(tx: WriteTransaction, id: str, reads: list[ReadRecord]) -> None:
    record = tx.get_catalog_transaction(id)
    if record and record.state == CatalogTransactionState.OPEN:  # nobody would delete the rows of one that has ended
        tx.add_reads(reads)


class OneRecorder:
    """See versioning.reading.Recorder."""

    def __init__(self, recorder: ReadRecorder, id: str) -> None:
        self._recorder, self._id = recorder, id

    def read_keys(self, keys: Iterable[ContentKey]) -> None:
        self._recorder.record(self._id, [to_record(self._id, Kind.VALUES, *span(key)) for key in keys])

    def read_range(self, low: bytes, high: bytes, *, values: bool) -> None:
        if low < high:
            self._recorder.record(self._id, [to_record(self._id, Kind.VALUES if values else Kind.KEYS, low, high)])
