"""What a run wrote: the tables that differ between where its branch began and where it, or its commit, ends.

A run is known by what it left in the catalog: the commit on the target that carries its id, or else its branch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nessie_ops.catalog.provenance import History
from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import (
    QUARANTINED,
    CommitHash,
    CommitMeta,
    ContentKey,
    DiffEntry,
    IcebergTable,
    Reference,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

PREFIX = "run/"
_IDS = ("nessie_ops.run_id", "nessie_ops.root_run_id")
_MAX_LOG = 10_000  # commits of the target looked through
_SUMS = ("added-records", "deleted-records", "added-files-size", "removed-files-size")

LoadTable = Callable[[CommitHash, ContentKey], "Table"]


class Catalog(History, Protocol):
    """A version store, or a client of one."""

    def get_reference(self, name: str) -> Reference:
        """ReferenceNotFound."""

    def diff(self, before: CommitHash, after: CommitHash) -> list[DiffEntry]:
        """Keys that differ."""


class Written(NamedTuple):
    """A key that the run changed: `created`, `changed` or `dropped`; `rows` sums the summaries of its new snapshots."""

    key: str
    change: str
    snapshot_before: int | None
    snapshot_after: int | None
    figures: Mapping[str, int]


class RunWork(NamedTuple):
    """A run: `published` (with its commit), `quarantined` or `open`; `read_at` is the state that it read from."""

    run_id: str
    state: str
    branch: str
    read_at: CommitHash
    ends_at: CommitHash
    commit: CommitMeta | None
    reason: str
    written: list[Written]


def find_run(catalog: Catalog, target: str, run_id: str, load: LoadTable) -> RunWork:
    """What a run wrote, by its id or that of the first of its re-executions; BadRequest when it left nothing."""
    for entry in catalog.list_log(catalog.get_reference(target).hash, limit=_MAX_LOG):
        meta = entry.commit_meta
        if any((run_id,) == meta.all_properties.get(name) for name in _IDS):
            root = meta.all_properties.get(_IDS[1], (run_id,))[0]
            before = meta.parent_commit_hashes[0]
            written = _written(catalog, before, meta.hash, load)
            return RunWork(run_id, "published", PREFIX + root, before, meta.hash, meta, "", written)
    try:
        branch = catalog.get_reference(PREFIX + run_id)
    except ReferenceNotFound:
        raise BadRequest(
            f"run: '{run_id[:60]}' has published nothing to '{target}' and has no branch '{PREFIX}{run_id[:60]}'."
        ) from None
    reason = branch.properties.get(QUARANTINED, "")
    base = CommitHash(branch.properties.get("base_hash", branch.hash))
    written = _written(catalog, base, branch.hash, load)
    state = "quarantined" if reason else "open"
    return RunWork(run_id, state, branch.name, base, branch.hash, None, reason, written)


def _written(catalog: Catalog, before: CommitHash, after: CommitHash, load: LoadTable) -> list[Written]:
    return [_describe(row, after, load) for row in catalog.diff(before, after)]


def _describe(row: DiffEntry, at: CommitHash, load: LoadTable) -> Written:
    change = "created" if row.before is None else "dropped" if row.after is None else "changed"
    old, new = _snapshot(row.before), _snapshot(row.after)
    figures = _sum(load(at, row.key), old) if new is not None and new != old else {}
    return Written(str(row.key), change, old, new, figures)


def _snapshot(content: object) -> int | None:
    return content.snapshot_id if isinstance(content, IcebergTable) and content.snapshot_id >= 0 else None


def _sum(table: Table, since: int | None) -> dict[str, int]:
    """Figures of the snapshots from the current one back to `since`."""
    total = dict.fromkeys(_SUMS, 0)
    current = table.current_snapshot()
    while current is not None and current.snapshot_id != since:
        found = current.summary.additional_properties if current.summary else {}
        for name in _SUMS:
            total[name] += int(found.get(name, 0))
        parent = current.parent_snapshot_id
        current = table.snapshot_by_id(parent) if parent is not None else None
    return total
