"""A source that is any Iceberg catalog: each table is a reference, each of its snapshots a commit that put it.

So the cutoff policies choose snapshots of tables by the tables' names, where they choose commits of references
elsewhere.  Without history there are no dropped tables to find.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyiceberg.exceptions import NoSuchTableError

from nessie_ops.gc.source import Commit, Past, Put, Version
from nessie_ops.model import NO_ANCESTOR, Branch, CommitHash, ContentKey, Reference


class PlainCatalog:
    """A source: `catalog` is a pyiceberg.catalog.Catalog."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._commits: dict[CommitHash, Commit] = {}

    def references(self) -> Iterator[Reference]:
        """All tables by name, each at its current metadata; one that is dropped meanwhile is left out."""
        for identifier in sorted(self._list_tables(())):
            try:
                table = self._catalog.load_table(identifier)
            except NoSuchTableError:
                continue
            yield Branch(".".join(identifier), self._remember(ContentKey(identifier), table))

    def line(self, at: CommitHash) -> Iterator[Commit]:
        """The snapshots of a table, newest first."""
        while at != NO_ANCESTOR:
            commit = self._commits[at]
            yield commit
            at = commit.parent

    def visible(self, at: CommitHash) -> Iterator[Put]:
        """The table as one of its commits put it."""
        yield from self._commits[at].puts

    def past(self) -> Iterator[Past]:
        """None: these catalogs keep no log of what they held."""
        yield from ()

    def _list_tables(self, namespace: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for child in self._catalog.list_namespaces(namespace):
            if len(child) > len(namespace):  # some catalogs list all levels, some the children alone
                yield from self._catalog.list_tables(child)
                yield from self._list_tables(child)

    def _remember(self, key: ContentKey, table: Any) -> CommitHash:
        """The commits of a table as it is now; the hash of the newest, which is another one whenever it changes."""
        metadata, location = table.metadata, table.metadata_location
        snapshots = sorted(metadata.snapshots, key=lambda each: (each.timestamp_ms, each.sequence_number or 0))
        hash = NO_ANCESTOR
        states = [(each.snapshot_id, each.timestamp_ms) for each in snapshots]
        current = metadata.current_snapshot_id
        if not states or states[-1][0] != current:  # empty, or rolled back
            states.append((-1 if current is None else current, metadata.last_updated_ms))
        for snapshot_id, changed_ms in states:
            text = f"{hash} {metadata.table_uuid} {snapshot_id} {location}"
            parent, hash = hash, CommitHash(hashlib.sha256(text.encode()).hexdigest())
            put = Put(key, Version(str(metadata.table_uuid), True, location, snapshot_id))
            self._commits[hash] = Commit(hash, parent, datetime.fromtimestamp(changed_ms / 1000, UTC), (put,))
        return hash
