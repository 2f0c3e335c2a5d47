"""Short ways to say what a kernel test does."""

from __future__ import annotations

from collections.abc import Callable

from nessie_ops.errors import ReferenceConflict
from nessie_ops.model import (
    CommitHash,
    Content,
    ContentKey,
    Delete,
    IcebergTable,
    IcebergView,
    Namespace,
    NewCommit,
    Operation,
    Put,
    Unchanged,
    with_id,
)
from nessie_ops.versioning import VersionStore


def key(path: str) -> ContentKey:
    return ContentKey.of(*path.split("."))


def table(n: int, id: str | None = None) -> IcebergTable:
    made = IcebergTable(metadata_location=f"m{n}", snapshot_id=n, schema_id=0, spec_id=0, sort_order_id=0)
    return with_id(made, id) if id else made


def view(n: int, id: str | None = None) -> IcebergView:
    made = IcebergView(metadata_location=f"v{n}", version_id=n, schema_id=0)
    return with_id(made, id) if id else made


def namespace(path: str, **properties: str) -> Namespace:
    return Namespace(elements=tuple(path.split(".")), properties=properties)


def put(path: str, content: Content) -> Put:
    return Put(key(path), content)


def delete(path: str) -> Delete:
    return Delete(key(path))


def unchanged(path: str) -> Unchanged:
    return Unchanged(key(path))


def head(versions: VersionStore, branch: str = "main") -> CommitHash:
    return versions.get_reference(branch).hash


def commit(
    versions: VersionStore, *operations: Operation, branch: str = "main", at: CommitHash | None = None
) -> CommitHash:
    """Commit at the head, or against another expected hash; the new head."""
    expected = at or head(versions, branch)
    return versions.commit(branch, expected, NewCommit(message="m"), operations).target_branch.hash


def content_id(versions: VersionStore, path: str, at: CommitHash | None = None) -> str:
    return str(versions.get_contents(at or head(versions), [key(path)])[key(path)].id)


def update(versions: VersionStore, path: str, n: int, branch: str = "main") -> CommitHash:
    """Set a table to its state `n`, creating it if need be."""
    at = head(versions, branch)
    existing = versions.get_contents(at, [key(path)]).get(key(path))
    return commit(versions, put(path, table(n, str(existing.id) if existing else None)), branch=branch)


def conflicts_of(write: Callable[[], object]) -> list[tuple[str, str]]:
    """(conflict type, key) of all conflicts that `write` meets."""
    try:
        write()
    except ReferenceConflict as error:
        return [(conflict.conflict_type.value, str(conflict.key)) for conflict in error.conflicts]
    return []
