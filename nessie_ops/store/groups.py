"""Group commit: writers that wait at the same time share one database transaction.

Whoever finds nobody leading becomes the leader: it takes all that waits, its own job first, runs it in
arrival order, gives each its result and hands the lead to the next that waits.  So nobody spins, nobody
starves, and a database's round trips and its flush to the disk are paid once for the group.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from nessie_ops.errors import OutcomeUnknown, StoreUnavailable
from nessie_ops.store import once
from nessie_ops.store.writing import WriteTransaction

log = logging.getLogger("nessie_ops.store")
MAX_JOBS = 64  # of one transaction: bounds how long the first waits for the last


class Job:
    """A function of a writing transaction, and then its result or error."""

    def __init__(
        self,
        function: Callable[[WriteTransaction], Any],
        references: tuple[str, ...],
        done: Callable[[Job], object] | None = None,
    ) -> None:
        self._function = function
        self.references = references
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_finished = False
        self.is_heir = False
        self._pending = once.under_way()
        self._done = done
        self._awake = threading.Event() if done is None else None
        self.start: Callable[[Callable[[], None]], object] | None = None

    def run(self, tx: WriteTransaction) -> None:
        """Run it as a part of `tx`; its error is kept, an error of the database passes."""
        self.value = self.error = None
        try:
            with tx.part():
                self.value = self._function(tx)
                if self._pending:
                    self._pending.record(tx, self.value)
        except tx.errors:
            raise
        except Exception as error:
            self.error = error

    def finish(self) -> None:
        self.is_finished = True
        if self._pending:
            self._pending.settle(self.error)
        self.wake()
        if self._done:
            try:
                self._done(self)
            except Exception:  # such as an event loop that has ended: the others of the group still wait
                log.exception("nobody takes the outcome of a write")

    def result(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def wait(self) -> None:
        """Until it is finished or shall lead."""
        assert self._awake
        self._awake.wait()

    def wake(self) -> None:
        if self._awake:
            self._awake.set()


class Groups:
    """The jobs that wait for the one transaction at a time that this process runs for them."""

    def __init__(self, run_all: Callable[[list[Job]], None]) -> None:
        self._run_all = run_all
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Job] = deque()
        self._is_led = False

    def run(self, job: Job) -> Any:
        """Wait until `job` is finished; its result."""
        if not self._enter(job):
            try:
                job.wait()
            except BaseException:
                self._leave(job)
                raise
        if not job.is_finished:
            self._lead()
        return job.result()

    def submit(self, job: Job, start: Callable[[Callable[[], None]], object]) -> None:
        """Let `job` be finished by others, or by a thread that `start` finds."""
        job.start = start
        if self._enter(job):
            self._start(start)

    def _enter(self, job: Job) -> bool:
        """Queue `job`; whether it leads."""
        with self._lock:
            self._waiting.append(job)
            leads, self._is_led = not self._is_led, True
        return leads

    def _leave(self, job: Job) -> None:
        """Do without a thread that was interrupted while it waited; what leads goes to the next."""
        with self._lock:
            if job in self._waiting:
                self._waiting.remove(job)
        if job.is_heir and not job.is_finished:
            self._pass_on()

    def _start(self, start: Callable[[Callable[[], None]], object]) -> None:
        """Lead in another thread; when none is to be had, whoever waits is told so and the next to come leads."""
        try:
            start(self._lead)
        except Exception as error:
            with self._lock:
                jobs, self._waiting = self._waiting, deque()
                self._is_led = False
            for job in jobs:
                job.error = StoreUnavailable(f"No thread can be started to write: {error}. Try again.")
                job.finish()

    def _lead(self) -> None:
        """Finish the group at the head of the queue, then let the next one lead."""
        with self._lock:
            jobs = [self._waiting.popleft() for _ in range(min(MAX_JOBS, len(self._waiting)))]
        try:
            self._run_all(jobs)
        except BaseException as error:
            interrupted = OutcomeUnknown("The thread that wrote was interrupted: look before you repeat the change.")
            for job in jobs:
                job.error = error if isinstance(error, Exception) else interrupted
            if not isinstance(error, Exception):
                raise
        finally:
            self._pass_on()
            for job in jobs:
                job.finish()

    def _pass_on(self) -> None:
        with self._lock:
            heir = self._waiting[0] if self._waiting else None
            self._is_led = heir is not None
            if heir:
                heir.is_heir = True
        if heir and heir.start:
            self._start(heir.start)
        elif heir:
            heir.wake()


_all: WeakSet[Groups] = WeakSet()


def _forget_parent() -> None:
    """In a forked child, the parent's threads do not run: nobody leads, nobody waits."""
    for groups in list(_all):
        groups._reset()


os.register_at_fork(after_in_child=_forget_parent)
