"""A source that is any Iceberg catalog: each table is a reference, each of its snapshots a commit that put it.

So the cutoff policies choose snapshots of tables by the tables' names, where they choose commits of references
elsewhere.  Without history there are no dropped tables to find.  PyIceberg does not tell where a view's metadata is,
so a catalog with a view in the folder of a table is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

from pyiceberg.exceptions import NoSuchTableError, NoSuchViewError

from nessie_ops.errors import BadRequest, NessieOpsError, ReferenceNotFound, StoreUnavailable
from nessie_ops.gc.places import NotAPlace, list_folders, place_of
from nessie_ops.gc.source import Commit, Past, Put, Version
from nessie_ops.model import NO_ANCESTOR, Branch, CommitHash, ContentKey, Reference

T = TypeVar("T")
Identifier = tuple[str, ...]


class PlainCatalog:
    """A source: `catalog` is a pyiceberg.catalog.Catalog; `explain` makes of its errors what people may read."""

    def __init__(self, catalog: Any, explain: Callable[[Exception], str] = str) -> None:
        self._catalog, self._explain = catalog, explain
        self._commits: dict[CommitHash, Commit] = {}
        self._views: dict[str, str] | None = None  # names by place

    def references(self) -> Iterator[Reference]:
        """All tables by name, each at its current metadata; one that is dropped meanwhile is left out.

        BadRequest for a view in a table's folder; any other error is one that names the table.
        """
        views = self._list_views()
        for identifier in sorted(self._list("list_tables")):
            name = ".".join(identifier)
            table = self._load(identifier)
            if table is not None:
                _check_alone(name, str(table.metadata.location), views)
                yield Branch(name, self._remember(ContentKey(identifier), table))

    def line(self, at: CommitHash) -> Iterator[Commit]:
        """The snapshots of a table, newest first; ReferenceNotFound when its metadata is another one by now."""
        while at != NO_ANCESTOR:
            if at not in self._commits:
                self._refresh()
            if at not in self._commits:
                raise ReferenceNotFound("A table has changed since the mark pinned it: begin a new mark.")
            commit = self._commits[at]
            yield commit
            at = commit.parent

    def visible(self, at: CommitHash) -> Iterator[Put]:
        """The table as one of its commits put it; nothing when its metadata is another one by now."""
        if at not in self._commits:
            self._refresh()
        if at in self._commits:
            yield from self._commits[at].puts

    def past(self) -> Iterator[Past]:
        """None: these catalogs keep no log of what they held."""
        yield from ()

    def _refresh(self) -> None:
        for _ in self.references():
            pass

    def _load(self, identifier: Identifier) -> Any:
        """The table; None when it is not there any more."""
        try:
            return self._ask(f"table {'.'.join(identifier)}", lambda: self._catalog.load_table(identifier))
        except NoSuchTableError:
            return None

    def _list_views(self) -> dict[str, str]:
        """Names of views by the places of their folders, read once; none where catalogs know no views."""
        if self._views is None:
            self._views = {}
            for identifier in self._list("list_views"):
                name = ".".join(identifier)
                try:
                    view = self._ask(f"view {name}", lambda found=identifier: self._catalog.load_view(found))  # type: ignore[misc]
                    self._views[place_of(view.metadata.location)] = name
                except (NoSuchViewError, NotAPlace):
                    continue
        return self._views

    def _list(self, method: str, namespace: Identifier = ()) -> Iterator[Identifier]:
        """All tables or views in the namespaces below this one."""
        for child in self._ask("its namespaces", lambda: self._catalog.list_namespaces(namespace)):
            if len(child) > len(namespace):  # some catalogs list all levels, some the children alone
                yield from self._ask(f"namespace {'.'.join(child)}", lambda ns=child: self._list_in(method, ns))  # type: ignore[misc]
                yield from self._list(method, child)

    def _list_in(self, method: str, namespace: Identifier) -> list[Identifier]:
        try:
            return list(getattr(self._catalog, method)(namespace))
        except NotImplementedError:
            return []

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except (NoSuchTableError, NoSuchViewError, NessieOpsError):
            raise
        except Exception as error:  # catalogs raise the exceptions of their libraries
            raise StoreUnavailable(f"catalog: {what} cannot be read: {self._explain(error)}") from error

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


def _check_alone(table: str, location: str, views: dict[str, str]) -> None:
    """BadRequest when a view's folder lies in that of a table, whose files could then be taken for dead ones."""
    try:
        place = place_of(location)
    except NotAPlace:
        return  # the expansion says so, and keeps all of the table's files
    for folder, view in views.items():
        if place in list_folders(folder):
            raise BadRequest(
                f"catalog: the view {view} lies in the folder of the table {table}, and PyIceberg does not tell which "
                "files are the view's: move one of the two."
            )
