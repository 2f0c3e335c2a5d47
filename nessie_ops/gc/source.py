"""What a collection reads of a catalog: references, lines of commits, and what is visible at a commit.

`Catalog` reads our own version store or, through the client, any server that speaks Nessie's REST API v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from nessie_ops.errors import ContentNotFound, NessieOpsError
from nessie_ops.model import (
    NO_ANCESTOR,
    UDF,
    CommitHash,
    Content,
    ContentKey,
    Delete,
    Entry,
    IcebergTable,
    IcebergView,
    PutLog,
    Reference,
)

FIRST_PAGE = 16  # commits asked for first on a line: most branches soon join one that is known
LAST_PAGE = 1000
_UNKNOWN_PATH = (400, 404, 405)  # what servers answer that have no reference log
ENTRIES = 1000  # rows of one page of a listing
_ALL = 2**31 - 1  # more references than there are


class Version(NamedTuple):
    """One state of a table, view or function: a metadata file and the snapshot or view version in it (-1: none)."""

    content_id: str
    is_table: bool
    metadata_location: str
    snapshot_id: int


class Put(NamedTuple):
    """A version under the key by which a commit put it."""

    key: ContentKey
    version: Version


class Commit(NamedTuple):
    """A commit with the tables and views that it put."""

    hash: CommitHash
    parent: CommitHash
    time: datetime
    puts: tuple[Put, ...]


class Past(NamedTuple):
    """A commit at which a reference was until some time."""

    hash: CommitHash
    until: datetime
    name: str


class Source(Protocol):
    """Where a mark reads from."""

    def references(self) -> Iterator[Reference]:
        """All branches and tags with the commits they are at."""

    def line(self, at: CommitHash) -> Iterator[Commit]:
        """The commit `at`, its direct parent, and so on, fetched in pages as they are needed."""

    def visible(self, at: CommitHash) -> Iterator[Put]:
        """Every table and view at a commit."""

    def past(self) -> Iterator[Past]:
        """Commits at which references were; none where the catalog keeps no log of them."""


class Catalog:
    """A source: `catalog` is a versioning.Reader or a client.Client, whose methods are the same."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self.fetched = 0  # commits, so that tests can count

    def references(self) -> Iterator[Reference]:
        """All branches and tags with the commits they are at.

        In one call: where a page begins is told by tokens, which another server makes in its own way.
        """
        yield from self._catalog.list_references(limit=_ALL, hidden=True)

    def line(self, at: CommitHash) -> Iterator[Commit]:
        """The commit `at`, its direct parent, and so on, fetched in pages as they are needed."""
        size = FIRST_PAGE
        while at != NO_ANCESTOR:
            page = self._catalog.list_log(at, limit=size, with_operations=True)
            if not page:
                return
            self.fetched += len(page)
            for entry in page:
                hash, at = entry.commit_meta.hash, entry.parent_commit_hash
                yield Commit(hash, at, entry.commit_meta.commit_time, tuple(self._puts_of(hash, entry.operations)))
            size = min(2 * size, LAST_PAGE)

    def visible(self, at: CommitHash) -> Iterator[Put]:
        """Every table and view at a commit."""
        first: ContentKey | None = None
        while True:
            rows = self._catalog.list_entries(at, first=first, limit=ENTRIES + 1, with_content=True)
            yield from _puts(self._contents_of(at, rows[:ENTRIES]))
            if len(rows) <= ENTRIES:
                return
            first = rows[ENTRIES].name

    def _puts_of(self, at: CommitHash, operations: Sequence[PutLog | Delete] | None) -> Iterator[Put]:
        if operations is None:  # a server may not know them; what the commit put is visible there
            return self.visible(at)
        return _puts((put.key, put.content) for put in operations if isinstance(put, PutLog))

    def _contents_of(self, at: CommitHash, rows: Sequence[Entry]) -> Iterator[tuple[ContentKey, Content]]:
        """The contents of entries; ContentNotFound rather than leave one out that a server does not tell."""
        bare = [row.name for row in rows if row.content is None]  # a server may list names alone
        found = self._catalog.get_contents(at, bare) if bare else {}
        for row in rows:
            content = row.content or found.get(row.name)
            if content is None:
                raise ContentNotFound(f"The server lists '{row.name}' at {at}, but not its content.", row.name)
            yield row.name, content

    def past(self) -> Iterator[Past]:
        """Commits at which references were, which may be gone by now; none from a server without a reference log."""
        seq = 0
        while True:
            try:
                moves = self._catalog.list_moves(after_seq=seq, limit=ENTRIES)
            except NessieOpsError as error:
                if error.http_status in _UNKNOWN_PATH:
                    return
                raise
            yield from (
                Past(move.before, move.at, move.name) for move in moves if move.before not in (None, move.after)
            )
            if len(moves) < ENTRIES:
                return
            seq = moves[-1].seq


def _puts(contents: Iterable[tuple[ContentKey, Content]]) -> Iterator[Put]:
    for key, content in contents:
        if isinstance(content, IcebergTable):
            yield Put(key, Version(str(content.id), True, content.metadata_location, content.snapshot_id))
        elif isinstance(content, IcebergView):
            yield Put(key, Version(str(content.id), False, content.metadata_location, content.version_id))
        elif isinstance(content, UDF) and content.metadata_location:
            yield Put(key, Version(str(content.id), False, content.metadata_location, -1))
