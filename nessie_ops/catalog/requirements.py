"""Requirements of a commit: what a client has seen of a table, compared with what the table is.

The comparisons and messages are those of Iceberg's reference catalog; PyIceberg 0.12 has the models
and words them otherwise, and refuses to create a branch of a table without snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
)

from nessie_ops.errors import CommitFailed


def is_create(requirements: Iterable[TableRequirement]) -> bool:
    """Whether the commit is to create its table."""
    return any(isinstance(requirement, AssertCreate) for requirement in requirements)


def check_requirements(requirements: Iterable[TableRequirement], metadata: TableMetadata | None, name: str) -> None:
    """CommitFailed unless the table `name` (None: it does not exist) is as the client has seen it."""
    for requirement in requirements:
        problem = _check_existence(requirement, metadata) or (metadata and _compare(requirement, metadata))
        if problem:
            raise CommitFailed(f"Requirement failed: {problem} (table {name})")


def _check_existence(requirement: TableRequirement, metadata: TableMetadata | None) -> str | None:
    if isinstance(requirement, AssertCreate):
        return "table already exists" if metadata else None
    return None if metadata else "table does not exist"


def _compare(requirement: TableRequirement, table: TableMetadata) -> str | None:
    match requirement:
        case AssertTableUUID(uuid=wanted):
            return _differ("UUID does not match", wanted, table.table_uuid)
        case AssertRefSnapshotId():
            return _compare_ref(requirement, table)
        case AssertCurrentSchemaId(current_schema_id=wanted):
            return _differ("current schema changed", wanted, table.current_schema_id)
        case AssertLastAssignedFieldId(last_assigned_field_id=wanted):
            return _differ("last assigned field id changed", wanted, table.last_column_id)
        case AssertDefaultSpecId(default_spec_id=wanted):
            return _differ("default partition spec changed", wanted, table.default_spec_id)
        case AssertLastAssignedPartitionId(last_assigned_partition_id=wanted):
            return _differ("last assigned partition id changed", wanted, table.last_partition_id)
        case AssertDefaultSortOrderId(default_sort_order_id=wanted):
            return _differ("default sort order changed", wanted, table.default_sort_order_id)
        case AssertCreate():
            return None  # is about existence alone
    assert_never(requirement)


def _compare_ref(requirement: AssertRefSnapshotId, table: TableMetadata) -> str | None:
    ref, wanted = table.refs.get(requirement.ref), requirement.snapshot_id
    if ref is None:
        return None if wanted is None else f"branch or tag {requirement.ref} is missing, expected {wanted}"
    kind = ref.snapshot_ref_type
    if wanted is None:
        return f"{kind} {requirement.ref} was created concurrently"
    return _differ(f"{kind} {requirement.ref} has changed", wanted, ref.snapshot_id)


def _differ(what: str, wanted: object, found: object) -> str | None:
    return None if wanted == found else f"{what}: expected {wanted} != {found}"
