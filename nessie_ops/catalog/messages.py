"""Commit messages: what a commit did to a table, for people who read the log."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSnapshotUpdate, TableUpdate

from nessie_ops.model import ContentKey

_VERBS = {
    Operation.APPEND: "append to table",
    Operation.OVERWRITE: "overwrite in table",
    Operation.REPLACE: "rewrite files of table",
    Operation.DELETE: "delete from table",
}


def describe(key: ContentKey, updates: Sequence[TableUpdate]) -> str:
    """Such as `append to table a.b: snapshot 123` or `alter table a.b: add-schema, set-current-schema`."""
    snapshots = [update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)]
    if snapshots:
        added = ", ".join(str(snapshot.snapshot_id) for snapshot in snapshots)
        return f"{_verb(snapshots[-1])} {key}: snapshot {added}"
    return f"alter table {key}: {', '.join(dict.fromkeys(update.action for update in updates))}"


def _verb(snapshot: Snapshot) -> str:
    return _VERBS[snapshot.summary.operation] if snapshot.summary else "write to table"
