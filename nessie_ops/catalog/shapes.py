"""Shapes of table metadata, its updates and requirements: which fields there are, of which type and range.

They only check: what clients wrote stays plain JSON, so a field that no shape knows is kept.  PyIceberg 0.12's
models drop such fields (a snapshot's `key-id`, `encryption-keys`), refuse values that are new to them (types of
statistics blobs, operations of snapshots), and take integers of any size.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from nessie_ops.errors import BadRequest

Json = dict[str, Any]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Text = Annotated[str, Meta(min_length=1)]
_Shape = TypeVar("_Shape", bound=Struct)


class StructType(Struct, tag_field="type", tag="struct"):
    fields: list[Field]


class ListType(Struct, tag_field="type", tag="list", rename="kebab"):
    element_id: Int32
    element: Type
    element_required: bool


class MapType(Struct, tag_field="type", tag="map", rename="kebab"):
    key_id: Int32
    key: Type
    value_id: Int32
    value: Type
    value_required: bool


Type = str | StructType | ListType | MapType


class Field(Struct):
    id: Int32
    name: str
    required: bool
    type: Type
    doc: str | None = None


class Schema(Struct, rename="kebab"):
    fields: list[Field]
    type: Literal["struct"] = "struct"
    schema_id: Int32 | None = None
    identifier_field_ids: list[Int32] | None = None


class PartitionField(Struct, rename="kebab"):
    name: Text
    transform: Text
    source_id: Int32 | None = None
    source_ids: Annotated[list[Int32], Meta(min_length=1)] | None = None
    field_id: Int32 | None = None


class PartitionSpec(Struct, rename="kebab"):
    fields: list[PartitionField]
    spec_id: Int32 | None = None


class SortField(Struct, rename="kebab"):
    transform: Text
    direction: Literal["asc", "desc"]
    null_order: Literal["nulls-first", "nulls-last"]
    source_id: Int32 | None = None
    source_ids: Annotated[list[Int32], Meta(min_length=1)] | None = None


class SortOrder(Struct, rename="kebab"):
    fields: list[SortField]
    order_id: Int32 | None = None


class Snapshot(Struct, rename="kebab"):
    snapshot_id: Int64
    timestamp_ms: Count
    manifest_list: Text | None = None
    manifests: list[str] | None = None  # format version 1 only
    parent_snapshot_id: Int64 | None = None
    sequence_number: Count | None = None
    summary: dict[str, str] | None = None
    schema_id: Int32 | None = None
    first_row_id: Count | None = None
    added_rows: Count | None = None
    key_id: str | None = None


class SnapshotRef(Struct, rename="kebab"):
    snapshot_id: Int64
    type: Literal["branch", "tag"]
    max_ref_age_ms: Positive | None = None
    max_snapshot_age_ms: Positive | None = None
    min_snapshots_to_keep: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class SnapshotLogEntry(Struct, rename="kebab"):
    snapshot_id: Int64
    timestamp_ms: Int64


class MetadataLogEntry(Struct, rename="kebab"):
    metadata_file: str
    timestamp_ms: Int64


class Blob(Struct, rename="kebab"):
    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: list[Int32]
    properties: dict[str, str] | None = None


class PartitionStatistics(Struct, rename="kebab"):
    snapshot_id: Int64
    statistics_path: Text
    file_size_in_bytes: Count


class Statistics(Struct, rename="kebab"):
    snapshot_id: Int64
    statistics_path: Text
    file_size_in_bytes: Count
    file_footer_size_in_bytes: Count
    blob_metadata: list[Blob]
    key_metadata: str | None = None


class EncryptedKey(Struct, rename="kebab"):
    key_id: Text
    encrypted_key_metadata: Text
    encrypted_by_id: str | None = None
    properties: dict[str, str] | None = None


class Metadata(Struct, rename="kebab"):
    """Table metadata, after what older versions leave out was filled in."""

    format_version: Annotated[int, Meta(ge=1, le=3)]
    location: Text
    last_updated_ms: Int64
    last_column_id: Int32
    schemas: Annotated[list[Schema], Meta(min_length=1)]
    current_schema_id: Int32
    partition_specs: Annotated[list[PartitionSpec], Meta(min_length=1)]
    default_spec_id: Int32
    last_partition_id: Int32
    sort_orders: list[SortOrder]
    default_sort_order_id: Int32
    snapshots: list[Snapshot]
    snapshot_log: list[SnapshotLogEntry]
    metadata_log: list[MetadataLogEntry]
    refs: dict[str, SnapshotRef]
    properties: dict[str, str]
    last_sequence_number: Count = 0
    next_row_id: Count | None = None
    current_snapshot_id: Int64 | None = None
    table_uuid: str | None = None
    statistics: list[Statistics] | None = None
    partition_statistics: list[PartitionStatistics] | None = None
    encryption_keys: list[EncryptedKey] | None = None


class AssignUuid(Struct):
    uuid: Text


class UpgradeFormatVersion(Struct, rename="kebab"):
    format_version: Int32


class AddSchema(Struct):
    schema: Schema


class SetCurrentSchema(Struct, rename="kebab"):
    schema_id: Int32


class AddSpec(Struct):
    spec: PartitionSpec


class SetDefaultSpec(Struct, rename="kebab"):
    spec_id: Int32


class AddSortOrder(Struct, rename="kebab"):
    sort_order: SortOrder


class SetDefaultSortOrder(Struct, rename="kebab"):
    sort_order_id: Int32


class AddSnapshot(Struct):
    snapshot: Snapshot


class SetSnapshotRef(SnapshotRef, kw_only=True, rename="kebab"):
    ref_name: Text


class RemoveSnapshotRef(Struct, rename="kebab"):
    ref_name: str


class RemoveSnapshots(Struct, rename="kebab"):
    snapshot_ids: list[Int64]


class SetLocation(Struct):
    location: Text


class SetProperties(Struct):
    updates: dict[str, str]


class RemoveProperties(Struct):
    removals: list[str]


class SetStatistics(Struct):
    statistics: Statistics


class SetPartitionStatistics(Struct, rename="kebab"):
    partition_statistics: PartitionStatistics


class RemoveStatistics(Struct, rename="kebab"):
    snapshot_id: Int64


class RemoveSpecs(Struct, rename="kebab"):
    spec_ids: list[Int32]


class RemoveSchemas(Struct, rename="kebab"):
    schema_ids: list[Int32]


class AddEncryptionKey(Struct, rename="kebab"):
    encryption_key: EncryptedKey


class RemoveEncryptionKey(Struct, rename="kebab"):
    key_id: str


class EnableRowLineage(Struct):
    pass


UPDATES: dict[str, type[Struct]] = {
    "assign-uuid": AssignUuid,
    "upgrade-format-version": UpgradeFormatVersion,
    "add-schema": AddSchema,
    "set-current-schema": SetCurrentSchema,
    "add-spec": AddSpec,
    "set-default-spec": SetDefaultSpec,
    "add-sort-order": AddSortOrder,
    "set-default-sort-order": SetDefaultSortOrder,
    "add-snapshot": AddSnapshot,
    "set-snapshot-ref": SetSnapshotRef,
    "remove-snapshot-ref": RemoveSnapshotRef,
    "remove-snapshots": RemoveSnapshots,
    "set-location": SetLocation,
    "set-properties": SetProperties,
    "remove-properties": RemoveProperties,
    "set-statistics": SetStatistics,
    "remove-statistics": RemoveStatistics,
    "set-partition-statistics": SetPartitionStatistics,
    "remove-partition-statistics": RemoveStatistics,
    "remove-partition-specs": RemoveSpecs,
    "remove-schemas": RemoveSchemas,
    "add-encryption-key": AddEncryptionKey,
    "remove-encryption-key": RemoveEncryptionKey,
    "enable-row-lineage": EnableRowLineage,
}
"""What every update must hold, by its action."""


class AssertCreate(Struct):
    pass


class AssertTableUuid(Struct):
    uuid: UUID


class AssertRefSnapshotId(Struct, rename="kebab"):
    ref: Text
    snapshot_id: Int64 | None = None


class AssertLastFieldId(Struct, rename="kebab"):
    last_assigned_field_id: Int32


class AssertCurrentSchemaId(Struct, rename="kebab"):
    current_schema_id: Int32


class AssertLastPartitionId(Struct, rename="kebab"):
    last_assigned_partition_id: Int32


class AssertDefaultSpecId(Struct, rename="kebab"):
    default_spec_id: Int32


class AssertDefaultSortOrderId(Struct, rename="kebab"):
    default_sort_order_id: Int32


REQUIREMENTS: dict[str, type[Struct]] = {
    "assert-create": AssertCreate,
    "assert-table-uuid": AssertTableUuid,
    "assert-ref-snapshot-id": AssertRefSnapshotId,
    "assert-last-assigned-field-id": AssertLastFieldId,
    "assert-current-schema-id": AssertCurrentSchemaId,
    "assert-last-assigned-partition-id": AssertLastPartitionId,
    "assert-default-spec-id": AssertDefaultSpecId,
    "assert-default-sort-order-id": AssertDefaultSortOrderId,
}
"""What every requirement must hold, by its type."""


def check_shape(value: object, shape: type[_Shape], field: str) -> _Shape:
    """`value` as `shape`; BadRequest naming the part of `field` that does not fit."""
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$")
        raise BadRequest(f"{field}{path.rstrip('`')}: {problem}") from error
