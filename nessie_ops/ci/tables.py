"""What a branch changed in its tables, and that it left others as they were."""

from __future__ import annotations

from collections.abc import Iterable

from nessie_ops.catalog.changes import Change, find_change, list_changes, read_through
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, ContentKey, IcebergTable


def list_changed(client: NessieClient, before: CommitHash, after: CommitHash) -> list[str]:
    """The tables that differ between two commits, by name."""
    found = client.diff(before, after)
    return sorted(str(row.key) for row in found if isinstance(row.after or row.before, IcebergTable))


def compare(client: NessieClient, before: CommitHash, after: CommitHash, selected: Iterable[str]) -> tuple[Change, ...]:
    """All that differs, and the selected tables that do not, by name."""
    load = read_through(client)
    changed = list_changes(client, before, after, load)
    others = set(selected) - {change.key for change in changed}
    same = [find_change(client, before, after, ContentKey.from_path(name), load) for name in others]
    return tuple(sorted([*changed, *same], key=lambda change: change.key))
