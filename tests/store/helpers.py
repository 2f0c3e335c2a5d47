"""Short ways to say what a housekeeping test does."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import text

from nessie_ops.model import Merge, MergeBehavior, NewCommit, ReferenceType
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.check import check
from tests.versioning.helpers import commit, delete, head, namespace, put, table, update, view


def quiet(what: str, count: int) -> None:
    """Progress that nobody reads."""


def faults_of(store: Store) -> list[str]:
    return [str(fault) for fault in check(store, quiet)]


def execute(store: Store, statement: str, **parameters: object) -> list[tuple[object, ...]]:
    """Run one statement behind the store's back."""
    with store.write() as tx:
        result = tx.connection.execute(text(statement), parameters)
        return [tuple(row) for row in result] if result.returns_rows else []


def fill(versions: VersionStore, names: Iterable[int] = range(300)) -> None:
    """A history with an index of several levels, a branch, a tag, a merge, and deletions."""
    tables = [put(f"n.t{n}", table(n)) for n in names]
    base = commit(versions, put("n", namespace("n", owner="ann")), put("n.v", view(1)), *tables)
    versions.create_reference(ReferenceType.BRANCH, "side", base, properties={"run": "1"})
    versions.create_reference(ReferenceType.TAG, "v1", base)
    for n in range(5):
        update(versions, f"n.t{n}", 1000 + n, "side")
        update(versions, f"n.t{n + 10}", 2000 + n)
    commit(versions, delete("n.t20"), branch="side")
    merge(versions, "side")


def merge(versions: VersionStore, source: str, branch: str = "main") -> None:
    request = Merge(
        from_ref=source,
        from_hash=head(versions, source),
        meta=NewCommit(message=""),
        default_behavior=MergeBehavior.NORMAL,
    )
    versions.merge(branch, None, request)
