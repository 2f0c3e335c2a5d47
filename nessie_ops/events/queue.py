"""What delivery reads and writes: webhooks with work, their leases and progress, events, dead letters.

The reference log is the queue.  Each method is one transaction.  Nothing is lost when a process dies between
two of them: progress is saved after delivery, so what was sent since is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from nessie_ops.events.filters import Filter
from nessie_ops.events.webhook import Policy
from nessie_ops.model import Event
from nessie_ops.model.wire import to_json
from nessie_ops.store import subscribers
from nessie_ops.store.subscribers import LetterRecord, SubscriberRecord
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.events import EventPage

BATCH = 100  # rows of the log, or dead letters, read at once


class Work(NamedTuple):
    has_subscribers: bool
    names: list[str]  # of webhooks to be served now


class Progress(NamedTuple):
    """How far a webhook has come, and how the event after that has failed."""

    seq: int
    attempts: int = 0
    retry_at: int = 0
    error: str = ""


class Queue:
    """The queue as one process (`owner`) sees it; `now` gives microseconds since 1970."""

    def __init__(self, versions: VersionStore, owner: str, policy: Policy, now: Callable[[], int]) -> None:
        self._versions = versions
        self._store = versions.store
        self._owner = owner
        self._lease = int(policy.lease_s * 1e6)
        self._renewed_at = 0
        self._now = now

    def look(self, served: Collection[str]) -> Work:
        """What there is to do; the leases of the webhooks that are being served are renewed now and then."""
        now = self._now()
        if served and now - self._renewed_at > self._lease // 3:
            with self._store.write() as tx:
                subscribers.renew_leases(tx, served, self._owner, now + self._lease)
            self._renewed_at = now
        with self._store.read() as tx:
            if not subscribers.has_subscribers(tx):
                return Work(False, [])
            return Work(True, subscribers.list_names_with_work(tx, now))

    def lease(self, name: str) -> SubscriberRecord | None:
        """Take a webhook; None when another process has it."""
        now = self._now()
        with self._store.write() as tx:
            return subscribers.lease(tx, name, self._owner, now, now + self._lease)

    def save(self, name: str, progress: Progress) -> SubscriberRecord | None:
        """Record progress and keep the webhook; None when it has been taken away."""
        with self._store.write() as tx:
            return subscribers.save_progress(tx, name, self._owner, self._kept(progress))

    def release(self, name: str, progress: Progress, *, pauses: bool) -> None:
        """Record progress and let others have the webhook."""
        values: dict[str, object] = {**progress._asdict(), "owner": "", "leased_until": 0}
        if pauses:
            values["active"] = 0
        with self._store.write() as tx:
            subscribers.save_progress(tx, name, self._owner, values)

    def bury(self, name: str, event: Event, attempts: int, progress: Progress) -> SubscriberRecord | None:
        """Make an event a dead letter and go on after it, as `progress` says."""
        with self._store.write() as tx:
            kept = subscribers.save_progress(tx, name, self._owner, self._kept(progress))
            if kept:
                letter = LetterRecord(name, event.seq, to_json(event).decode(), progress.error, attempts, self._now())
                subscribers.delete_letters(tx, name, event.seq)  # of an earlier pass over the same events
                subscribers.insert_letter(tx, letter)
            return kept

    def read(self, filter: Filter, after_seq: int) -> EventPage:
        """The next events that a webhook wants."""
        return self._versions.list_events(after_seq=after_seq, limit=BATCH, accepts=filter.accepts)

    def list_letters(self, name: str) -> list[LetterRecord]:
        """Dead letters that are to be sent again."""
        with self._store.read() as tx:
            return subscribers.list_letters(tx, name, 0, BATCH, retrying=True)

    def end_letter(self, letter: LetterRecord, error: str) -> None:
        """Forget a dead letter that was taken (no error), or keep it with the new error."""
        with self._store.write() as tx:
            if not error:
                subscribers.delete_letters(tx, letter.subscriber, letter.seq)
                return
            subscribers.update_letters(
                tx,
                letter.subscriber,
                letter.seq,
                error=error,
                attempts=letter.attempts + 1,
                at=self._now(),
                retrying=0,
            )

    def _kept(self, progress: Progress) -> dict[str, object]:
        return {**progress._asdict(), "leased_until": self._now() + self._lease}
