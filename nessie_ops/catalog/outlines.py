"""The outline of metadata: that it is a table's or a view's, and every location that it names.

Invariant: metadata that passed `check_table` or `check_view` leads its readers and writers nowhere but into
the warehouse and the allowed places.  What manifest files name is not in the metadata, so nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.errors import BadRequest

T = TypeVar("T")

PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")

Check = Callable[[bytes, str, Warehouse], None]
"""Takes the text of metadata, what to call it, and the places that are allowed; BadRequest."""


class _Snapshot(Struct, rename="kebab"):
    snapshot_id: int
    manifest_list: str | None = None
    manifests: tuple[str, ...] = ()  # instead of a list of them, in version 1


class _LogEntry(Struct, rename="kebab"):
    metadata_file: str


class _Statistics(Struct, rename="kebab"):
    statistics_path: str


class _Ref(Struct, rename="kebab"):
    snapshot_id: int


class _Table(Struct, rename="kebab"):
    """Of what the format demands, as much as tells a table from a view."""

    format_version: int
    location: str
    last_column_id: int
    current_snapshot_id: int | None = None
    properties: dict[str, Any] | None = None
    refs: dict[str, _Ref] = {}
    snapshots: tuple[_Snapshot, ...] = ()
    metadata_log: tuple[_LogEntry, ...] = ()
    statistics: tuple[_Statistics, ...] = ()
    partition_statistics: tuple[_Statistics, ...] = ()


class _Schema(Struct, rename="kebab"):
    schema_id: int


class _Representation(Struct, rename="kebab"):
    dialect: str


class _Version(Struct, rename="kebab"):
    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[_Representation, ...]


class _VersionLogEntry(Struct, rename="kebab"):
    version_id: int


class _View(Struct, rename="kebab"):
    """What updates of a view rely on."""

    view_uuid: str
    format_version: int
    location: str
    current_version_id: int
    schemas: tuple[_Schema, ...]
    versions: tuple[_Version, ...]
    version_log: tuple[_VersionLogEntry, ...]
    properties: dict[str, str] | None = None


_tables = msgspec.json.Decoder(_Table)
_views = msgspec.json.Decoder(_View)


def check_table(raw: bytes, name: str, warehouse: Warehouse) -> None:
    """BadRequest unless `raw` is table metadata all of whose locations are allowed; it says which is not."""
    table = _decode(_tables, raw, name, "table")
    for field, location in _locations_of(table):
        warehouse.check(location, field)


def check_view(raw: bytes, name: str, warehouse: Warehouse) -> None:
    """As `check_table`, for a view."""
    view = _decode(_views, raw, name, "view")
    for field, location in folders_of(view.location, view.properties or {}):
        warehouse.check(location, field)


def folders_of(location: str, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The folders that writers of a table or view with these will write to, each with the field that names it."""
    yield "location", location
    yield from _paths(properties)


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes, name: str, kind: str) -> T:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{name}: this is not valid Iceberg {kind} metadata: {str(error)[:200]}") from error


def _locations_of(table: _Table) -> Iterator[tuple[str, str]]:
    """Each location with the field that it is in."""
    yield from folders_of(table.location, table.properties or {})
    for i, snapshot in enumerate(table.snapshots):
        if snapshot.manifest_list is not None:
            yield f"snapshots[{i}].manifest-list", snapshot.manifest_list
        yield from _numbered(f"snapshots[{i}].manifests", "", snapshot.manifests)
    yield from _numbered("metadata-log", ".metadata-file", (entry.metadata_file for entry in table.metadata_log))
    for field, files in (("statistics", table.statistics), ("partition-statistics", table.partition_statistics)):
        yield from _numbered(field, ".statistics-path", (file.statistics_path for file in files))


def _numbered(field: str, name: str, locations: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((f"{field}[{i}]{name}", location) for i, location in enumerate(locations))


def _paths(properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in PATH_PROPERTIES:
        value = properties.get(name)
        if value is not None:
            yield f"properties.{name}", str(value)
