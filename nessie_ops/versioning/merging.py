"""Merges: what the source changed since the merge base, applied to the target per key, as one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from nessie_ops.errors import BadRequest, Forbidden, MergeConflict, ReferenceNotFound
from nessie_ops.model import (
    DETACHED,
    QUARANTINED,
    TRANSACTIONS,
    CommitHash,
    Conflict,
    ContentKey,
    KeyMergeMode,
    Merge,
    MergeResult,
)
from nessie_ops.store import ReferenceRecord, WriteTransaction
from nessie_ops.versioning import references, tree
from nessie_ops.versioning.codec import Change, Commit
from nessie_ops.versioning.commits import check_meta, get_expected, write_commit
from nessie_ops.versioning.conflicts import get_namespace_conflicts, raise_conflicts
from nessie_ops.versioning.decisions import Plan, decide, get_modes, get_nearby, get_resolved
from nessie_ops.versioning.history import find_merge_base, is_ancestor
from nessie_ops.versioning.objects import StoredNodes, find_commit, hash_of, load_commit, pin_commit, root_of


def merge(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash | None,
    request: Merge,
    clock: Callable[[], datetime],
    *,
    squash: bool = False,
    since: CommitHash | None = None,
) -> MergeResult:
    """See VersionStore.merge.  With `squash` the commit has one parent, and the source may have begun from nothing.

    With `since` it is about what the source changed since that commit, wherever the two have parted.
    """
    check_meta(request.meta)
    record = references.get_branch_record(tx, branch, "merge")
    head = load_commit(tx, record.head)
    if expected is not None:
        get_expected(tx, branch, expected, head)
    source = find_commit(tx, request.from_hash)
    if not squash:
        refuse_transaction(request.from_ref)
    check_source(tx, request.from_ref, source)
    if request.only_head:
        references.require_head(references.get_record(tx, request.from_ref), request.from_hash)
    modes = get_modes(request.key_modes)
    if since is not None:
        base = find_commit(tx, since)
    else:
        base = source if source is None else find_merge_base(tx, head, source)
    if base is None and source is not None and since is None and not squash:
        raise ReferenceNotFound(f"No common ancestor in parents of {hash_of(head)} and {hash_of(source)}")
    plan = _plan(tx, base, source, head, modes, request)
    result = start_result(branch, expected, head, hash_of(base), plan)
    if plan.conflicts:
        return refuse(result, plan.conflicts, as_result=request.conflicts_as_result)
    raise_conflicts(get_namespace_conflicts(tx, root_of(head), plan.changes, plan.created, plan.at_head))
    if request.dry_run:
        known = hash_of(base) == hash_of(source)  # else it depends on what was only tried
        return result if known else msgspec.structs.replace(result, resultant_target_hash=None)
    if not plan.changes:
        return result
    if source:
        pin_commit(tx, source)
    merged = None if squash else source
    written = _write(tx, record, head, merged, request, plan.changes, expected, clock())
    return msgspec.structs.replace(result, was_applied=True, resultant_target_hash=written.hash)


def refuse_transaction(from_ref: str) -> None:
    """BadRequest when the source is a transaction's branch: only COMMIT knows what must still be as it was read."""
    if from_ref.startswith(TRANSACTIONS):
        raise BadRequest(f"'{from_ref[:80]}' is the branch of a transaction; its COMMIT merges it.")


def check_source(tx: WriteTransaction, from_ref: str, source: Commit | None) -> None:
    """ReferenceNotFound for an unknown reference, Forbidden when the source is quarantined.

    A commit on the named branch is judged by that branch; any other one by the branches whose head it is.
    """
    named = None if from_ref == DETACHED else references.get_record(tx, from_ref)
    records = [named] if named else []
    if source and not (named and is_ancestor(tx, source, load_commit(tx, named.head))):
        records += tx.find_references_at(source.id)
    for record in records:
        reason = references.get_properties(record).get(QUARANTINED)
        if reason is not None:
            raise Forbidden(
                f"Branch '{record.name}' is quarantined and cannot be merged: {reason}. "
                f"Mend it and remove its property '{QUARANTINED}', or delete it."
            )


def _plan(
    tx: WriteTransaction,
    base: Commit | None,
    source: Commit | None,
    head: Commit | None,
    modes: Mapping[ContentKey, KeyMergeMode],
    request: Merge,
) -> Plan:
    nodes, roots = StoredNodes(tx), (root_of(base), root_of(source), root_of(head))
    differing = list(tree.diff(nodes, *roots[:2]))
    _check_modes(modes, (key for key, _, _ in differing))
    return decide(nodes, differing, roots[2], modes, request.default_behavior, lambda: get_nearby(nodes, *roots))


def _check_modes(modes: Mapping[ContentKey, KeyMergeMode], changed: Iterable[bytes]) -> None:
    if not modes:
        return
    unused = set(modes) - {ContentKey.from_bytes(key) for key in changed}
    if unused:
        names = ", ".join(f"'{key}'" for key in sorted(unused))
        raise BadRequest(
            "Not all merge key behaviors specified in the request have been used. "
            f"The following keys were not used: {names}"
        )


def start_result(
    branch: str, expected: CommitHash | None, head: Commit | None, ancestor: CommitHash | None, plan: Plan
) -> MergeResult:
    """The result of a write that changes nothing."""
    return MergeResult(
        was_applied=False,
        was_successful=True,
        resultant_target_hash=hash_of(head),
        common_ancestor=ancestor,
        target_branch=branch,
        effective_target_hash=hash_of(head),
        expected_hash=expected or hash_of(head),
        details=plan.details,
    )


def refuse(result: MergeResult, conflicts: Sequence[Conflict], *, as_result: bool) -> MergeResult:
    """The result of a write that met `conflicts`; MergeConflict unless it is wanted as result."""
    refused = msgspec.structs.replace(result, was_successful=False, resultant_target_hash=None)
    if as_result:
        return refused
    keys = ", ".join(f"'{conflict.key}'" for conflict in conflicts)
    message = f"The following keys have been changed in conflict: {keys}"
    raise MergeConflict(message, refused, tuple(conflicts))


def _write(
    tx: WriteTransaction,
    record: ReferenceRecord,
    head: Commit | None,
    source: Commit | None,
    request: Merge,
    changes: Sequence[Change],
    expected: CommitHash | None,
    now: datetime,
) -> Commit:
    default = f"Merged {request.from_ref} at {request.from_hash} into {record.name} at {expected or hash_of(head)}"
    meta = msgspec.structs.replace(request.meta, message=request.meta.message or default)
    written = write_commit(tx, head, source, meta, changes, get_resolved(request.key_modes).values(), now)
    references.move_head(tx, record, written.id, references.MERGED, now)
    return written
