"""Rewrites the updates of a commit into ones that PyIceberg's engine applies as Iceberg means them.

Needless with a PyIceberg that assigns schema, spec and order ids, reuses equal ones, keeps an outdated
snapshot apart from a senseless one, and takes removals of what is already gone as done (0.12 does none of this).
Pure: knows neither files nor references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssignUUIDUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from nessie_ops.catalog.metadata import check_format_version
from nessie_ops.errors import BadRequest, CommitFailed

LAST_ADDED = -1
UNASSIGNED = -1
"""A partition field id that the catalog is to choose."""
_FIRST_PARTITION_FIELD = 1000


class Resolver:
    """Rewrites updates, in order, given the metadata that they are applied to (None: a new table)."""

    def __init__(self, base: TableMetadata | None) -> None:
        self._base = base
        self._schemas = list(base.schemas) if base else []
        self._specs = list(base.partition_specs) if base else []
        self._orders = list(base.sort_orders) if base else []
        self._last_field = (base.last_partition_id if base else None) or _FIRST_PARTITION_FIELD - 1
        self._properties = set(base.properties) if base else set()
        self._snapshots = {snapshot.snapshot_id for snapshot in base.snapshots} if base else set()
        self._last_schema = self._last_spec = self._last_order = LAST_ADDED
        self._schema_ids: dict[int, int] = {}  # id that the client proposed -> id that it got
        self._rules: dict[type, Callable[[Any], TableUpdate | None]] = {
            AddSchemaUpdate: self._add_schema,
            SetCurrentSchemaUpdate: self._set_schema,
            AddPartitionSpecUpdate: self._add_spec,
            SetDefaultSpecUpdate: self._set_spec,
            AddSortOrderUpdate: self._add_order,
            SetDefaultSortOrderUpdate: self._set_order,
            AddSnapshotUpdate: self._add_snapshot,
            SetSnapshotRefUpdate: self._set_ref,
            RemoveSnapshotsUpdate: self._remove_snapshots,
            RemoveStatisticsUpdate: self._remove_statistics,
            RemovePartitionStatisticsUpdate: self._remove_partition_statistics,
            SetPropertiesUpdate: self._set_properties,
            RemovePropertiesUpdate: self._remove_properties,
            SetLocationUpdate: lambda update: update.model_copy(update={"location": update.location.rstrip("/")}),
            AssignUUIDUpdate: self._assign_uuid,
            UpgradeFormatVersionUpdate: self._upgrade,
        }

    def resolve(self, updates: Iterable[TableUpdate]) -> tuple[TableUpdate, ...]:
        rewritten = (self._rules.get(type(update), _same)(update) for update in updates)
        return tuple(update for update in rewritten if update is not None)

    def _add_schema(self, update: AddSchemaUpdate) -> TableUpdate | None:
        given = update.schema_
        same = next((s for s in self._schemas if _same_schema(s, given)), None)
        new_id = max((s.schema_id for s in self._schemas), default=-1) + 1
        self._last_schema = same.schema_id if same else new_id
        self._schema_ids[given.schema_id] = self._last_schema
        if same:
            return None
        schema = given.model_copy(update={"schema_id": new_id})
        self._schemas.append(schema)
        return update.model_copy(update={"schema_": schema})

    def _set_schema(self, update: SetCurrentSchemaUpdate) -> TableUpdate:
        wanted = update.schema_id
        if wanted == LAST_ADDED:
            return update.model_copy(update={"schema_id": self._last_schema})
        return update.model_copy(update={"schema_id": self._schema_ids.get(wanted, wanted)})

    def _add_spec(self, update: AddPartitionSpecUpdate) -> TableUpdate | None:
        spec = PartitionSpec(*self._with_field_ids(update.spec), spec_id=update.spec.spec_id)
        same = next((s for s in self._specs if s.fields == spec.fields), None)
        new_id = max((s.spec_id for s in self._specs), default=-1) + 1
        self._last_spec = same.spec_id if same else new_id
        if same:
            return None
        spec = spec.model_copy(update={"spec_id": new_id})
        self._specs.append(spec)
        self._last_field = max([self._last_field, *(field.field_id for field in spec.fields)])
        return update.model_copy(update={"spec": spec})

    def _with_field_ids(self, spec: PartitionSpec) -> list[Any]:
        """The fields of a spec; those without id get that of an equal older field, or the next one."""
        known = {(f.source_id, str(f.transform)): f.field_id for s in self._specs for f in s.fields}
        fields, next_id = [], self._last_field + 1
        for field in spec.fields:
            if field.field_id == UNASSIGNED:
                reused = known.get((field.source_id, str(field.transform)))
                field = field.model_copy(update={"field_id": next_id if reused is None else reused})
                next_id += reused is None
            fields.append(field)
        return fields

    def _set_spec(self, update: SetDefaultSpecUpdate) -> TableUpdate:
        return update.model_copy(
            update={"spec_id": self._last_spec if update.spec_id == LAST_ADDED else update.spec_id}
        )

    def _add_order(self, update: AddSortOrderUpdate) -> TableUpdate | None:
        fields = update.sort_order.fields
        same = next((o for o in self._orders if o.fields == fields), None)
        new_id = max((o.order_id for o in self._orders), default=0) + 1 if fields else 0
        self._last_order = same.order_id if same else new_id
        if same:
            return None
        order = update.sort_order.model_copy(update={"order_id": new_id})
        self._orders.append(order)
        return update.model_copy(update={"sort_order": order})

    def _set_order(self, update: SetDefaultSortOrderUpdate) -> TableUpdate:
        wanted = update.sort_order_id
        return update.model_copy(update={"sort_order_id": self._last_order if wanted == LAST_ADDED else wanted})

    def _add_snapshot(self, update: AddSnapshotUpdate) -> TableUpdate:
        snapshot, base = update.snapshot, self._base
        newest = 0 if base is None or isinstance(base, TableMetadataV1) else base.last_sequence_number
        if newest and snapshot.parent_snapshot_id is not None and (snapshot.sequence_number or 0) <= newest:
            raise CommitFailed(
                f"Snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, but the table "
                f"is at {newest} already: it has changed since it was read."
            )
        self._snapshots.add(snapshot.snapshot_id)
        schema_id = snapshot.schema_id
        renamed = self._schema_ids.get(schema_id, schema_id) if schema_id is not None else None
        return update.model_copy(update={"snapshot": snapshot.model_copy(update={"schema_id": renamed})})

    def _set_ref(self, update: SetSnapshotRefUpdate) -> TableUpdate:
        if update.snapshot_id not in self._snapshots:
            raise BadRequest(f"updates: '{update.ref_name}' cannot point to the unknown snapshot {update.snapshot_id}.")
        return update

    def _remove_snapshots(self, update: RemoveSnapshotsUpdate) -> TableUpdate | None:
        present = [snapshot_id for snapshot_id in update.snapshot_ids if snapshot_id in self._snapshots]
        self._snapshots.difference_update(present)
        return update.model_copy(update={"snapshot_ids": present}) if present else None

    def _remove_statistics(self, update: RemoveStatisticsUpdate) -> TableUpdate | None:
        return update if _has_statistics(self._base and self._base.statistics, update.snapshot_id) else None

    def _remove_partition_statistics(self, update: RemovePartitionStatisticsUpdate) -> TableUpdate | None:
        return update if _has_statistics(self._base and self._base.partition_statistics, update.snapshot_id) else None

    def _set_properties(self, update: SetPropertiesUpdate) -> TableUpdate:
        self._properties.update(update.updates)
        return update

    def _remove_properties(self, update: RemovePropertiesUpdate) -> TableUpdate | None:
        present = [name for name in dict.fromkeys(update.removals) if name in self._properties]
        self._properties.difference_update(present)
        return update.model_copy(update={"removals": present}) if present else None

    def _assign_uuid(self, update: AssignUUIDUpdate) -> TableUpdate:
        if self._base and update.uuid != self._base.table_uuid:
            raise BadRequest(f"updates: the table has the UUID {self._base.table_uuid}; it cannot be changed.")
        return update

    def _upgrade(self, update: UpgradeFormatVersionUpdate) -> TableUpdate:
        check_format_version(update.format_version)
        return update


def _same(update: Any) -> TableUpdate | None:
    return update  # type: ignore[no-any-return]


def _same_schema(a: Schema, b: Schema) -> bool:
    return a.fields == b.fields and set(a.identifier_field_ids) == set(b.identifier_field_ids)


def _has_statistics(statistics: Any, snapshot_id: int) -> bool:
    return any(item.snapshot_id == snapshot_id for item in statistics or ())
