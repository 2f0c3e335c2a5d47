"""The hot requests without a thread each: heads of references, contents in memory, commits in groups.

Heads are always read from the database, since other processes may move them; requests that arrive while a
query runs share the next one.  What is not in memory is read in a thread.  No answer is older than its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import (
    CommitHash,
    CommitResult,
    Content,
    ContentKey,
    Detached,
    NewCommit,
    Operation,
    Reference,
    ReferenceSpec,
)
from nessie_ops.store import Job
from nessie_ops.versioning import VersionStore

T = TypeVar("T")
P = ParamSpec("P")


class Live:
    """A version store for handlers that run in the event loop."""

    def __init__(self, store: VersionStore) -> None:
        self.store = self._store = store
        self._waiting: dict[str, asyncio.Future[Reference | None]] = {}
        self._is_reading = False
        self._task: asyncio.Task[None] | None = None
        # One group is written at a time; the next one may start before the thread of the last has ended.
        self._leaders = ThreadPoolExecutor(2, thread_name_prefix="nessie-ops-commit")

    async def resolve(self, spec: ReferenceSpec) -> Reference | Detached:
        """The reference with the commit that `spec` names as its hash; ReferenceNotFound, BadRequest."""
        if spec.name is not None and spec.hash is None and not spec.steps:
            return await self.get_reference(spec.name)
        return await in_thread(self._store.resolve, spec)

    async def get_reference(self, name: str) -> Reference:
        """The branch or tag `name` with its head; ReferenceNotFound."""
        if self._store.reads_inline:
            return self._store.get_reference(name)
        future = self._waiting.get(name)
        if future is None:
            future = self._waiting[name] = asyncio.get_running_loop().create_future()
        if not self._is_reading:
            self._is_reading = True
            self._task = asyncio.create_task(self._read_heads())
        found = await asyncio.shield(future)  # others may wait for the same head
        if found is None:
            raise ReferenceNotFound(f"Named reference '{name}' not found")
        return found

    async def _read_heads(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, {}
                try:
                    found = await in_thread(self._store.get_references, list(asked))
                    for name, future in asked.items():
                        future.set_result(found.get(name))
                except Exception as error:
                    for future in asked.values():
                        future.set_exception(error)
        finally:
            self._is_reading = False

    async def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist at commit `at`, in the order of `keys`."""
        wanted = list(keys)
        found = self._store.find_cached_contents(at, wanted)
        return await in_thread(self._store.get_contents, at, wanted) if found is None else found

    async def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """See VersionStore.commit."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CommitResult] = loop.create_future()

        def settle(job: Job) -> None:
            if not future.cancelled():
                try:
                    future.set_result(job.result())
                except BaseException as error:
                    future.set_exception(error)

        self._store.submit_commit(
            branch,
            expected,
            meta,
            operations,
            lambda job: loop.call_soon_threadsafe(settle, job),
            self._leaders.submit,
        )
        return await future


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The result of a call in one of the server's threads."""
    call: Any = function if not kwargs else lambda *given: function(*given, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, call, *args)
