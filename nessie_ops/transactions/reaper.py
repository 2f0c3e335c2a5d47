"""The reaper: a thread that ends transactions when their leases end, and forgets those that ended a week ago.

Any number of processes may run one over one store.  It sleeps until the next lease ends, but for a few seconds at most,
since others begin and renew transactions; a look at a store without work is one query for one row of an index.  The
clock is looked at anew each time, so one that is set forward or back changes when leases end, and nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from nessie_ops.errors import NessieOpsError
from nessie_ops.transactions.reaping import AT_ONCE, Reaping
from nessie_ops.versioning import VersionStore

log = logging.getLogger("nessie_ops.transactions")
POLL_S = 5.0  # at most, between looks at the next end of a lease: so late is a shorter lease of another process seen
AGAIN_S = 1.0  # after a look that found a lease over and could not end its transaction, or failed
FORGET_EVERY_S = 3600.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Reaper:
    """The thread, as a context manager or by `start` and `stop`; stop it before the store is closed."""

    def __init__(
        self, versions: VersionStore, *, clock: Callable[[], datetime] = _utc_now, poll_s: float = POLL_S
    ) -> None:
        self._reaping = Reaping(versions.store, versions.default_branch, clock)
        self._clock, self._poll_s = clock, poll_s
        self._stopping = threading.Event()
        self._until_forgetting_s = 0.0
        self._thread = threading.Thread(target=self._run, name="nessie-ops-reaper", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the database transaction under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            self._until_forgetting_s -= pause_s
            try:
                pause_s = self._look()
            except NessieOpsError as error:
                log.warning("transactions whose lease is over wait: %s", error.message)
                pause_s = AGAIN_S
            except Exception:
                log.exception("transactions whose lease is over wait")
                pause_s = self._poll_s

    def _look(self) -> float:
        """End what is over; seconds until the next look."""
        end = self._reaping.find_next_end()
        if end is not None and end <= self._clock():
            ended = self._reaping.reap()
            if ended:
                log.info("transactions expired: %s", ", ".join(ended))
            return 0.0 if len(ended) == AT_ONCE else min(AGAIN_S, self._poll_s)
        if self._until_forgetting_s <= 0 and not self._reaping.forget():
            self._until_forgetting_s = FORGET_EVERY_S
        left_s = (end - self._clock()).total_seconds() if end else self._poll_s
        return min(max(left_s, 0.0), self._poll_s)
