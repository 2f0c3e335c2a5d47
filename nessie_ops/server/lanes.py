"""Threads for requests in two lanes, so that writers who wait for the database's lock keep no reader waiting.

The lane is chosen by the request's method; it follows the request wherever its work is handed to a thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from nessie_ops.server.paths import ASGIApp, Receive, Scope, Send

T = TypeVar("T")
P = ParamSpec("P")
# A query for many contents, and a signature that an engine waits for.
_POSTS_THAT_READ = re.compile(r".*/contents|/iceberg/.*/namespaces/[^/]+/tables/[^/]+/sign")
_is_writing: ContextVar[bool] = ContextVar("nessie_ops_is_writing", default=False)


class Lanes:
    """ASGI middleware: says in which lane a request goes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reads = (
            scope["type"] != "http"
            or scope["method"] in ("GET", "HEAD")
            or _POSTS_THAT_READ.fullmatch(scope["path"]) is not None
        )
        token = _is_writing.set(not reads)
        try:
            await self._app(scope, receive, send)
        finally:
            _is_writing.reset(token)


class LaneThreads(ThreadPoolExecutor):
    """Up to `size` threads for each lane."""

    def __init__(self, size: int) -> None:
        super().__init__(size, thread_name_prefix="nessie-ops-read")
        self._writers = ThreadPoolExecutor(size, thread_name_prefix="nessie-ops-write")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        if _is_writing.get():
            return self._writers.submit(fn, *args, **kwargs)
        return super().submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._writers.shutdown(wait, cancel_futures=cancel_futures)
        super().shutdown(wait, cancel_futures=cancel_futures)
