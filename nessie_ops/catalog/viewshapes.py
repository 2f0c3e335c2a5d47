"""Shapes of view metadata, as `shapes` has them for tables: what every reader of Iceberg views relies on."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from msgspec import Meta, Struct

from nessie_ops.catalog.schemas import check_schema
from nessie_ops.catalog.shapes import Count, Int32, Int64, Json, Schema, Text, check_shape
from nessie_ops.catalog.tablemetadata import MAX_FORMAT_VERSION
from nessie_ops.errors import BadRequest


class Representation(Struct):
    type: Literal["sql"]
    sql: Text
    dialect: Text


class ViewVersion(Struct, rename="kebab"):
    version_id: Int32
    schema_id: Int32
    timestamp_ms: Count
    summary: dict[str, str]
    default_namespace: list[str]
    representations: Annotated[list[Representation], Meta(min_length=1)]
    default_catalog: str | None = None


class VersionLogEntry(Struct, rename="kebab"):
    version_id: Int32
    timestamp_ms: Int64


class ViewMetadata(Struct, rename="kebab"):
    view_uuid: UUID
    format_version: Literal[1]
    location: Text
    schemas: list[Schema]
    current_version_id: Int32
    versions: list[ViewVersion]
    version_log: list[VersionLogEntry]
    properties: dict[str, str] | None = None


def check_view_metadata(metadata: Json, field: str) -> None:
    """BadRequest unless all readers can read the view, and use each of its versions."""
    shape = check_shape(metadata, ViewMetadata, f"{field}: ")
    for i, schema in enumerate(metadata["schemas"]):
        check_schema(schema, MAX_FORMAT_VERSION, f"{field}: schemas[{i}]")
    schemas = {schema.schema_id for schema in shape.schemas}
    for i, version in enumerate(shape.versions):
        if version.schema_id not in schemas:
            raise BadRequest(f"{field}: versions[{i}].schema-id: the view has no schema {version.schema_id}.")
