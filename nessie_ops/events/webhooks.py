"""Webhooks: the facade through which they are made, listed, paused, tried and deleted, and their dead letters.

Secrets come in and go out once, when a webhook is made; no listing, error or log has them.  It does not send
events: Delivery does.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime

import httpx
import msgspec

from nessie_ops.errors import BadRequest, SubscriberAlreadyExists, SubscriberNotFound
from nessie_ops.events.addresses import Networks
from nessie_ops.events.filters import check_pattern
from nessie_ops.events.sender import Sender
from nessie_ops.events.webhook import SECRET_BYTES, Policy, make_headers, make_secret, read_secret
from nessie_ops.model import (
    CreatedSubscriber,
    DeadLetter,
    Delivered,
    Event,
    EventKind,
    NewSubscriber,
    ReferenceType,
    Subscriber,
)
from nessie_ops.model.wire import to_json
from nessie_ops.store import Transaction, subscribers
from nessie_ops.store.subscribers import LetterRecord, SubscriberRecord
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.codec import from_micros, to_micros

MAX_SUBSCRIBERS = 100  # each costs a connection and a place in the event loop
MAX_ATTEMPTS = 1000
MAX_URL = 2000
MAX_SEQ = 2**63 - 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Webhooks:
    """The webhooks of a catalog."""

    def __init__(
        self,
        versions: VersionStore,
        *,
        networks: Networks | None = None,
        policy: Policy | None = None,
        clock: Callable[[], datetime] = _utc_now,
        new_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._versions = versions
        self._store = versions.store
        self._networks = networks or Networks.from_env()
        self._policy = policy or Policy()
        self._clock = clock
        self._new_bytes = new_bytes

    def list_subscribers(self) -> list[Subscriber]:
        """All webhooks, by name."""
        with self._store.read() as tx:
            last, letters = subscribers.get_last_seq(tx), subscribers.count_letters(tx)
            records = subscribers.list_subscribers(tx)
        return [_to_subscriber(record, last, letters.get(record.name, 0)) for record in records]

    def get_subscriber(self, name: str) -> Subscriber:
        """SubscriberNotFound."""
        with self._store.read() as tx:
            return self._describe(tx, name)

    def create_subscriber(self, new: NewSubscriber) -> CreatedSubscriber:
        """Make a webhook, which begins at once; BadRequest, SubscriberAlreadyExists."""
        _check(new)
        secret = new.secret or make_secret(self._new_bytes(SECRET_BYTES))
        read_secret(secret)
        with self._store.write() as tx:
            others = subscribers.list_subscribers(tx)
            if any(other.name == new.name for other in others):
                raise SubscriberAlreadyExists(f"Subscriber '{new.name}' already exists.")
            if len(others) >= MAX_SUBSCRIBERS:
                raise BadRequest(f"name: there are {len(others)} subscribers already, the most that may be.")
            record = SubscriberRecord(
                name=new.name,
                url=str(httpx.URL(new.url)),
                secret=secret,
                kinds=to_json(new.kinds).decode(),
                pattern=new.references,
                max_attempts=new.max_attempts,
                active=1,
                created_at=to_micros(self._clock()),
                seq=subscribers.get_last_seq(tx) if new.after is None else new.after,
            )
            subscribers.insert_subscriber(tx, record)
            return CreatedSubscriber(self._describe(tx, new.name), secret)

    def delete_subscriber(self, name: str) -> Subscriber:
        """Delete a webhook with its dead letters and return it as it was; SubscriberNotFound."""
        with self._store.write() as tx:
            found = self._describe(tx, name)
            subscribers.delete_subscriber(tx, name)
            return found

    def pause_subscriber(self, name: str) -> Subscriber:
        """Send it nothing until it is resumed; what happens meanwhile is sent then.  SubscriberNotFound."""
        return self._update(name, active=0)

    def resume_subscriber(self, name: str) -> Subscriber:
        """Go on where it was paused, at once and with all attempts; SubscriberNotFound."""
        return self._update(name, active=1, attempts=0, retry_at=0, error="")

    def send_test(self, name: str) -> Delivered:
        """Send one event of kind TEST now, whether it is paused or not, and tell how it was taken."""
        with self._store.read() as tx:
            record = self._require(tx, name)
        now = self._clock()
        head = self._versions.get_reference(self._versions.default_branch)
        event = Event(
            id=f"evt_test_{self._new_bytes(16).hex()}",
            seq=0,
            kind=EventKind.TEST,
            time=now,
            reference=head.name,
            reference_type=ReferenceType.BRANCH,
            hash_before=head.hash,
            hash_after=head.hash,
        )
        error = asyncio.run(self._send(record, event, int(now.timestamp())))
        return Delivered(not error, error)

    async def _send(self, record: SubscriberRecord, event: Event, timestamp: int) -> str:
        body = to_json(event)
        async with Sender(self._networks, self._policy.timeout_s) as sender:
            headers = make_headers(record.secret, event.id, timestamp, body)
            return (await sender.post(record.url, headers, body)).error

    def list_dead_letters(self, name: str, *, after_seq: int = 0, limit: int = 1000) -> list[DeadLetter]:
        """Events that a webhook did not take, by sequence number; SubscriberNotFound."""
        with self._store.read() as tx:
            self._require(tx, name)
            return [_to_letter(record) for record in subscribers.list_letters(tx, name, after_seq, limit)]

    def retry_dead_letters(self, name: str, seq: int | None = None) -> int:
        """Have one dead letter (0: there is none) or all of a webhook sent once more; how many."""
        with self._store.write() as tx:
            self._require(tx, name)
            subscribers.update_letters(tx, name, seq, retrying=1)
            return subscribers.count_letters_of(tx, name, seq)

    def discard_dead_letters(self, name: str, seq: int | None = None) -> int:
        """Delete one dead letter or all of a webhook; how many there were."""
        with self._store.write() as tx:
            self._require(tx, name)
            return subscribers.delete_letters(tx, name, seq)

    def _require(self, tx: Transaction, name: str) -> SubscriberRecord:
        record = subscribers.get_subscriber(tx, name)
        if record is None:
            raise SubscriberNotFound(f"Subscriber '{name[:100]}' not found")
        return record

    def _describe(self, tx: Transaction, name: str) -> Subscriber:
        letters = subscribers.count_letters_of(tx, name, None)
        return _to_subscriber(self._require(tx, name), subscribers.get_last_seq(tx), letters)

    def _update(self, name: str, **values: object) -> Subscriber:
        with self._store.write() as tx:
            self._require(tx, name)
            subscribers.update_subscriber(tx, name, **values)
            return self._describe(tx, name)


def _check(new: NewSubscriber) -> None:
    if not _NAME.fullmatch(new.name):
        raise BadRequest("name: 1 to 100 letters, digits, '.', '_' and '-', with a letter or digit first.")
    if not 1 <= new.max_attempts <= MAX_ATTEMPTS:
        raise BadRequest(f"maxAttempts: {new.max_attempts} is not from 1 to {MAX_ATTEMPTS}.")
    if new.after is not None and not 0 <= new.after <= MAX_SEQ:
        raise BadRequest("after: give a sequence number of the reference log, or 0 for all of it.")
    if EventKind.TEST in new.kinds:
        raise BadRequest("kinds: TEST is sent on demand and cannot be subscribed to.")
    check_pattern(new.references)
    _check_url(new.url)


def _check_url(text: str) -> None:
    """The messages do not repeat the URL, which may hold a password."""
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError, ValueError):
        raise BadRequest("url: this is not a URL.") from None
    if len(text) > MAX_URL:
        raise BadRequest(f"url: longer than {MAX_URL} characters.")
    if url.scheme not in ("http", "https") or not url.host:
        raise BadRequest("url: only http and https URLs with a host can be called.")
    if url.userinfo:
        raise BadRequest("url: leave out user and password, which listings would show; check the signature instead.")
    if url.port is not None and not 0 < url.port < 65536:
        raise BadRequest(f"url: {url.port} is not a port.")


def _to_subscriber(record: SubscriberRecord, last_seq: int, letters: int) -> Subscriber:
    return Subscriber(
        name=record.name,
        url=record.url,
        kinds=kinds_of(record),
        references=record.pattern,
        max_attempts=record.max_attempts,
        active=bool(record.active),
        created_at=from_micros(record.created_at),
        cursor=record.seq,
        behind=max(0, last_seq - record.seq),
        dead_letters=letters,
        attempts=record.attempts,
        retry_at=from_micros(record.retry_at) if record.retry_at else None,
        error=record.error,
    )


def kinds_of(record: SubscriberRecord) -> tuple[EventKind, ...]:
    return msgspec.json.decode(record.kinds, type=tuple[EventKind, ...])


def _to_letter(record: LetterRecord) -> DeadLetter:
    return DeadLetter(
        subscriber=record.subscriber,
        seq=record.seq,
        event=msgspec.json.decode(record.event, type=Event),
        error=record.error,
        attempts=record.attempts,
        at=from_micros(record.at),
        retrying=bool(record.retrying),
    )
