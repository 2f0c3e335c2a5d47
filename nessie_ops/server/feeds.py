"""The reference log and its events, for clients that follow them by the sequence number that they have seen.

With `wait`, a request for which there is nothing yet is answered when there is, or after so many seconds; no
thread waits with it, and a server that stops answers it at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Request, Response, get

from nessie_ops.model.wire import EventPage, MovePage
from nessie_ops.server.live import in_thread
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.server.parameters import Store
from nessie_ops.server.query import Query
from nessie_ops.server.responses import json_response
from nessie_ops.store.signal import Signal
from nessie_ops.versioning import MAX_PAGE

MAX_EVENTS = 1_000  # of one page
MAX_WAIT_S = 20  # shorter than what proxies and clients bear, and than the server's own patience when it stops
POLL_S = 1.0  # how soon writes of other processes are seen

SeqNumber = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
R = TypeVar("R", bound=Sequence[Any])


class _Row(msgspec.Struct, frozen=True):
    """The row of the reference log with which a page begins."""

    seq: SeqNumber


async def find_or_wait(signal: Signal, find: Callable[[], R], wait_s: float) -> R:
    """What `find` returns as soon as it is not empty, or after `wait_s` seconds; it is called in a thread."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    woken = asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(woken.set)

    end = signal.listen(wake)
    try:
        while True:
            woken.clear()
            found = await in_thread(find)
            left = deadline - loop.time()
            if found or left <= 0 or signal.is_closed:
                return found
            with suppress(TimeoutError):
                await asyncio.wait_for(woken.wait(), min(left, POLL_S))
    finally:
        end()


def _wait_s(query: Query) -> int:
    return max(0, min(query.integer("wait") or 0, MAX_WAIT_S))


@get("/reference-log")
async def list_moves(store: Store, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Changes of references after a sequence number (`after`), of one (`name`) or all; may `wait` for the first."""
    query = Query(request)
    limit, after, newest_first = query.limit(MAX_PAGE), query.integer("after") or 0, query.flag("newest-first")
    start = read_token(query.text("page-token"), _Row)
    find = partial(
        store.list_moves,
        name=query.text("name"),
        after_seq=max(after, start.seq - 1) if start and not newest_first else after,
        before_seq=start.seq + 1 if start and newest_first else None,
        limit=limit + 1,
        newest_first=newest_first,
    )
    moves = await find_or_wait(store.store.moved, find, _wait_s(query))
    token = make_token(_Row(moves[limit].seq)) if len(moves) > limit else None
    return json_response(MovePage(moves=tuple(moves[:limit]), has_more=token is not None, token=token))


@get("/events")
async def list_events(store: Store, request: Request[Any, Any, Any]) -> Response[bytes]:
    """Events after a sequence number (`after`), of one reference (`name`) or all; may `wait` for the first."""
    query = Query(request)
    limit, after, name = query.limit(MAX_EVENTS), query.integer("after") or 0, query.text("name")
    events = await find_or_wait(
        store.store.moved,
        lambda: store.list_events(name=name, after_seq=after, limit=limit + 1).events,
        _wait_s(query),
    )
    page = tuple(events[:limit])
    return json_response(EventPage(page, page[-1].seq if page else after, len(events) > limit))


HANDLERS = [list_moves, list_events]
