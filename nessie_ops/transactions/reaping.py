"""The ends that nobody asks for: leases that are over, transactions that ended long ago, branches that are nobody's.

Each end is one database transaction that locks the transaction's row and looks at it again, so it does not matter how
many processes reap at once, nor where one is killed.  Whatever is left over is found by the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from nessie_ops.errors import NessieOpsError, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import TRANSACTIONS, CatalogTransaction, CatalogTransactionState, TidiedTransactions
from nessie_ops.store import ReferenceRecord, Store, WriteTransaction
from nessie_ops.transactions.documents import from_record, to_record
from nessie_ops.versioning import references
from nessie_ops.versioning.codec import from_micros, to_micros

log = logging.getLogger("nessie_ops.transactions")
AT_ONCE = 100  # transactions that one call ends or forgets
MOST = 10_000  # that one tidying does: it is one request
_PAGE = 500  # branches looked at by one query
OPEN, COMMITTED, ROLLED_BACK, EXPIRED = CatalogTransactionState


class Reaping:
    """Reaps the transactions of a store."""

    def __init__(self, store: Store, default_branch: str, clock: Callable[[], datetime]) -> None:
        self._store, self._default_branch, self._clock = store, default_branch, clock

    def find_next_end(self) -> datetime | None:
        """When the next lease ends, which may be over; None when no transaction is open.  One row of an index."""
        with self._store.read() as tx:
            found = tx.find_next_expiry(OPEN)
        return None if found is None else from_micros(found)

    def reap(self) -> list[str]:
        """End the transactions whose lease is over, a hundred at most, the first to end first; their ids."""
        with self._store.read() as tx:
            over = tx.list_expired_transactions(OPEN, to_micros(self._clock()), AT_ONCE)
        return self._each((row.id for row in over), self.expire)

    def expire(self, id: str) -> bool:
        """End a transaction if it is open and its lease is over; whether this did."""

        def run(tx: WriteTransaction) -> bool:
            record = tx.get_catalog_transaction(id, lock=True)
            known, now = from_record(record) if record else None, self._clock()
            if known is None or known.state is not OPEN or known.expires_at > now:
                return False
            tx.save_catalog_transaction(to_record(drop(tx, known, EXPIRED, self._default_branch, now)))
            return True

        return self._store.run(run, TRANSACTIONS + id)

    def forget(self) -> list[str]:
        """Delete what is known of transactions that ended a week ago, a hundred of each state; their ids."""
        with self._store.read() as tx:
            now = to_micros(self._clock())
            rows = [
                row
                for state in (COMMITTED, ROLLED_BACK, EXPIRED)
                for row in tx.list_expired_transactions(state, now, AT_ONCE)
            ]
        return self._each((row.id for row in rows), self._forget)

    def _forget(self, id: str) -> bool:
        def run(tx: WriteTransaction) -> bool:
            record = tx.get_catalog_transaction(id, lock=True)
            if record is None or record.state == OPEN:
                return True
            if tx.delete_some_reads(id):
                return False
            tx.delete_catalog_transaction(id)
            return True

        while not self._store.run(run):
            pass  # many reads, some of them at a time
        return True

    def drop_strays(self) -> list[str]:
        """Delete branches of transactions that are not open, as a copy of a store may have; their names."""
        strays = []
        after: tuple[str, str] | None = None
        while True:
            with self._store.read() as tx:
                page = tx.list_references(TRANSACTIONS, after, _PAGE)
                found = tx.get_catalog_transactions([row.name.removeprefix(TRANSACTIONS) for row in page], OPEN)
                opened = {TRANSACTIONS + id for id in found}
            strays += [row.name for row in page if _is_transactions(row) and row.name not in opened]
            if len(page) < _PAGE or len(strays) >= MOST:
                return self._each(strays, self._drop_stray)
            after = page[-1].type, page[-1].name

    def _drop_stray(self, name: str) -> bool:
        def run(tx: WriteTransaction) -> bool:
            record = tx.get_catalog_transaction(name.removeprefix(TRANSACTIONS), lock=True)
            if (record and record.state == OPEN) or tx.get_reference(name, lock=True) is None:
                return False
            references.delete_reference(tx, name, None, self._default_branch, self._clock())
            return True

        return self._store.run(run, name)

    def tidy(self) -> TidiedTransactions:
        """What can be done now, some ten thousand of each at most, in many short database transactions."""
        expired, forgotten = _until_none(self.reap), _until_none(self.forget)
        return TidiedTransactions(tuple(expired), len(forgotten), tuple(self.drop_strays()))

    def _each(self, names: Iterable[str], act: Callable[[str], bool]) -> list[str]:
        """Those for which `act` did something.  One that cannot be dealt with does not stop the others."""
        done = []
        for name in names:
            try:
                if act(name):
                    done.append(name)
            except (StoreUnavailable, OutcomeUnknown):
                raise
            except (NessieOpsError, msgspec.MsgspecError):
                log.exception("transaction %s stays", name)
        return done


def _is_transactions(branch: ReferenceRecord) -> bool:
    """Whether a branch was made by a transaction, and not by hand before such names were transactions' own."""
    return TRANSACTIONS + references.get_properties(branch).get("transaction", "") == branch.name


def _until_none(act: Callable[[], list[str]]) -> list[str]:
    found: list[str] = []
    while len(found) < MOST and (some := act()):
        found += some
    return found


def drop(
    tx: WriteTransaction, open: CatalogTransaction, state: CatalogTransactionState, default_branch: str, now: datetime
) -> CatalogTransaction:
    """An open transaction as it is in its last `state`, with neither branch nor reads."""
    if tx.get_reference(open.branch, lock=True):
        references.delete_reference(tx, open.branch, None, default_branch, now)
    tx.delete_reads(open.id)
    return msgspec.structs.replace(open, state=state, ended_at=now)
