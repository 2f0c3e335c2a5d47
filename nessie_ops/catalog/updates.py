"""Applies the requirements and updates of a commit to table metadata, as Iceberg's reference catalog does.

PyIceberg's `update_table_metadata` is the engine; the resolver prepares updates for it.
Pure: knows neither files nor references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pydantic
from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.update import (
    AssignUUIDUpdate,
    SetLocationUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)

from nessie_ops.catalog.metadata import first_line, with_current_v1_fields
from nessie_ops.catalog.requests import Json
from nessie_ops.catalog.resolver import UNASSIGNED, Resolver
from nessie_ops.errors import BadRequest

_update_adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(TableUpdate)
_requirement_adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(TableRequirement)


def parse_updates(raw: Sequence[Json]) -> tuple[TableUpdate, ...]:
    """The updates of a request; BadRequest names the one that cannot be read or is unknown."""
    return tuple(_parse(_update_adapter, _complete(update), f"updates[{i}]") for i, update in enumerate(raw))


def parse_requirements(raw: Sequence[Json]) -> tuple[TableRequirement, ...]:
    """The requirements of a request; BadRequest as for updates."""
    return tuple(_parse(_requirement_adapter, item, f"requirements[{i}]") for i, item in enumerate(raw))


def _parse(adapter: pydantic.TypeAdapter[Any], raw: Json, field: str) -> Any:
    try:
        return adapter.validate_python(raw)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadRequest(f"{field}: {first_line(error)}") from error


def _complete(update: Json) -> Json:
    """Partition field ids are optional in the protocol, and mandatory in PyIceberg's model."""
    spec = update.get("spec")
    if update.get("action") != "add-spec" or not isinstance(spec, dict) or not isinstance(spec.get("fields"), list):
        return update
    fields = [{"field-id": UNASSIGNED, **field} if isinstance(field, dict) else field for field in spec["fields"]]
    return {**update, "spec": {**spec, "fields": fields}}


def apply_updates(base: TableMetadata, location: str, updates: Sequence[TableUpdate]) -> TableMetadata | None:
    """The metadata after `updates` to the table whose metadata file is at `location`; None when nothing changes.

    BadRequest when an update makes no sense, CommitFailed when it was made from metadata that is outdated.
    """
    resolved = Resolver(base).resolve(updates)
    after = _update(base, resolved, metadata_location=location)
    if not after.metadata_log or after.metadata_log[-1].metadata_file != location:
        return None  # the log grows with every change
    return with_current_v1_fields(_forget_snapshots(base, after))


def create_from_updates(
    updates: Sequence[TableUpdate], format_version: int, table_uuid: UUID, location: str
) -> TableMetadata:
    """The metadata of a table that is made by updates alone, as in a staged create; BadRequest.

    Format version, UUID and location are defaults for what the updates leave out.
    """
    defaults: list[TableUpdate] = [SetLocationUpdate(location=location)]
    if not any(isinstance(update, UpgradeFormatVersionUpdate) for update in updates):
        defaults.append(UpgradeFormatVersionUpdate.model_validate({"format-version": format_version}))
    if not any(isinstance(update, AssignUUIDUpdate) for update in updates):
        defaults.append(AssignUUIDUpdate(uuid=table_uuid))
    # The empty metadata that PyIceberg's own catalogs begin with.
    empty = TableMetadataV1.model_construct(last_column_id=-1, schema=Schema())
    resolved = Resolver(None).resolve([*defaults, *updates])
    return with_current_v1_fields(_update(empty, resolved, enforce_validation=True))


def _update(base: TableMetadata, updates: tuple[TableUpdate, ...], **options: Any) -> TableMetadata:
    try:
        return update_table_metadata(base, updates, **options)
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise BadRequest(f"updates: {first_line(error)}") from error


def _forget_snapshots(before: TableMetadata, after: TableMetadata) -> TableMetadata:
    """What Iceberg drops with a snapshot and PyIceberg 0.12 keeps.

    The snapshot log must have no gap, since a table as of a time is looked up in it: without the entry
    of a snapshot that is gone, an older one would answer for its time.
    """
    known = {snapshot.snapshot_id for snapshot in after.snapshots}
    gone = {snapshot.snapshot_id for snapshot in before.snapshots} - known
    if not gone:
        return after
    gap = max((i for i, entry in enumerate(before.snapshot_log) if entry.snapshot_id in gone), default=-1)
    survivors = sum(entry.snapshot_id not in gone for entry in before.snapshot_log[: gap + 1])
    statistics = [item for item in after.partition_statistics if item.snapshot_id not in gone]
    return after.model_copy(update={"snapshot_log": after.snapshot_log[survivors:], "partition_statistics": statistics})
