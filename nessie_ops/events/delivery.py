"""Delivery: sends events to webhooks in the background, from a thread of its own with an event loop.

Any number of processes may run it over one store; a webhook is served by one of them at a time.  A receiver
that is slow or dead costs its own place in the loop and nobody's time.  Writers do no more than wake it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from nessie_ops.errors import NessieOpsError
from nessie_ops.events.addresses import Networks
from nessie_ops.events.queue import Queue, Work
from nessie_ops.events.sender import Sender
from nessie_ops.events.turn import Tools, take_turn
from nessie_ops.events.webhook import Policy
from nessie_ops.versioning import VersionStore

DATABASE_THREADS = 4
ROUND_S = 0.05  # at least, between looks at the database, however often writers wake it

log = logging.getLogger("nessie_ops.events")


class Delivery:
    """The background thread, as a context manager or by `start` and `stop`; stop it before the store is closed."""

    def __init__(
        self,
        versions: VersionStore,
        *,
        networks: Networks | None = None,
        policy: Policy | None = None,
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
        random: Callable[[], float] = random.random,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """`now` gives microseconds since 1970; `new_id` the name of this process among all that deliver."""
        self._versions = versions
        self._networks = networks or Networks.from_env()
        self._policy = policy or Policy()
        self._now = now
        self._random = random
        self._queue = Queue(versions, new_id(), self._policy, now)
        self._pool = ThreadPoolExecutor(DATABASE_THREADS, thread_name_prefix="nessie-ops-events")
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="nessie-ops-events", daemon=True)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._woken: asyncio.Event

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """End, once messages in flight are answered or timed out; all progress is saved."""
        if self._thread.is_alive():
            for event in (self._stopping, self._woken):
                self._call_soon(event.set)
            self._thread.join()
        self._pool.shutdown()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop()

    def _call_soon(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop has just ended
            log.debug("woken after the end")

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping, self._woken = asyncio.Event(), asyncio.Event()
        end = self._versions.store.moved.listen(lambda: self._call_soon(self._woken.set))
        self._ready.set()
        turns: dict[str, asyncio.Task[None]] = {}
        try:
            async with Sender(self._networks, self._policy.timeout_s) as sender:
                tools = Tools(
                    self._queue,
                    sender,
                    self._policy,
                    self._now,
                    self._random,
                    self._stopping.is_set,
                    self._in_thread,
                )
                while not self._stopping.is_set():
                    await self._round(tools, turns)
                await asyncio.gather(*turns.values())
        finally:
            end()

    async def _round(self, tools: Tools, turns: dict[str, asyncio.Task[None]]) -> None:
        """Begin the turns that are due, and wait until there may be more."""
        self._woken.clear()
        for name in [name for name, turn in turns.items() if turn.done()]:
            del turns[name]
        work = await self._look(list(turns))
        for name in work.names:
            if name not in turns:
                turns[name] = asyncio.create_task(self._take_turn(tools, name))
        await self._wait(self._stopping, ROUND_S)
        if not self._stopping.is_set():
            await self._wait(self._woken if work.has_subscribers else self._stopping, self._policy.poll_s)

    async def _look(self, served: list[str]) -> Work:
        try:
            work: Work = await self._in_thread(self._queue.look, served)
            return work
        except NessieOpsError as error:
            log.warning("events wait: %s", error.message)
        except Exception:
            log.exception("events wait")
        return Work(False, [])

    async def _take_turn(self, tools: Tools, name: str) -> None:
        pause_s = self._policy.pause_s
        try:
            await take_turn(tools, name)
        except NessieOpsError as error:
            log.warning("subscriber %s waits: %s", name, error.message)
            pause_s = self._policy.poll_s
        except Exception:
            log.exception("subscriber %s waits", name)
            pause_s = self._policy.poll_s
        await self._wait(self._stopping, pause_s)
        self._woken.set()

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        """Until the event, or until the time is over."""
        try:
            await asyncio.wait_for(event.wait(), seconds)
        except TimeoutError:
            return

    async def _in_thread(self, function: Callable[..., Any], *args: object, **options: object) -> Any:
        return await self._loop.run_in_executor(self._pool, partial(function, *args, **options))
