"""One turn at one webhook: dead letters that are to be sent again, then events in order, until none is left.

The webhook is leased when a turn begins and released when it ends, with the progress that was made.  A turn
ends early when an attempt fails, when the webhook is paused or taken away, and when the process stops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from nessie_ops.events.filters import Filter
from nessie_ops.events.queue import Progress, Queue
from nessie_ops.events.sender import Outcome, Sender
from nessie_ops.events.webhook import Policy, get_delay_s, make_headers
from nessie_ops.events.webhooks import kinds_of
from nessie_ops.model import Event
from nessie_ops.model.wire import to_json
from nessie_ops.store.subscribers import SubscriberRecord

SAVE_EVERY = 100  # deliveries, and
SAVE_AFTER_S = 1.0  # whichever comes first: after a crash so much is delivered again

T = TypeVar("T")


class Tools(NamedTuple):
    """What all turns of a process share.  `now` gives microseconds since 1970, `random` a number from 0 to 1."""

    queue: Queue
    sender: Sender
    policy: Policy
    now: Callable[[], int]
    random: Callable[[], float]
    is_stopping: Callable[[], bool]
    run: Callable[..., Any]  # calls a function in a thread that may wait for the database


class Turn:
    """A turn at a leased webhook."""

    def __init__(self, tools: Tools, record: SubscriberRecord) -> None:
        self._tools = tools
        self._record = record
        self._progress = Progress(record.seq, record.attempts, record.retry_at, record.error)
        self._unsaved = 0
        self._saved_at = tools.now()
        self._pauses = False

    async def run(self) -> None:
        """Serve the webhook, and release it whatever happens."""
        try:
            if await self._send_letters() and self._record.retry_at <= self._tools.now():
                await self._send_events()
        finally:
            await self._call(self._tools.queue.release, self._record.name, self._progress, pauses=self._pauses)

    async def _send_letters(self) -> bool:
        """Whether the turn may go on."""
        for letter in await self._call(self._tools.queue.list_letters, self._record.name):
            if self._tools.is_stopping():
                return False
            event_id = msgspec.json.decode(letter.event, type=Event).id
            outcome = await self._post(event_id, letter.event.encode())
            await self._call(self._tools.queue.end_letter, letter, outcome.error)
        return True

    async def _send_events(self) -> None:
        wanted = Filter(kinds_of(self._record), self._record.pattern)
        while True:
            page = await self._call(self._tools.queue.read, wanted, self._progress.seq)
            if page.last_seq == self._progress.seq:
                return
            for event in page.events:
                if not await self._deliver(event):
                    return
            if page.last_seq > self._progress.seq:
                self._progress = self._progress._replace(seq=page.last_seq)
            if not await self._may_go_on():
                return

    async def _deliver(self, event: Event) -> bool:
        """Try to send an event; whether the turn may go on to the next."""
        outcome = await self._post(event.id, to_json(event))
        self._unsaved += 1
        if not outcome.error:
            self._progress = Progress(event.seq)
            return await self._may_go_on()
        attempts = self._progress.attempts + 1
        if outcome.is_gone:
            self._pauses = True
            self._progress = self._progress._replace(attempts=attempts, error=f"{outcome.error}, so it was paused")
            return False
        if attempts < self._record.max_attempts:
            delay = get_delay_s(self._tools.policy, attempts, self._tools.random())
            delay = max(delay, min(outcome.retry_after_s, self._tools.policy.max_retry_s))
            retry_at = self._tools.now() + int(delay * 1e6)
            self._progress = self._progress._replace(attempts=attempts, retry_at=retry_at, error=outcome.error)
            return False
        self._progress = Progress(event.seq, error=outcome.error)
        kept = await self._call(self._tools.queue.bury, self._record.name, event, attempts, self._progress)
        return self._keeps(kept)

    async def _post(self, event_id: str, body: bytes) -> Outcome:
        headers = make_headers(self._record.secret, event_id, self._tools.now() // 1_000_000, body)
        return await self._tools.sender.post(self._record.url, headers, body)

    async def _may_go_on(self) -> bool:
        """Whether the webhook is still this process's to serve; saves the progress now and then."""
        waited = self._tools.now() - self._saved_at
        if self._unsaved < SAVE_EVERY and waited < SAVE_AFTER_S * 1e6:
            return not self._tools.is_stopping()
        return self._keeps(await self._call(self._tools.queue.save, self._record.name, self._progress))

    def _keeps(self, record: SubscriberRecord | None) -> bool:
        self._unsaved, self._saved_at = 0, self._tools.now()
        return record is not None and bool(record.active) and not self._tools.is_stopping()

    async def _call(self, function: Callable[..., T], *args: object, **options: object) -> T:
        done: T = await self._tools.run(function, *args, **options)
        return done


async def take_turn(tools: Tools, name: str) -> None:
    """Serve a webhook, unless another process does."""
    record = await tools.run(tools.queue.lease, name)
    if record:
        await Turn(tools, record).run()
