"""New tables, what is safe in a table of this catalog, and what the catalog records of its metadata.

Knows no references and does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from nessie_ops.catalog import shapes
from nessie_ops.catalog.layouts import check_fields, check_names, with_field_ids, with_sources
from nessie_ops.catalog.requests import CreateTable, Json
from nessie_ops.catalog.schemas import check_schema, fresh_ids
from nessie_ops.catalog.shapes import check_shape
from nessie_ops.catalog.structure import FORMAT_VERSION
from nessie_ops.catalog.tablemetadata import DEFAULT_FORMAT_VERSION, TableMetadata, check_format_version
from nessie_ops.catalog.updates import create_from_updates, parse_updates
from nessie_ops.errors import BadRequest
from nessie_ops.model import IcebergTable

NO_SNAPSHOT = -1
GC_ENABLED = "gc.enabled"
DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_GUARDED = {GC_ENABLED, DELETE_AFTER_COMMIT}

_VERSION = re.compile(r"(\d{1,9})-[^/]*$")


def new_metadata(request: CreateTable, location: str, table_uuid: UUID, created_at: datetime) -> TableMetadata:
    """Metadata of a new, empty table: fresh ids, the catalog's default properties; BadRequest."""
    properties = table_properties(request.properties or {}, created_at)
    version = _format_version(properties.pop(FORMAT_VERSION, str(DEFAULT_FORMAT_VERSION)))
    check_schema(request.schema, version, "schema")
    schema, new_ids = fresh_ids(request.schema)
    spec, order = request.partition_spec or {"fields": []}, request.write_order or {"fields": []}
    check_shape(spec, shapes.PartitionSpec, "partition-spec")
    check_fields(spec["fields"], request.schema, version, "partition-spec")
    check_names(spec["fields"], request.schema, "partition-spec")
    check_shape(order, shapes.SortOrder, "write-order")
    check_fields(order["fields"], request.schema, version, "write-order")
    unnumbered = [{name: value for name, value in field.items() if name != "field-id"} for field in spec["fields"]]
    fields = with_field_ids(with_sources(unnumbered, new_ids, "partition-spec"), (), 0)
    updates: list[Json] = [
        {"action": "upgrade-format-version", "format-version": version},
        {"action": "add-schema", "schema": schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {**spec, "fields": fields}},
        {"action": "set-default-spec", "spec-id": -1},
        {
            "action": "add-sort-order",
            "sort-order": {**order, "fields": with_sources(order["fields"], new_ids, "write-order")},
        },
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": properties},
    ]
    return create_from_updates(parse_updates(updates), version, table_uuid, location, to_ms(created_at))


def _format_version(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise BadRequest(f"properties.format-version: '{text[:20]}' is not a number.")
    return check_format_version(int(text), "properties.format-version")


def to_ms(time: datetime) -> int:
    """Milliseconds since 1970."""
    return int(time.timestamp() * 1000)


def table_properties(given: Mapping[str, str], created_at: datetime) -> dict[str, str]:
    """`given` with what every table of this catalog has."""
    return {GC_ENABLED: "false", "created-at": created_at.isoformat(), **given}


def check_properties(after: TableMetadata) -> None:
    """BadRequest when `after` lets clients delete files of other branches."""
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


def metadata_location(location: str, properties: Mapping[str, str], previous: str | None, unique: str) -> str:
    """Where the next metadata file of a table or view goes: `00003-<unique>.metadata.json`, numbered after `previous`.

    Follows the properties for path and compression.
    """
    match = _VERSION.search(previous) if previous else None
    version = int(match[1]) + 1 if match else 0
    folder = properties.get("write.metadata.path", f"{location}/metadata").rstrip("/")
    suffix = ".gz" if properties.get("write.metadata.compression-codec", "none").lower() == "gzip" else ""
    return f"{folder}/{version:05d}-{unique}{suffix}.metadata.json"
