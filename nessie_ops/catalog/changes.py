"""What changed between two states of the catalog: per table rows, files and bytes, and the schema.

The one place that knows it: `nessie-ops run show`, summaries of branches and what Dagster shows are made of `Change`.
Cheap by design: one diff of the catalog and at most two metadata files for each table that differs; no manifest and
no data is read, so figures are what the writers' snapshot summaries say.  Knows neither runs nor Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from nessie_ops.catalog.schemachanges import list_schema_changes
from nessie_ops.catalog.tablemetadata import TableMetadata, parse_metadata
from nessie_ops.model import CommitHash, Content, ContentKey, ContentType, DiffEntry, IcebergTable

if TYPE_CHECKING:
    from nessie_ops.catalog.catalog import IcebergCatalog

MAX_CHANGES = 1_000  # keys that are described; each costs up to two metadata files

LoadMetadata = Callable[[CommitHash, ContentKey], TableMetadata]
"""The metadata of the table of that name at a commit."""


class Contents(Protocol):
    """A version store, or a client of one."""

    def diff(self, before: CommitHash, after: CommitHash, *, limit: int = ...) -> list[DiffEntry]:
        """Keys that differ."""

    def get_contents(self, at: CommitHash, keys: Sequence[ContentKey]) -> Mapping[ContentKey, Content]:
        """Those of the keys that are there."""


class TableReader(Protocol):
    """A client of the server."""

    def get_table_metadata(self, at: CommitHash, key: ContentKey) -> bytes:
        """JSON."""


class Size(msgspec.Struct, frozen=True):
    """Rows that are not deleted, data and delete files, and their bytes; what equality deletes hide counts as there."""

    rows: int = 0
    files: int = 0
    size_bytes: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """What became of one key: `created`, `changed`, `dropped`, `renamed` (from `was`, maybe changed) or `unchanged`.

    `added` and `removed` sum the snapshots in between, so what was written twice counts twice; files that were
    rewritten (`operation: replace`) count, their rows do not.  When those snapshots are not all there (`is_exact` is
    false), they are the differences of the totals.  Contents other than tables have no figures.
    """

    key: str
    type: str
    change: str
    was: str = ""
    snapshot_before: int | None = None
    snapshot_after: int | None = None
    before: Size = Size()
    after: Size = Size()
    added: Size = Size()
    removed: Size = Size()
    is_exact: bool = True
    schema: tuple[str, ...] = ()


def read_through(client: TableReader) -> LoadMetadata:
    """Metadata by way of a server."""
    return lambda at, key: parse_metadata(client.get_table_metadata(at, key), str(key))


def read_from(catalog: IcebergCatalog) -> LoadMetadata:
    """Metadata of a catalog in this process."""
    return lambda at, key: parse_metadata(catalog.tables.load(f"@{at}", key).metadata, str(key))


def list_changes(catalog: Contents, before: CommitHash, after: CommitHash, load: LoadMetadata) -> list[Change]:
    """The tables, views and namespaces that differ, by key; the first MAX_CHANGES of them."""
    rows = catalog.diff(before, after, limit=MAX_CHANGES)
    dropped = {_id_of(row.before): row for row in rows if row.after is None}
    new = {row.key: dropped.get(_id_of(row.after)) for row in rows if row.before is None and _id_of(row.after)}
    renamed = {key: row for key, row in new.items() if row is not None}
    old_names = {row.key for row in renamed.values()}
    sides = _Sides(before, after, load)
    found: list[Change] = []
    for row in rows:
        if row.key not in old_names:
            source = renamed.get(row.key, row)
            found.append(_describe(sides, source.key, source.before, row.key, row.after))
    return found


def find_change(
    catalog: Contents, before: CommitHash, after: CommitHash, key: ContentKey, load: LoadMetadata
) -> Change:
    """What became of one key; `unchanged`, with its size, when nothing did."""
    old = catalog.get_contents(before, [key]).get(key)
    new = catalog.get_contents(after, [key]).get(key)
    return _describe(_Sides(before, after, load), key, old, key, new)


class _Sides(msgspec.Struct, frozen=True):
    before: CommitHash
    after: CommitHash
    load: LoadMetadata


def _id_of(content: Content | None) -> object:
    return content.id if isinstance(content, IcebergTable) else None


def _describe(sides: _Sides, old_key: ContentKey, old: Content | None, key: ContentKey, new: Content | None) -> Change:
    content = new or old
    kind = str(content.type if content else ContentType.ICEBERG_TABLE)
    change = "created" if old is None else "dropped" if new is None else "changed"
    change = "renamed" if old_key != key else "unchanged" if old == new else change
    was = str(old_key) if old_key != key else ""
    if not isinstance(content, IcebergTable) or not isinstance(old or new, IcebergTable):
        return Change(key=str(key), type=kind, change=change, was=was)
    after = sides.load(sides.after, key) if isinstance(new, IcebergTable) else None
    before = after if old == new else _before(sides, old_key, old, new, after)
    ids = [_snapshot_of(side) for side in (old, new)]
    sizes = [size_of(side, id) for side, id in ((before, ids[0]), (after, ids[1]))]
    added, removed, is_exact = _sums(after, ids[0], ids[1], sizes) if after else (Size(), sizes[0], True)
    schema = _schema(before, old, after) if isinstance(old, IcebergTable) and before and after else ()
    return Change(
        key=str(key),
        type=kind,
        change=change,
        was=was,
        snapshot_before=ids[0],
        snapshot_after=ids[1],
        before=sizes[0],
        after=sizes[1],
        added=added,
        removed=removed,
        is_exact=is_exact,
        schema=schema,
    )


def _before(
    sides: _Sides, key: ContentKey, old: Content | None, new: Content | None, after: TableMetadata | None
) -> TableMetadata | None:
    """Metadata that has the old snapshot and schema: the new one mostly does, and need not be loaded again."""
    if not isinstance(old, IcebergTable):
        return None
    if after is not None and _id_of(new) == old.id:
        schemas = {schema["schema-id"] for schema in after.json["schemas"]}
        snapshots = {snapshot["snapshot-id"] for snapshot in after.json["snapshots"]}
        if old.schema_id in schemas and (old.snapshot_id < 0 or old.snapshot_id in snapshots):
            return after
    return sides.load(sides.before, key)


def _schema(before: TableMetadata, old: IcebergTable, after: TableMetadata) -> tuple[str, ...]:
    """`old` is what the catalog says of the old state; `before` may be newer metadata."""
    return tuple(list_schema_changes(before, old.schema_id, old.spec_id, after))


def _snapshot_of(content: Content | None) -> int | None:
    return content.snapshot_id if isinstance(content, IcebergTable) and content.snapshot_id >= 0 else None


def size_of(metadata: TableMetadata | None, snapshot_id: int | None) -> Size:
    """The size of one of a table's snapshots, as its summary says; nothing when the metadata does not list it."""
    snapshot = _snapshots(metadata).get(snapshot_id) if metadata else None
    if snapshot is None:
        return Size()
    number = _figures(snapshot)
    return Size(
        number("total-records") - number("total-position-deletes"),
        number("total-data-files") + number("total-delete-files"),
        number("total-files-size"),
    )


def _sums(after: TableMetadata, since: int | None, until: int | None, sizes: Sequence[Size]) -> tuple[Size, Size, bool]:
    """What the snapshots after `since` up to `until` added and removed, and whether all of them are there."""
    if since == until:
        return Size(), Size(), True
    snapshots, at = _snapshots(after), until
    added, removed = Size(), Size()
    while at is not None and at != since:
        snapshot = snapshots.pop(at, None)  # each counts once, also where a writer made a circle of them
        if snapshot is None:
            break
        number = _figures(snapshot)
        is_rewrite = (snapshot.get("summary") or {}).get("operation") == "replace"
        added = _plus(added, _added(number, is_rewrite))
        removed = _plus(removed, _removed(number, is_rewrite))
        at = snapshot.get("parent-snapshot-id")
    if at == since:
        return added, removed, True
    return _less(sizes[1], sizes[0]), _less(sizes[0], sizes[1]), False


def _added(number: Callable[[str], int], is_rewrite: bool) -> Size:
    rows = 0 if is_rewrite else number("added-records")
    return Size(rows, number("added-data-files") + number("added-delete-files"), number("added-files-size"))


def _removed(number: Callable[[str], int], is_rewrite: bool) -> Size:
    deleted = number("added-position-deletes") - number("removed-position-deletes")
    rows = 0 if is_rewrite else number("deleted-records") + deleted
    return Size(rows, number("deleted-data-files") + number("removed-delete-files"), number("removed-files-size"))


def _plus(a: Size, b: Size) -> Size:
    return Size(a.rows + b.rows, a.files + b.files, a.size_bytes + b.size_bytes)


def _less(a: Size, b: Size) -> Size:
    return Size(max(0, a.rows - b.rows), max(0, a.files - b.files), max(0, a.size_bytes - b.size_bytes))


def _snapshots(metadata: TableMetadata) -> dict[int | None, dict[str, Any]]:
    return {snapshot["snapshot-id"]: snapshot for snapshot in metadata.json["snapshots"]}


def _figures(snapshot: Mapping[str, Any]) -> Callable[[str], int]:
    """A number of a snapshot's summary by name; 0 when the writer left it out or wrote something else."""
    summary = snapshot.get("summary") or {}

    def number(name: str) -> int:
        text = str(summary.get(name, "0"))
        return int(text) if text.isdecimal() else 0

    return number


def sum_changes(changes: Iterable[Change]) -> tuple[Size, Size]:
    """What was added to, and removed from, all tables."""
    added, removed = Size(), Size()
    for change in changes:
        added, removed = _plus(added, change.added), _plus(removed, change.removed)
    return added, removed
