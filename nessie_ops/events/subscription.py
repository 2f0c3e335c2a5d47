"""A subscription inside this process: a callable that is told each event, in order, in a thread of its own.

It follows the reference log, so it also sees what other processes write; writes of this process wake it at once.
Nothing that the callable does reaches a writer: neither its time nor its errors.  The subscription lives as
long as this process; one that must survive it keeps `seq` of the last event and begins after it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from nessie_ops.errors import NessieOpsError
from nessie_ops.events.filters import Filter
from nessie_ops.model import Event, EventKind
from nessie_ops.versioning import VersionStore

BATCH = 100  # rows of the log read at once
POLL_S = 1.0  # how soon writes of other processes are seen

log = logging.getLogger("nessie_ops.events")


class Subscription:
    """A running subscription; close it, or use it as a context manager."""

    def __init__(
        self,
        versions: VersionStore,
        subscriber: Callable[[Event], object],
        filter: Filter,
        after_seq: int,
        poll_s: float,
    ) -> None:
        self._versions = versions
        self._subscriber = subscriber
        self._filter = filter
        self._seq = after_seq
        self._poll_s = poll_s
        self._woken = threading.Event()
        self._closed = False
        self._end = versions.store.moved.listen(self._woken.set)
        self._thread = threading.Thread(target=self._follow, name="nessie-ops-subscription", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End; returns when the subscriber is not running any more, unless it is the subscriber that calls."""
        self._end()
        self._closed = True
        self._woken.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self) -> None:
        while not self._closed:
            self._woken.clear()
            if not self._tell_next():
                self._woken.wait(self._poll_s)

    def _tell_next(self) -> bool:
        """Tell the next events; whether there may be more."""
        try:
            page = self._versions.list_events(after_seq=self._seq, limit=BATCH, accepts=self._filter.accepts)
        except NessieOpsError as error:
            log.warning("a subscription waits: %s", error.message)
            return False
        except Exception:
            log.exception("a subscription waits")
            return False
        for event in page.events:
            if self._closed:
                return False
            self._tell(event)
        found = page.last_seq > self._seq
        self._seq = page.last_seq
        return found

    def _tell(self, event: Event) -> None:
        try:
            self._subscriber(event)
        except Exception:
            log.exception("a subscriber failed at event %s (%s of %s)", event.id, event.kind, event.reference)


def subscribe(
    versions: VersionStore,
    subscriber: Callable[[Event], object],
    *,
    kinds: Iterable[EventKind] = (),
    references: str = "",
    after_seq: int | None = None,
    poll_s: float = POLL_S,
) -> Subscription:
    """Call `subscriber` with each event from now on, or after a sequence number of the reference log.

    `kinds` and `references` (a regular expression for the whole name) choose among them; BadRequest.  An event at
    which the subscriber raises is logged, and not told again.
    """
    if after_seq is None:
        newest = versions.list_moves(limit=1, newest_first=True)
        after_seq = newest[0].seq if newest else 0
    return Subscription(versions, subscriber, Filter(kinds, references), after_seq, poll_s)
