"""What a collection reads of a catalog: references, lines of commits, and what is visible at a commit.

`Catalog` reads our own version store or, through the client, any server that speaks Nessie's REST API v2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from nessie_ops.errors import NessieOpsError
from nessie_ops.model import (
    NO_ANCESTOR,
    Branch,
    CommitHash,
    Content,
    ContentKey,
    IcebergTable,
    IcebergView,
    PutLog,
    Reference,
    ReferenceType,
)

FIRST_PAGE = 16  # commits asked for first on a line: most branches soon join one that is known
LAST_PAGE = 1000
_UNKNOWN_PATH = (400, 404, 405)  # what servers answer that have no reference log
ENTRIES = 1000  # rows of one page of a listing


class Version(NamedTuple):
    """One state of a table or view: a metadata file and the snapshot or view version inside it (-1: none)."""

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
        """All branches and tags with the commits they are at."""
        after = None
        while page := self._catalog.list_references(after=after, limit=ENTRIES):
            yield from page
            if len(page) < ENTRIES:
                return
            last = page[-1]
            after = (ReferenceType.BRANCH if isinstance(last, Branch) else ReferenceType.TAG, last.name)

    def line(self, at: CommitHash) -> Iterator[Commit]:
        """The commit `at`, its direct parent, and so on, fetched in pages as they are needed."""
        size = FIRST_PAGE
        while at != NO_ANCESTOR:
            page = self._catalog.list_log(at, limit=size, with_operations=True)
            if not page:
                return
            self.fetched += len(page)
            for entry in page:
                puts = tuple(_puts((put.key, put.content) for put in entry.operations or () if isinstance(put, PutLog)))
                at = entry.parent_commit_hash
                yield Commit(entry.commit_meta.hash, at, entry.commit_meta.commit_time, puts)
            size = min(2 * size, LAST_PAGE)

    def visible(self, at: CommitHash) -> Iterator[Put]:
        """Every table and view at a commit."""
        first: ContentKey | None = None
        while True:
            rows = self._catalog.list_entries(at, first=first, limit=ENTRIES + 1, with_content=True)
            yield from _puts((row.name, row.content) for row in rows[:ENTRIES])
            if len(rows) <= ENTRIES:
                return
            first = rows[ENTRIES].name

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


def _puts(contents: Iterable[tuple[ContentKey, Content | None]]) -> Iterator[Put]:
    for key, content in contents:
        if isinstance(content, IcebergTable):
            yield Put(key, Version(str(content.id), True, content.metadata_location, content.snapshot_id))
        elif isinstance(content, IcebergView):
            yield Put(key, Version(str(content.id), False, content.metadata_location, content.version_id))
