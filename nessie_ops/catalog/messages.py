"""Commit messages: what a commit did to a table, for people who read the log."""

from __future__ import annotations

from collections.abc import Sequence

from nessie_ops.catalog.shapes import Json
from nessie_ops.catalog.updates import TableUpdate
from nessie_ops.model import ContentKey

_VERBS = {
    "append": "append to table",
    "overwrite": "overwrite in table",
    "replace": "rewrite files of table",
    "delete": "delete from table",
}


def describe(key: ContentKey, updates: Sequence[TableUpdate]) -> str:
    """Such as `append to table a.b: snapshot 123` or `alter table a.b: add-schema, set-current-schema`."""
    snapshots = [update.body["snapshot"] for update in updates if update.action == "add-snapshot"]
    if snapshots:
        added = ", ".join(str(snapshot["snapshot-id"]) for snapshot in snapshots)
        return f"{_verb(snapshots[-1])} {key}: snapshot {added}"
    return f"alter table {key}: {', '.join(dict.fromkeys(update.action for update in updates))}"


def _verb(snapshot: Json) -> str:
    return _VERBS.get((snapshot.get("summary") or {}).get("operation", ""), "write to table")
