"""Listings that every version of the API shares: references, log, entries, differences, each with filter and token.

A listing is pinned to the commits at which its first page began.  The token of a next page addresses
that page's first row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    NO_ANCESTOR,
    CommitHash,
    ContentId,
    ContentKey,
    Detached,
    DiffEntry,
    Entry,
    LogEntry,
    Reference,
    ReferenceSpec,
    ReferenceType,
    Tag,
    check_name,
    parse_hash,
)
from nessie_ops.model.wire import ReferenceMetadata, ReferencePosition
from nessie_ops.server.filter_variables import ListedReference
from nessie_ops.server.filters import MAX_SCAN, Filter, chunks, select
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.versioning.versionstore import VersionStore

CHUNK = 500  # rows that a filter is given per query
LOG_CHUNK = 250
MAX_LOG_OPERATIONS = 20_000  # in a page of a log, but for the operations of its last commit: some 10 MB
MAX_METADATA_SCAN = 250  # references whose metadata a filter looks at: each costs a walk of the commit graph

R = TypeVar("R")


class Listing(NamedTuple, Generic[R]):
    """A page; `token` asks for the next one and is None on the last."""

    rows: list[R]
    token: str | None


class ReferenceRow:
    """A reference, the one before it, and what `fetch=ALL` adds, read when somebody asks."""

    def __init__(
        self, store: VersionStore, reference: Reference, after: ReferencePosition | None, default: CommitHash | None
    ):
        self._store, self._default = store, default
        self.reference, self.after = reference, after

    @cached_property
    def metadata(self) -> ReferenceMetadata | None:
        return None if self._default is None else get_metadata(self._store, self.reference, self._default)


def get_metadata(store: VersionStore, reference: Reference, default: CommitHash) -> ReferenceMetadata | None:
    """How a reference lies to the default branch, whose head is `default`; None for a reference without commits."""
    if reference.hash == NO_ANCESTOR:
        return None
    apart = store.compare(reference.hash, default)
    compared = not isinstance(reference, Tag) and reference.name != store.default_branch
    return ReferenceMetadata(
        num_commits_ahead=apart.ahead if compared else None,
        num_commits_behind=apart.behind if compared else None,
        commit_meta_of_head=store.get_commit(reference.hash),
        common_ancestor_hash=apart.common_ancestor if compared else None,
        num_total_commits=apart.total,
    )


def list_references(
    store: VersionStore,
    *,
    prefix: str,
    hidden: bool,
    full: bool,
    wanted: Filter[ListedReference] | None,
    limit: int,
    token: str | None,
) -> Listing[ReferenceRow]:
    """Branches, then tags, whose names begin with `prefix`; rows have metadata when `full`."""
    after = read_token(token, ReferencePosition)
    if after:
        check_name(after.name, "page-token")
    default = store.get_reference(store.default_branch).hash if full else None
    size = CHUNK if wanted else limit + 1

    def load(position: ReferencePosition | None) -> list[ReferenceRow]:
        found = store.list_references(
            prefix=prefix, after=(position.type, position.name) if position else None, limit=size, hidden=hidden
        )
        before = [position, *map(_position_of, found)]
        return [ReferenceRow(store, reference, last, default) for reference, last in zip(found, before, strict=False)]

    rows = chunks(load(after), lambda last, _: load(_position_of(last.reference)), size)
    page, following = select(rows, wanted, limit, scan=MAX_METADATA_SCAN if full else MAX_SCAN)
    return Listing(page, make_token(following.after) if following and following.after else None)


def _position_of(reference: Reference) -> ReferencePosition:
    return ReferencePosition(ReferenceType.TAG if isinstance(reference, Tag) else ReferenceType.BRANCH, reference.name)


class _NextCommit(msgspec.Struct, frozen=True):
    """Where a log goes on."""

    at: CommitHash


def list_log(
    store: VersionStore,
    at: CommitHash,
    *,
    limit_hash: CommitHash | None,
    full: bool,
    wanted: Filter[LogEntry] | None,
    limit: int,
    token: str | None,
) -> Listing[LogEntry]:
    """Commits from `at` back to `limit_hash`, whether or not the filter wants that one; operations when `full`."""
    start = read_token(token, _NextCommit)
    begin = parse_hash(start.at, "page-token") if start else at
    rows = _load_log(store, begin, limit_hash, full, LOG_CHUNK if wanted else limit + 1)
    page, following = select(rows, wanted, limit, weigh=_count_operations, capacity=MAX_LOG_OPERATIONS)
    return Listing(page, make_token(_NextCommit(following.commit_meta.hash)) if following else None)


def _load_log(
    store: VersionStore, begin: CommitHash, limit_hash: CommitHash | None, full: bool, size: int
) -> Iterator[LogEntry]:
    while begin != NO_ANCESTOR:
        rows = store.list_log(
            begin, limit_hash=limit_hash, limit=size, with_operations=full, max_operations=MAX_LOG_OPERATIONS
        )
        yield from rows
        begin = NO_ANCESTOR if rows[-1].commit_meta.hash == limit_hash else rows[-1].parent_commit_hash


def _count_operations(entry: LogEntry) -> int:
    return len(entry.operations or ())


class KeyRange(NamedTuple):
    """The keys that a request asks for; `only` None means all in the range."""

    prefix: ContentKey | None = None
    first: ContentKey | None = None
    last: ContentKey | None = None
    only: tuple[ContentKey, ...] | None = None

    def select(self) -> list[ContentKey]:
        """Those of `only` that lie in the range, in order."""
        return [key for key in sorted(set(self.only or ())) if self._covers(key)]

    def starting(self, key: ContentKey | None) -> KeyRange:
        """The part of this range from `key` on."""
        return self._replace(first=max(self.first, key) if self.first and key else self.first or key)

    def _covers(self, key: ContentKey) -> bool:
        if self.prefix and key.elements[: len(self.prefix.elements)] != self.prefix.elements:
            return False
        return not ((self.first and key < self.first) or (self.last and self.last < key))


class _Position(msgspec.Struct, frozen=True):
    """Where a listing of keys goes on, and the commits that it lists."""

    key: ContentKey
    at: tuple[CommitHash, ...]


def _read_position(token: str | None, commits: int) -> _Position | None:
    start = read_token(token, _Position)
    if start and len(start.at) != commits:
        raise BadRequest("page-token: it belongs to another kind of listing.")
    if start:
        start.key.validated()
        for commit in start.at:
            parse_hash(commit, "page-token")
    return start


def _resolve(store: VersionStore, spec: ReferenceSpec, start: _Position | None, side: int = 0) -> Reference | Detached:
    return store.resolve(ReferenceSpec(spec.name, start.at[side]) if start else spec)


def list_entries(
    store: VersionStore,
    spec: ReferenceSpec,
    keys: KeyRange,
    *,
    with_content: bool,
    wanted: Filter[Entry] | None,
    limit: int,
    token: str | None,
) -> tuple[Reference | Detached, Listing[Entry]]:
    """The reference that is listed, and its entries in key order."""
    start = _read_position(token, 1)
    effective = _resolve(store, spec, start)
    keys = keys.starting(start.key if start else None)
    rows = _load_entries(store, effective.hash, keys, with_content, CHUNK if wanted else limit + 1)
    page, following = select(rows, wanted, limit)
    position = _Position(following.name, (effective.hash,)) if following else None
    return effective, Listing(page, make_token(position) if position else None)


def _load_entries(
    store: VersionStore, at: CommitHash, keys: KeyRange, with_content: bool, size: int
) -> Iterator[Entry]:
    def load(first: ContentKey | None, count: int) -> list[Entry]:
        return store.list_entries(
            at, prefix=keys.prefix, first=first, last=keys.last, limit=count, with_content=with_content
        )

    if keys.only is None:
        yield from chunks(load(keys.first, size), lambda last, count: load(last.name, count + 1)[1:], size)
        return
    for key, content in store.get_contents(at, keys.select()).items():
        yield Entry(content.type, key, ContentId(str(content.id)), content if with_content else None)


def list_diffs(
    store: VersionStore,
    before_spec: ReferenceSpec,
    after_spec: ReferenceSpec,
    keys: KeyRange,
    *,
    wanted: Filter[DiffEntry] | None,
    limit: int,
    token: str | None,
) -> tuple[Reference | Detached, Reference | Detached, Listing[DiffEntry]]:
    """Both references, and the keys whose values differ between them, in key order."""
    start = _read_position(token, 2)
    before, after = _resolve(store, before_spec, start), _resolve(store, after_spec, start, 1)
    keys = keys.starting(start.key if start else None)
    rows = _load_diffs(store, before.hash, after.hash, keys, CHUNK if wanted else limit + 1)
    page, following = select(rows, wanted, limit)
    position = _Position(following.key, (before.hash, after.hash)) if following else None
    return before, after, Listing(page, make_token(position) if position else None)


def _load_diffs(
    store: VersionStore, before: CommitHash, after: CommitHash, keys: KeyRange, size: int
) -> Iterator[DiffEntry]:
    def load(first: ContentKey | None, count: int) -> list[DiffEntry]:
        return store.diff(before, after, prefix=keys.prefix, first=first, last=keys.last, limit=count)

    if keys.only is None:
        yield from chunks(load(keys.first, size), lambda last, count: load(last.key, count + 1)[1:], size)
        return
    selected = keys.select()
    old, new = store.get_contents(before, selected), store.get_contents(after, selected)
    for key in selected:
        if old.get(key) != new.get(key):
            yield DiffEntry(key, old.get(key), new.get(key))
