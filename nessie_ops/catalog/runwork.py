"""What a run wrote: the tables that differ between where its branch began and where it, or its commit, ends.

A run is known by what it left in the catalog: the commit on the target that carries its id, or else its branch.  One
commit may publish what several runs wrote on one branch; it does not tell which of them wrote what.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from nessie_ops.catalog.changes import Change, Contents, LoadMetadata, list_changes
from nessie_ops.catalog.provenance import History
from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import (
    QUARANTINED,
    CommitHash,
    CommitMeta,
    Reference,
)

PREFIX = "run/"
RUN_IDS = ("nessie_ops.run_id", "nessie_ops.root_run_id")
REVERTED = "nessie_ops.reverted_commit"  # property of a commit that undoes another
_BRANCH = "nessie_ops.branch"
_MAX_LOG = 10_000  # commits of the target looked through


class Catalog(History, Contents, Protocol):
    """A version store, or a client of one."""

    def get_reference(self, name: str) -> Reference:
        """ReferenceNotFound."""


class RunWork(NamedTuple):
    """A run: `published` (with its commit), `reverted`, `quarantined` or `open`; it read from the state `read_at`.

    `together` are all runs, in order, whose common work `written` is, when there are others.
    """

    run_id: str
    state: str
    branch: str
    read_at: CommitHash
    ends_at: CommitHash
    commit: CommitMeta | None
    reason: str
    written: list[Change]
    together: tuple[str, ...] = ()


def is_of_run(meta: CommitMeta, run_id: str) -> bool:
    """Whether a commit published what a run wrote; that of a change may be several runs'."""
    return any(run_id in meta.all_properties.get(name, ()) for name in RUN_IDS)


def _first(meta: CommitMeta, name: str) -> str:
    return next(iter(meta.all_properties.get(name, ())), "")


def find_run(catalog: Catalog, target: str, run_id: str, load: LoadMetadata) -> RunWork:
    """What a run wrote, by its id or that of the first of its re-executions; BadRequest when it left nothing."""
    undone: dict[str, CommitMeta] = {}
    for entry in catalog.list_log(catalog.get_reference(target).hash, limit=_MAX_LOG):
        meta = entry.commit_meta
        undone |= dict.fromkeys(meta.all_properties.get(REVERTED, ()), meta)
        if is_of_run(meta, run_id):
            name = _first(meta, _BRANCH) or PREFIX + (_first(meta, RUN_IDS[1]) or run_id)
            before = meta.parent_commit_hashes[0]
            written = list_changes(catalog, before, meta.hash, load)
            revert = undone.get(meta.hash)
            state, reason = ("reverted", f"commit {revert.hash} undid it") if revert else ("published", "")
            runs = meta.all_properties.get(RUN_IDS[0], ())
            together = runs if len(runs) > 1 else ()
            return RunWork(run_id, state, name, before, meta.hash, meta, reason, written, together)
    try:
        branch = catalog.get_reference(PREFIX + run_id)
    except ReferenceNotFound:
        raise BadRequest(
            f"run: '{run_id[:60]}' has published nothing to '{target}' and has no branch '{PREFIX}{run_id[:60]}'."
        ) from None
    reason = branch.properties.get(QUARANTINED, "")
    base = CommitHash(branch.properties.get("base_hash", branch.hash))
    written = list_changes(catalog, base, branch.hash, load)
    state = "quarantined" if reason else "open"
    return RunWork(run_id, state, branch.name, base, branch.hash, None, reason, written)
