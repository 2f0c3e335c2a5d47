"""Table metadata as a value: the JSON of a metadata file, format versions 1 to 3, with nothing lost.

What older writers leave out (version 1 without lists, metadata without refs) is filled in on reading, as Iceberg's
parser does; whatever the catalog does not know stays as it is.  PyIceberg 0.12 reads version 3 but does not write
it, and its models forget fields that they do not know.  Knows no files and no references of the catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from nessie_ops.catalog import shapes
from nessie_ops.catalog.layouts import FIRST_PARTITION_FIELD
from nessie_ops.catalog.shapes import Json, check_shape
from nessie_ops.errors import BadRequest

MAX_FORMAT_VERSION = 3
DEFAULT_FORMAT_VERSION = 2
MAIN = "main"


@dataclass(frozen=True)
class TableMetadata:
    """Metadata of a table; `json` is never changed."""

    json: Json

    @property
    def format_version(self) -> int:
        return int(self.json["format-version"])

    @property
    def location(self) -> str:
        return str(self.json["location"])

    @property
    def properties(self) -> dict[str, str]:
        found: dict[str, str] = self.json["properties"]
        return found

    @property
    def table_uuid(self) -> str | None:
        """None only for tables of version 1 that other catalogs made."""
        found: str | None = self.json.get("table-uuid")
        return found

    @property
    def current_snapshot_id(self) -> int | None:
        found: int | None = self.json.get("current-snapshot-id")
        return found

    @property
    def last_column_id(self) -> int:
        return int(self.json["last-column-id"])

    @property
    def current_schema_id(self) -> int:
        return int(self.json["current-schema-id"])

    @property
    def default_spec_id(self) -> int:
        return int(self.json["default-spec-id"])

    @property
    def last_partition_id(self) -> int:
        return int(self.json["last-partition-id"])

    @property
    def default_sort_order_id(self) -> int:
        return int(self.json["default-sort-order-id"])

    @property
    def refs(self) -> dict[str, Json]:
        """Branches and tags of the table itself."""
        found: dict[str, Json] = self.json["refs"]
        return found

    def with_properties(self, properties: Mapping[str, str]) -> TableMetadata:
        return TableMetadata({**self.json, "properties": dict(properties)})


def parse_metadata(raw: bytes, location: str) -> TableMetadata:
    """The metadata in a file; BadRequest naming `location` when it is none."""
    problem = f"{location}: this is not valid Iceberg table metadata"
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"{problem}: {error}") from error
    if not isinstance(found, dict):
        raise BadRequest(f"{problem}: it must be an object.")
    check_format_version(found.get("format-version"), f"{problem}: format-version")
    try:
        completed = _complete(found)
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        raise BadRequest(f"{problem}: {error}") from error
    _check(completed, problem)
    return TableMetadata(completed)


def check_format_version(version: object, field: str = "format-version") -> int:
    """`version`, if it is one that can be written; BadRequest."""
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= MAX_FORMAT_VERSION:
        raise BadRequest(f"{field}: {str(version)[:40]} is not supported; use 1, 2 or 3.")
    return version


def _complete(found: Json) -> Json:
    """`found` with the fields that its version lets writers leave out."""
    full = {name: value for name, value in found.items() if value is not None}
    if full["format-version"] == 1:
        full = {**_version_1_lists(full), **full}
    if full["format-version"] >= 3:
        full.setdefault("next-row-id", 0)
    for name in ("snapshots", "snapshot-log", "metadata-log", "statistics", "partition-statistics"):
        full.setdefault(name, [])
    for name in ("properties", "refs"):
        full.setdefault(name, {})
    full["location"] = full["location"].rstrip("/") or full["location"]
    full.setdefault("sort-orders", [{"order-id": 0, "fields": []}])
    full.setdefault("default-sort-order-id", 0)
    current = full.get("current-snapshot-id")
    if current == -1:  # as older versions of Iceberg write "none"
        del full["current-snapshot-id"]
    elif current is not None and MAIN not in full["refs"]:
        full["refs"] = {**full["refs"], MAIN: {"snapshot-id": current, "type": "branch"}}
    return full


def _version_1_lists(found: Json) -> Json:
    """What version 1 says by one schema and one spec, as lists."""
    lists: Json = {}
    if not found.get("schemas"):
        schema = {"schema-id": 0, **found["schema"]}
        lists |= {"schemas": [schema], "current-schema-id": schema["schema-id"]}
    if not found.get("partition-specs"):
        fields = [
            {"field-id": FIRST_PARTITION_FIELD + i, **field} for i, field in enumerate(found.get("partition-spec", ()))
        ]
        lists |= {"partition-specs": [{"spec-id": 0, "fields": fields}], "default-spec-id": 0}
    specs = found.get("partition-specs") or lists["partition-specs"]
    ids = [field["field-id"] for spec in specs for field in spec["fields"]]
    return {**lists, "last-partition-id": max(ids, default=FIRST_PARTITION_FIELD - 1)}


def _check(full: Json, problem: str) -> None:
    shape = check_shape(full, shapes.Metadata, f"{problem}: ")
    if shape.format_version > 1 and shape.table_uuid is None:
        raise BadRequest(f"{problem}: table-uuid is missing.")
    ids: dict[str, tuple[object, set[Any]]] = {
        "current-schema-id": (shape.current_schema_id, {item.schema_id for item in shape.schemas}),
        "default-spec-id": (shape.default_spec_id, {item.spec_id for item in shape.partition_specs}),
        "default-sort-order-id": (shape.default_sort_order_id, {0} | {item.order_id for item in shape.sort_orders}),
    }
    snapshots = {item.snapshot_id for item in shape.snapshots}
    if shape.current_snapshot_id is not None:
        ids["current-snapshot-id"] = (shape.current_snapshot_id, snapshots)
    for name, (wanted, known) in ids.items():
        if wanted not in known:
            raise BadRequest(f"{problem}: {name} {wanted} does not exist.")


def serialize_metadata(metadata: TableMetadata) -> bytes:
    """The JSON text of `metadata`."""
    return msgspec.json.encode(metadata.json)
