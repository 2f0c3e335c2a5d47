"""The hot requests without a thread each: heads of references, contents in memory, commits in groups.

Heads are always read from the database, since other processes may move them; requests that arrive while a
query runs share the next one.  What is not in memory is read in a thread.  No answer is older than its request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack

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
from nessie_ops.versioning.reading import is_transaction

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")


Waiting = dict[str, list[asyncio.Future[Reference]]]


class Live:
    """A version store for handlers that run in the event loop."""

    def __init__(self, store: VersionStore) -> None:
        self.store = self._store = store
        self._waiting: Waiting = {}
        self._asked: Waiting = {}  # by the query under way
        self._task: asyncio.Task[None] | None = None
        self._watched = store.watch_references()
        # A thread of its own: heads are read even when all other threads wait for something.
        self._head_reader = ThreadPoolExecutor(1, thread_name_prefix="nessie-ops-heads")
        # One group is written at a time; the next one may start before the thread of the last has ended.
        self._leaders = ThreadPoolExecutor(2, thread_name_prefix="nessie-ops-commit")

    async def resolve(self, spec: ReferenceSpec) -> Reference | Detached:
        """The reference with the commit that `spec` names as its hash; ReferenceNotFound, BadRequest."""
        if spec.name is not None and spec.hash is None and not spec.steps and not is_transaction(spec.name):
            return await self.get_reference(spec.name)
        return await in_thread(self._store.resolve, spec)

    async def get_reference(self, name: str) -> Reference:
        """The branch or tag `name` with its head; ReferenceNotFound."""
        if is_transaction(name):  # which may be moved to where it shall be read
            return await in_thread(self._store.get_reference, name)
        if self._store.reads_inline:
            return self._store.get_reference(name)
        future: asyncio.Future[Reference] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(future)
        if not self._asked:
            self._ask()
        return await future

    def _ask(self) -> None:
        """Begin the query for all that wait: over the connection that the loop watches, or else in a thread."""
        self._asked, self._waiting = self._waiting, {}
        heads = self._watched.heads if self._watched else None
        if heads and heads.fileno is not None:
            try:
                heads.send(list(self._asked))
                return
            except Exception:  # the thread says what is wrong with the database, or that nothing is
                self._forget_connection()
        self._task = asyncio.create_task(self._ask_in_thread())

    async def _ask_in_thread(self) -> None:
        try:
            found = await self._in_reader(self._store.get_references, list(self._asked))
            await self._connect()
        except Exception as error:
            failure = error
            self._settle(lambda _name: failure)
        else:
            self._settle(lambda name: found.get(name) or _not_found(name))

    async def _in_reader(self, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._head_reader, function, *args)

    def _settle(self, answer: Callable[[str], Reference | Exception]) -> None:
        """Answer those who asked, and begin the query for those who came later."""
        for name, futures in self._asked.items():
            for future in futures:
                if future.done():
                    continue  # its client has gone
                found = answer(name)
                if isinstance(found, Exception):
                    future.set_exception(found)
                else:
                    future.set_result(found)
        self._asked = {}
        if self._waiting:
            self._ask()

    async def _connect(self) -> None:
        """Open the connection that the loop watches, if there may be one and is none."""
        heads = self._watched.heads if self._watched else None
        if heads and heads.fileno is None:
            with contextlib.suppress(Exception):  # the next query tries again
                await self._in_reader(heads.connect)
                assert heads.fileno is not None
                asyncio.get_running_loop().add_reader(heads.fileno, self._on_readable)

    def _on_readable(self) -> None:
        assert self._watched
        try:
            found = self._watched.receive()
        except Exception:
            self._forget_connection()
            if self._asked:
                self._task = asyncio.create_task(self._ask_in_thread())
            return
        if found is not None:
            self._settle(lambda name: found.get(name) or _not_found(name))

    def _forget_connection(self) -> None:
        assert self._watched
        heads = self._watched.heads
        if heads.fileno is not None:
            asyncio.get_running_loop().remove_reader(heads.fileno)
        heads.close()

    async def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist at commit `at`, in the order of `keys`."""
        wanted = list(keys)
        found = self._store.find_cached_contents(at, wanted)
        return await in_thread(self._store.get_contents, at, wanted) if found is None else found

    async def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """See VersionStore.commit."""
        if is_transaction(branch):  # what it says to be unchanged is recorded
            return await in_thread(self._store.commit, branch, expected, meta, operations)
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
    """The result of a call in one of the server's threads, in a context of its own: the thread's is everybody's."""
    call: Any = function if not kwargs else lambda *given: function(*given, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(None, copy_context().run, call, *args)


def _not_found(name: str) -> ReferenceNotFound:
    return ReferenceNotFound(f"Named reference '{name}' not found")
