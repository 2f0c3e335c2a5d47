"""Events and webhooks over HTTP: the methods of Webhooks, and the reference log's events page by page."""

from __future__ import annotations

from urllib.parse import quote

from nessie_ops.client.connection import Connection
from nessie_ops.model import (
    CreatedSubscriber,
    DeadLetter,
    Delivered,
    NewSubscriber,
    Subscriber,
    wire,
)

_PATH = "events/subscribers"


class EventMethods(Connection):
    """What a client can do about events."""

    def list_events(
        self, *, name: str | None = None, after_seq: int = 0, limit: int = 1_000, wait_s: int = 0
    ) -> wire.EventPage:
        """Events after a sequence number, at most 1,000; with `wait_s` it waits so long (at most 20) for the first."""
        params = {"after": str(after_seq), "max-records": str(limit), "wait": str(wait_s), "name": name or ""}
        return self._get("events", wire.EventPage, params)

    def list_subscribers(self) -> list[Subscriber]:
        """All webhooks, by name."""
        return list(self._get(_PATH, wire.Subscribers).subscribers)

    def get_subscriber(self, name: str) -> Subscriber:
        """SubscriberNotFound."""
        return self._get(_path(name), Subscriber)

    def create_subscriber(self, new: NewSubscriber) -> CreatedSubscriber:
        """Make a webhook, which begins at once; BadRequest, SubscriberAlreadyExists."""
        return self._write("POST", _PATH, CreatedSubscriber, new)

    def delete_subscriber(self, name: str) -> Subscriber:
        """Delete a webhook with its dead letters and return it as it was; SubscriberNotFound."""
        return self._write("DELETE", _path(name), Subscriber)

    def pause_subscriber(self, name: str) -> Subscriber:
        """Send it nothing until it is resumed; what happens meanwhile is sent then.  SubscriberNotFound."""
        return self._write("POST", _path(name, "pause"), Subscriber)

    def resume_subscriber(self, name: str) -> Subscriber:
        """Go on where it was paused, at once and with all attempts; SubscriberNotFound."""
        return self._write("POST", _path(name, "resume"), Subscriber)

    def send_test(self, name: str) -> Delivered:
        """Send one event of kind TEST now, whether it is paused or not, and tell how it was taken."""
        return self._write("POST", _path(name, "test"), Delivered)

    def list_dead_letters(self, name: str, *, after_seq: int = 0, limit: int = 1_000) -> list[DeadLetter]:
        """Events that a webhook did not take, by sequence number, at most 1,000; SubscriberNotFound."""
        params = {"after": str(after_seq), "max-records": str(limit)}
        return list(self._get(_path(name, "dead-letters"), wire.DeadLetterPage, params).dead_letters)

    def retry_dead_letters(self, name: str, seq: int | None = None) -> int:
        """Have one dead letter (0: there is none) or all of a webhook sent once more; how many."""
        parts = ("dead-letters", "retry") if seq is None else ("dead-letters", str(seq), "retry")
        return self._write("POST", _path(name, *parts), wire.Count).count

    def discard_dead_letters(self, name: str, seq: int | None = None) -> int:
        """Delete one dead letter or all of a webhook; how many there were."""
        parts = ("dead-letters",) if seq is None else ("dead-letters", str(seq))
        return self._write("DELETE", _path(name, *parts), wire.Count).count


def _path(name: str, *parts: str) -> str:
    return "/".join((_PATH, quote(name, safe=""), *parts))
