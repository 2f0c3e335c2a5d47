"""BufferedTransaction: puts and deletes of many tables that become one commit, and reads that see them.

Nothing is sent before the commit, which is one request: it is there whole, or not at all, and a transaction that is
forgotten leaves nothing behind.  What each level of isolation sees and checks:

    READ_COMMITTED   what is not written yet is read at the branch's head; a key that is written must still be as it
                     was when it was read last, or, if it never was, when it was written first
    REPEATED_READ    all is read at the start; what is written must still be as it was then
    SERIALIZABLE     the same, and so must all that was read, listings included

A catalog is a version store or a client of one; this knows neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import NamedTuple, Protocol, Self

import msgspec
from msgspec import UNSET

from nessie_ops.buffering.blame import MAX_LOG, find_changes, tell
from nessie_ops.errors import BadRequest, ContentNotFound, ReferenceConflict, TransactionConflict, TransactionNotOpen
from nessie_ops.model import (
    Branch,
    CommitHash,
    CommitResult,
    Conflict,
    ConflictType,
    Content,
    ContentId,
    ContentKey,
    Delete,
    Entry,
    Isolation,
    LogEntry,
    NewCommit,
    Operation,
    Put,
    Reference,
    Unchanged,
    UnchangedRange,
)

MAX_ROWS = 10_000  # of one listing, as of the catalog's
_NO_ID = ContentId("")  # of contents that the commit will give one


class Catalog(Protocol):
    """What a transaction asks of a version store, or of a client of one."""

    def get_reference(self, name: str, /) -> Reference: ...
    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey], /) -> Mapping[ContentKey, Content]: ...
    def list_entries(
        self,
        at: CommitHash,
        /,
        *,
        prefix: ContentKey | None = ...,
        first: ContentKey | None = ...,
        last: ContentKey | None = ...,
        limit: int = ...,
        with_content: bool = ...,
    ) -> list[Entry]: ...
    def list_log(
        self, at: CommitHash, /, *, limit_hash: CommitHash | None = ..., limit: int = ..., with_operations: bool = ...
    ) -> list[LogEntry]: ...
    def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation], /
    ) -> CommitResult: ...


class _Write(NamedTuple):
    """What becomes of a key: its new content, or None when it goes; `replaces`: one is dropped and another created."""

    content: Content | None
    replaces: bool = False


class BufferedTransaction:
    """A context manager: the block's end commits, unless an exception ends it.  For one thread."""

    def __init__(
        self,
        catalog: Catalog,
        on: str,
        isolation: Isolation = Isolation.SERIALIZABLE,
        meta: NewCommit | None = None,
        *,
        start: CommitHash | None = None,
    ) -> None:
        """Begin at the head of the branch `on`, or at its commit `start`; ReferenceNotFound, BadRequest (a tag)."""
        self.on, self.isolation = on, isolation
        self.meta = meta or NewCommit(message="")
        self.start_hash = start or _get_head(catalog, on)
        self.result: CommitResult | None = None
        self._catalog = catalog
        self._is_open = True
        self._writes: dict[ContentKey, _Write] = {}
        self._bases: dict[ContentKey, CommitHash] = {}  # READ_COMMITTED: at which commit a key was seen last
        self._reads: dict[ContentKey, bool] = {}  # whether it was there
        self._checks: dict[ContentKey, bool] = {}  # what must be unchanged at any level, and whether it was there
        self._ranges: dict[UnchangedRange, None] = {}  # in order, once each

    # -- reading ------------------------------------------------------------------------------

    def get_contents(self, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist for this transaction, in the order of `keys`; all of one state.

        What was put without a content id has none before the commit.
        """
        self._require_open()
        wanted = list(keys)
        others = [key for key in wanted if key not in self._writes]
        found = dict(self._read(others)) if others else {}
        found |= {key: write.content for key, write in self._writes.items() if write.content is not None}
        return {key: found[key] for key in wanted if key in found}

    def get(self, key: ContentKey) -> Content | None:
        """One content, or None."""
        return self.get_contents([key]).get(key)

    def list_entries(
        self,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = MAX_ROWS,
        with_content: bool = False,
    ) -> list[Entry]:
        """Entries in key order: `prefix` and all below it, or `first` to `last` inclusive, as the catalog's."""
        self._require_open()
        asked = UnchangedRange(prefix, first, last, with_content)
        more = limit + len(self._writes)  # as many as the buffer may hide
        rows = self._catalog.list_entries(
            self._now(), prefix=prefix, first=first, last=last, limit=more, with_content=with_content
        )
        if self.isolation is Isolation.SERIALIZABLE:
            self._ranges[asked] = None
        end = rows[-1].name if len(rows) == more else None  # what the buffer holds behind it is for the next page
        merged = {row.name: row for row in rows if row.name not in self._writes}
        for key, write in self._writes.items():
            if write.content is not None and _is_in(asked, key) and (end is None or not end < key):
                merged[key] = _to_entry(key, write.content, with_content)
        return [merged[key] for key in sorted(merged)][:limit]

    def _read(self, keys: Sequence[ContentKey]) -> Mapping[ContentKey, Content]:
        at = self._now()
        found = self._catalog.get_contents(at, keys)
        if self.isolation is Isolation.READ_COMMITTED:
            self._bases |= dict.fromkeys(keys, at)
        if self.isolation is Isolation.SERIALIZABLE:
            self._reads |= {key: key in found for key in keys}
        return found

    def _find(self, keys: Sequence[ContentKey]) -> Mapping[ContentKey, Content]:
        """Contents of keys that have been seen, as they were then; what is based on them stays so."""
        if self.isolation is not Isolation.READ_COMMITTED:
            return self._read(keys)
        found: dict[ContentKey, Content] = {}
        for key in keys:
            found |= self._catalog.get_contents(self._bases[key], [key])
        return found

    def _now(self) -> CommitHash:
        """The commit that is read."""
        is_moving = self.isolation is Isolation.READ_COMMITTED
        return _get_head(self._catalog, self.on) if is_moving else self.start_hash

    # -- writing ------------------------------------------------------------------------------

    def put(self, key: ContentKey, content: Content) -> None:
        """Create a content, or, with its content id, update it or move it here from a key that is deleted."""
        self._require_open()
        before = self._writes.get(key.validated())
        replaces = before is not None and (before.content is None or before.replaces) and content.id is UNSET
        self._see(key)
        self._writes[key] = _Write(content, replaces)

    def delete(self, key: ContentKey) -> None:
        """Remove a content; ContentNotFound when there is none for this transaction."""
        if self.get(key) is None:
            raise ContentNotFound(f"There is no content '{key}' on {self.on}.", key)
        self._delete(key)

    def require_unchanged(self, key: ContentKey) -> None:
        """Commit only if `key` is then as it is now for this transaction, at any level of isolation."""
        self._require_open()
        self._see(key.validated())
        self._checks.setdefault(key, bool(self._find([key])))

    def apply(self, operations: Iterable[Operation]) -> None:
        """Buffer operations of a commit, in their order; what cannot be is for the commit to say."""
        for operation in operations:
            if isinstance(operation, Put):
                self.put(operation.key, operation.content)
            elif isinstance(operation, Delete):
                self._delete(operation.key)
            elif isinstance(operation, Unchanged):
                self.require_unchanged(operation.key)
            else:
                self._ranges[operation] = None

    def _delete(self, key: ContentKey) -> None:
        self._require_open()
        before = self._writes.get(key.validated())
        self._see(key)
        if before is None or before.content is None or before.replaces or self._find([key]):
            self._writes[key] = _Write(None)
        else:
            del self._writes[key]  # created here, and gone again

    def _see(self, key: ContentKey) -> None:
        """At READ_COMMITTED a key that was never read is taken as it is when it is written first."""
        if self.isolation is Isolation.READ_COMMITTED and key not in self._bases:
            self._bases[key] = self._now()

    # -- the end ------------------------------------------------------------------------------

    def commit(self, message: str = "") -> CommitResult | None:
        """Commit what was written; None when that is nothing.

        TransactionConflict names the tables that others changed, and who did; the transaction is over then, too, as
        after every other error.
        """
        try:
            return self.send(message)
        except TransactionConflict:
            raise
        except ReferenceConflict as error:
            raise self._blame(error.conflicts) from error

    def rollback(self) -> None:
        """Forget what was written.  Nothing of it is known to anybody."""
        self._is_open = False

    def send(self, message: str = "") -> CommitResult | None:
        """`commit`, with the conflicts as the catalog tells them: ReferenceConflict."""
        self._require_open()
        self._is_open = False
        if self._writes:
            base = self._check_bases() if self.isolation is Isolation.READ_COMMITTED else self.start_hash
            meta = msgspec.structs.replace(self.meta, message=message) if message else self.meta
            if not meta.message:
                meta = msgspec.structs.replace(meta, message=self._describe())
            self.result = self._catalog.commit(self.on, base, meta, self.operations)
        return self.result

    @property
    def operations(self) -> list[Operation]:
        """What the commit consists of by now."""
        seen = {key: is_there for key, is_there in (self._reads | self._checks).items() if key not in self._writes}
        checks = (key for key, is_there in seen.items() if is_there)
        absent = (key for key, is_there in seen.items() if not is_there)
        found: list[Operation] = []
        for key in sorted(self._writes):
            content, replaces = self._writes[key]
            found += [Delete(key)] if content is None or replaces else []
            found += [Put(key, content)] if content is not None else []
        found += [Unchanged(key) for key in sorted(checks)]
        found += [UnchangedRange(first=key, last=key) for key in sorted(absent)]
        return found + list(self._ranges)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _check_bases(self) -> CommitHash:
        """READ_COMMITTED: the head, at which all that is written is as it was seen; else TransactionConflict."""
        head = _get_head(self._catalog, self.on)
        seen: dict[CommitHash, list[ContentKey]] = {}
        for key in {*self._writes, *self._checks}:
            seen.setdefault(self._bases[key], []).append(key)
        seen.pop(head, None)
        conflicts = []
        for at, keys in seen.items():
            before, after = self._catalog.get_contents(at, keys), self._catalog.get_contents(head, keys)
            conflicts += [_to_conflict(key, key in before) for key in keys if before.get(key) != after.get(key)]
        if conflicts:
            raise self._blame(sorted(conflicts, key=lambda conflict: str(conflict.key)))
        return head

    def _blame(self, conflicts: Sequence[Conflict]) -> TransactionConflict:
        keys = {conflict.key for conflict in conflicts if conflict.key}
        head = _get_head(self._catalog, self.on)
        log = self._catalog.list_log(head, limit_hash=self.start_hash, limit=MAX_LOG, with_operations=True)
        return tell("The transaction", self.on, conflicts, find_changes(log, keys, self.start_hash))

    def _describe(self) -> str:
        names = [str(key) for key in sorted(self._writes)]
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        return f"Change {', '.join(names[:5])}{more}"

    def _require_open(self) -> None:
        if not self._is_open:
            raise TransactionNotOpen("The transaction has ended; begin another one.")


def _get_head(catalog: Catalog, name: str) -> CommitHash:
    found = catalog.get_reference(name)
    if not isinstance(found, Branch):
        raise BadRequest(f"on: '{name}' is a tag, which is read-only; name a branch to write to.")
    return found.hash


def _is_in(asked: UnchangedRange, key: ContentKey) -> bool:
    above = asked.prefix.elements if asked.prefix else ()
    return (
        key.elements[: len(above)] == above
        and not (asked.first and key < asked.first)
        and not (asked.last and asked.last < key)
    )


def _to_entry(key: ContentKey, content: Content, with_content: bool) -> Entry:
    id = _NO_ID if content.id is UNSET else ContentId(str(content.id))
    return Entry(content.type, key, id, content if with_content else None)


def _to_conflict(key: ContentKey, was_there: bool) -> Conflict:
    kind = ConflictType.VALUE_DIFFERS if was_there else ConflictType.KEY_EXISTS
    return Conflict(kind, key, f"key '{key}' has been changed since the transaction saw it")
