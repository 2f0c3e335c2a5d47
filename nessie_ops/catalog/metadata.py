"""Table metadata as JSON text and as PyIceberg's models; new tables and their contents in the catalog.

Written tables are format version 1 or 2: PyIceberg 0.12 can read version 3 but not write it, so that
is refused with a clear error.  Knows no references and does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec
import pydantic
from msgspec import UNSET, UnsetType
from pyiceberg.exceptions import ValidationError
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil, TableMetadataV1, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.requests import CreateTable, Json
from nessie_ops.errors import BadRequest
from nessie_ops.model import IcebergTable

MAX_FORMAT_VERSION = 2
NO_SNAPSHOT = -1
GC_ENABLED = "gc.enabled"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_GUARDED = {GC_ENABLED, DELETE_AFTER_COMMIT}

_PATH_PROPERTIES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_VERSION = re.compile(r"(\d{1,9})-[^/]*$")


def parse_metadata(raw: bytes, location: str) -> TableMetadata:
    """The model of a metadata file; BadRequest naming `location` when it is none."""
    try:
        return TableMetadataUtil.parse_raw(raw.decode())
    except (ValueError, TypeError, KeyError, AttributeError, ValidationError) as error:
        raise BadRequest(f"{location}: this is not valid Iceberg table metadata: {first_line(error)}") from error


def serialize_metadata(metadata: TableMetadata) -> bytes:
    """The JSON text of `metadata`."""
    check_format_version(metadata.format_version)
    return metadata.model_dump_json().encode()


def check_format_version(version: int) -> None:
    if not 1 <= version <= MAX_FORMAT_VERSION:
        raise BadRequest(f"format-version: {version} is not supported; use 2 (or 1).")


def new_metadata(request: CreateTable, location: str, table_uuid: UUID, created_at: datetime) -> TableMetadata:
    """Metadata of a new, empty table: fresh ids, the catalog's default properties; BadRequest."""
    properties = table_properties(request.properties or {}, created_at)
    version = properties.get("format-version", str(MAX_FORMAT_VERSION))
    if not version.isdecimal():
        raise BadRequest(f"properties.format-version: '{version[:20]}' is not a number.")
    check_format_version(int(version))
    try:
        return new_table_metadata(
            schema=Schema.model_validate(request.schema),
            partition_spec=_parse_spec(request.partition_spec),
            sort_order=SortOrder.model_validate(request.write_order) if request.write_order else UNSORTED_SORT_ORDER,
            location=location,
            properties=properties,
            table_uuid=table_uuid,
        )
    except (ValueError, TypeError, KeyError, AttributeError, ValidationError) as error:
        raise BadRequest(f"Cannot create the table: {first_line(error)}") from error


def _parse_spec(given: Json | None) -> PartitionSpec:
    if not given:
        return UNPARTITIONED_PARTITION_SPEC
    fields = [{"field-id": 0, **field} for field in given.get("fields", ())]  # a new table gets fresh ids
    return PartitionSpec.model_validate({**given, "fields": fields})


def table_properties(given: Mapping[str, str], created_at: datetime) -> dict[str, str]:
    """`given` with what every table of this catalog has."""
    return {GC_ENABLED: "false", "created-at": created_at.isoformat(), **given}


def check_metadata(after: TableMetadata, before: TableMetadata | None, warehouse: Warehouse) -> None:
    """BadRequest when `after` would write outside the warehouse, or lets clients delete files of other branches.

    Locations that `before` has already are left alone, so a table that came from elsewhere can still be changed.
    """
    if before is None or after.location != before.location:
        warehouse.check(after.location, "location")
    old: Mapping[str, str] = before.properties if before else {}
    for name in _PATH_PROPERTIES:
        value = after.properties.get(name)
        if value is not None and value != old.get(name):
            warehouse.check(value, f"properties.{name}")
    for name in unsafe_properties(after.properties):
        raise BadRequest(
            f"properties.{name}: must be false, because branches share files; "
            "unreferenced files are deleted by the garbage collection of the catalog."
        )


def unsafe_properties(properties: Mapping[str, str]) -> list[str]:
    """Names of the properties that let clients delete files which other branches may use."""
    unsafe = {
        GC_ENABLED: properties.get(GC_ENABLED, "true").lower() != "false",
        DELETE_AFTER_COMMIT: properties.get(DELETE_AFTER_COMMIT, "false").lower() == "true",
    }
    return [name for name, applies in unsafe.items() if applies]


class _Properties(msgspec.Struct):
    properties: dict[str, msgspec.Raw] | None = None


def with_safe_properties(raw: bytes) -> bytes:
    """Table metadata (JSON text) as clients may get it: none lets them delete files, whoever wrote the file.

    A pointer that came over the Nessie API names metadata that the client wrote, without our properties.
    Nothing else of the text changes, and most of it is not parsed.
    """
    try:
        properties = msgspec.json.decode(raw, type=_Properties).properties or {}
        unsafe = unsafe_properties({name: _as_text(properties[name]) for name in _GUARDED & properties.keys()})
    except msgspec.MsgspecError:
        return raw  # is no table metadata, which its readers say better
    if not unsafe:
        return raw
    parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**parts, "properties": {**properties, **dict.fromkeys(unsafe, "false")}})


def _as_text(value: msgspec.Raw) -> str:
    return str(msgspec.json.decode(value))  # clients take the number or truth value for its text


def content_of(metadata: TableMetadata, location: str, content_id: str | UnsetType = UNSET) -> IcebergTable:
    """What the catalog records of a table whose metadata file is at `location`."""
    snapshot = metadata.current_snapshot_id
    return IcebergTable(
        id=content_id,
        metadata_location=location,
        snapshot_id=NO_SNAPSHOT if snapshot is None else snapshot,
        schema_id=metadata.current_schema_id,
        spec_id=metadata.default_spec_id,
        sort_order_id=metadata.default_sort_order_id,
    )


def with_current_v1_fields(metadata: TableMetadata) -> TableMetadata:
    """Version 1 repeats its current schema and spec in fields of their own; PyIceberg 0.12 leaves them as they were."""
    if not isinstance(metadata, TableMetadataV1):
        return metadata
    fields = [field.model_dump() for field in metadata.spec().fields]
    return metadata.model_copy(update={"schema_": metadata.schema(), "partition_spec": fields})


def metadata_location(location: str, properties: Mapping[str, str], previous: str | None, unique: str) -> str:
    """Where the next metadata file of a table or view goes: `00003-<unique>.metadata.json`, numbered after `previous`.

    Follows the properties for path and compression.
    """
    match = _VERSION.search(previous) if previous else None
    version = int(match[1]) + 1 if match else 0
    folder = properties.get("write.metadata.path", f"{location}/metadata").rstrip("/")
    suffix = ".gz" if properties.get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{folder}/{version:05d}-{unique}{suffix}.metadata.json"


def only_referenced_snapshots(metadata: dict[str, Any]) -> dict[str, Any]:
    """Metadata (as JSON) with those snapshots alone that a branch or tag of the table points to."""
    used = {ref["snapshot-id"] for ref in metadata.get("refs", {}).values()} | {metadata.get("current-snapshot-id")}
    return {**metadata, "snapshots": [s for s in metadata.get("snapshots", ()) if s["snapshot-id"] in used]}


def first_line(error: Exception) -> str:
    """What is wrong, short: the first problem that a validation found."""
    if isinstance(error.__cause__, pydantic.ValidationError):
        error = error.__cause__
    if isinstance(error, pydantic.ValidationError):
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
    return str(error)[:500] or type(error).__name__
