"""Transplants: what each of some commits changed against its own parent, applied to a branch as one new commit each.

All or nothing.  Every step is written on top of the one before; a dry run and a conflict are the same work, rolled
back by `NotApplied`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise

import msgspec

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import (
    CommitHash,
    ContentKey,
    KeyDetails,
    MergeResult,
    NewCommit,
    Transplant,
)
from nessie_ops.store import Kind, WriteTransaction
from nessie_ops.versioning import references, tree
from nessie_ops.versioning.codec import Commit, decode_commit, meta_of
from nessie_ops.versioning.commits import check_meta, get_expected, write_commit
from nessie_ops.versioning.conflicts import get_namespace_conflicts, raise_conflicts
from nessie_ops.versioning.decisions import Plan, decide, get_modes, get_nearby, get_resolved
from nessie_ops.versioning.history import find_merge_base
from nessie_ops.versioning.merging import check_source, refuse, refuse_transaction, start_result
from nessie_ops.versioning.objects import StoredNodes, load_commit, load_contents, parse_id, root_of

MAX_TRANSPLANTED = 1000  # commits in one request: bounds the time for which a branch is locked


class NotApplied(Exception):
    """Rolls the transaction back; `result` is what to answer."""

    def __init__(self, result: MergeResult) -> None:
        self.result = result


def transplant(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash | None,
    request: Transplant,
    clock: Callable[[], datetime],
) -> MergeResult:
    """The result of a transplant that was applied or had nothing to apply; else NotApplied."""
    check_meta(request.meta)
    record = references.get_branch_record(tx, branch, "transplant")
    before = load_commit(tx, record.head)
    if expected is not None:
        get_expected(tx, branch, expected, before)
    refuse_transaction(request.from_ref)
    sources = _load_sources(tx, request.hashes)
    check_source(tx, request.from_ref, sources[-1])
    now = clock()
    after, details = _apply(tx, before, sources, request, now)
    rows = tuple(details[key] for key in sorted(details))
    result = start_result(branch, expected, before, None, Plan([], rows, {}))
    conflicts = tuple(row.conflict for row in rows if row.conflict)
    if conflicts:
        raise NotApplied(refuse(result, conflicts, as_result=request.conflicts_as_result))
    if request.dry_run:
        raise NotApplied(msgspec.structs.replace(result, resultant_target_hash=None))
    if after is None or after == before:
        return result
    references.move_head(tx, record, after.id, references.TRANSPLANTED, now)
    return msgspec.structs.replace(result, was_applied=True, resultant_target_hash=after.hash)


def _load_sources(tx: WriteTransaction, hashes: Sequence[CommitHash]) -> list[Commit]:
    """The commits, each the direct child of the one before; BadRequest, ReferenceNotFound."""
    if not 0 < len(hashes) <= MAX_TRANSPLANTED:
        raise BadRequest(
            f"hashesToTransplant: {len(hashes)} commits; 1 to {MAX_TRANSPLANTED} can be transplanted at once."
        )
    ids = [parse_id(commit) for commit in hashes]
    found = tx.load(Kind.COMMIT, {id for id in ids if id}, decode_commit)
    sources = []
    for commit, id in zip(hashes, ids):
        if id not in found:
            raise ReferenceNotFound(f"Commit '{commit}' not found")
        sources.append(found[id])
    if any(child.parent != parent.id for parent, child in pairwise(sources)):
        raise BadRequest("hashesToTransplant: Sequence of hashes is not contiguous.")
    return sources


def _apply(
    tx: WriteTransaction, head: Commit | None, sources: Sequence[Commit], request: Transplant, now: datetime
) -> tuple[Commit | None, dict[ContentKey, KeyDetails]]:
    """Write a commit per source that changes something; the new head, and a row per key with its first conflict."""
    nodes, modes = StoredNodes(tx), get_modes(request.key_modes)
    parents = [load_commit(tx, sources[0].parent), *sources]
    base = find_merge_base(tx, head, parents[0])
    roots = root_of(base), root_of(parents[0]), root_of(head)
    nearby = cache(lambda: list(get_nearby(nodes, *roots)))
    resolved = get_resolved(request.key_modes)
    written: dict[bytes, bytes | None] = {}
    details: dict[ContentKey, KeyDetails] = {}
    has_conflicts = False
    for parent, source in zip(parents, sources):
        differing = list(tree.diff(nodes, root_of(parent), root_of(source)))
        plan = decide(
            nodes,
            differing,
            root_of(head),
            modes,
            request.default_behavior,
            lambda: [*(row for row in nearby() if row[0] not in written), *written.items()],
        )
        for row in plan.details:
            if row.key not in details or not details[row.key].conflict:
                details[row.key] = row
        has_conflicts = has_conflicts or bool(plan.conflicts)
        if not plan.changes:
            continue
        if not has_conflicts:
            raise_conflicts(get_namespace_conflicts(tx, root_of(head), plan.changes, plan.created, plan.at_head))
        written.update(plan.changes)
        stored = load_contents(tx, (leaf for _, leaf in plan.changes if leaf and leaf not in resolved))
        contents = [*stored.values(), *resolved.values()]
        head = write_commit(tx, head, None, _meta(source, request), plan.changes, contents, now)
    return head, details


def _meta(source: Commit, request: Transplant) -> NewCommit:
    own, given = meta_of(source), request.meta
    properties = dict(own.all_properties)
    for name, values in given.properties.items():
        properties[name] = (*properties.get(name, ()), *values)
    return NewCommit(
        message=given.message if given.message and len(request.hashes) == 1 else own.message,
        committer=given.committer,
        authors=own.authors + given.authors,
        signed_off_by=own.all_signed_off_by + given.signed_off_by,
        author_time=given.author_time or own.author_time,
        properties=properties,
    )
