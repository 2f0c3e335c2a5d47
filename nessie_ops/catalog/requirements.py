"""Requirements of a commit: what a client has seen of a table, compared with what the table is.

The comparisons and messages are those of Iceberg's reference catalog; PyIceberg 0.12's take integers of any size and
texts for numbers, word the messages otherwise, and refuse to create a branch of a table without snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from nessie_ops.catalog.shapes import REQUIREMENTS, Json, check_shape
from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.errors import BadRequest, CommitFailed

_CREATE = "assert-create"
_REF = "assert-ref-snapshot-id"


class Requirement(NamedTuple):
    """One requirement of a request, of a known kind and the shape that it must have."""

    kind: str
    body: Json


class _Compared(NamedTuple):
    """What a requirement compares: its field, with what the table has, and what is said when they differ."""

    name: str
    found: Callable[[TableMetadata], object]
    problem: str


_compared = {
    "assert-table-uuid": _Compared("uuid", lambda table: (table.table_uuid or "").lower(), "UUID does not match"),
    "assert-current-schema-id": _Compared(
        "current-schema-id", lambda table: table.current_schema_id, "current schema changed"
    ),
    "assert-last-assigned-field-id": _Compared(
        "last-assigned-field-id", lambda table: table.last_column_id, "last assigned field id changed"
    ),
    "assert-default-spec-id": _Compared(
        "default-spec-id", lambda table: table.default_spec_id, "default partition spec changed"
    ),
    "assert-last-assigned-partition-id": _Compared(
        "last-assigned-partition-id", lambda table: table.last_partition_id, "last assigned partition id changed"
    ),
    "assert-default-sort-order-id": _Compared(
        "default-sort-order-id", lambda table: table.default_sort_order_id, "default sort order changed"
    ),
}


def parse_requirements(raw: Sequence[Json]) -> tuple[Requirement, ...]:
    """The requirements of a request; BadRequest names the one that cannot be read or is unknown."""
    return tuple(_parse(item, f"requirements[{i}]") for i, item in enumerate(raw))


def _parse(raw: Json, field: str) -> Requirement:
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in REQUIREMENTS:
        known = ", ".join(sorted(REQUIREMENTS))
        raise BadRequest(f"{field}.type: '{str(kind)[:80]}' is unknown; use one of {known}.")
    check_shape(raw, REQUIREMENTS[kind], field)
    return Requirement(kind, raw)


def is_create(requirements: Iterable[Requirement]) -> bool:
    """Whether the commit is to create its table."""
    return any(requirement.kind == _CREATE for requirement in requirements)


def check_requirements(requirements: Iterable[Requirement], metadata: TableMetadata | None, name: str) -> None:
    """CommitFailed unless the table `name` (None: it does not exist) is as the client has seen it."""
    for requirement in requirements:
        if problem := _problem(requirement, metadata):
            raise CommitFailed(f"Requirement failed: {problem} (table {name})")


def _problem(requirement: Requirement, table: TableMetadata | None) -> str | None:
    if requirement.kind == _CREATE:
        return "table already exists" if table else None
    if table is None:
        return "table does not exist"
    if requirement.kind == _REF:
        return _compare_ref(requirement.body, table)
    compared = _compared[requirement.kind]
    wanted = requirement.body[compared.name]
    return _differ(compared.problem, wanted.lower() if isinstance(wanted, str) else wanted, compared.found(table))


def _compare_ref(body: Json, table: TableMetadata) -> str | None:
    ref, wanted = table.refs.get(body["ref"]), body.get("snapshot-id")
    if ref is None:
        return None if wanted is None else f"branch or tag {body['ref'][:80]} is missing, expected {wanted}"
    kind = f"{ref['type']} {body['ref'][:80]}"
    if wanted is None:
        return f"{kind} was created concurrently"
    return _differ(f"{kind} has changed", wanted, ref["snapshot-id"])


def _differ(what: str, wanted: object, found: object) -> str | None:
    return None if wanted == found else f"{what}: expected {wanted} != {found}"
