"""Merges: what the source changed since the merge base, applied to the target per key, as one commit.

`merge_key` is the whole decision, a pure function over (base, source, target).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from nessie_ops.errors import BadRequest, Forbidden, MergeConflict, ReferenceNotFound
from nessie_ops.model import (
    DETACHED,
    QUARANTINED,
    CommitHash,
    Conflict,
    Content,
    ContentKey,
    ContentType,
    KeyDetails,
    KeyMergeMode,
    Merge,
    MergeBehavior,
    MergeResult,
    parse_content_id,
    with_id,
)
from nessie_ops.store import ReferenceRecord, WriteTransaction
from nessie_ops.versioning import references, tree
from nessie_ops.versioning.codec import Change, Commit, Leaf, leaf_of
from nessie_ops.versioning.commits import check_meta, get_expected, write_commit
from nessie_ops.versioning.conflicts import compare_leaves, get_namespace_conflicts, raise_conflicts
from nessie_ops.versioning.history import find_merge_base, is_ancestor
from nessie_ops.versioning.objects import StoredNodes, find_commit, hash_of, load_commit, root_of


class Values(NamedTuple):
    """A key's encoded leaves in the three trees; None where it does not exist."""

    base: bytes | None
    source: bytes | None
    target: bytes | None


class Decision(NamedTuple):
    """What a merge does with a key: a conflict, or a new value (None deletes), or neither."""

    conflict: Conflict | None = None
    is_change: bool = False
    value: bytes | None = None
    is_silent: bool = False  # not worth a row in the result's details


def merge_key(key: ContentKey, values: Values, mode: KeyMergeMode) -> Decision:
    """Decide one key that the source changed.

    Equal additions are dropped.  A namespace that both sides created is the source's.  Else the target
    must still have the base's value (or the value that the mode expects); FORCE does not ask.
    """
    base, source, target = values
    if mode.merge_behavior == MergeBehavior.DROP:
        return Decision()
    value = _leaf(mode.resolved_content) if mode.resolved_content else source
    expected = _leaf(mode.expected_target_content) if mode.expected_target_content else base
    if mode.expected_target_content or mode.merge_behavior == MergeBehavior.NORMAL:
        if base is None and mode.expected_target_content is None and target is not None:
            if source == target:
                return Decision()
            if _is_namespace(source) and _is_namespace(target):
                return Decision(None, True, source, is_silent=True)
        if expected is None and target is None and source is None:
            return Decision()
        conflict = compare_leaves(key, target, expected)
        if conflict:
            return Decision(conflict)
    return Decision(None, value != target, value)


def merge(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash | None,
    request: Merge,
    clock: Callable[[], datetime],
) -> MergeResult:
    check_meta(request.meta)
    record = references.get_branch_record(tx, branch, "merge")
    head = load_commit(tx, record.head)
    if expected is not None:
        get_expected(tx, branch, expected, head)
    source = find_commit(tx, request.from_hash)
    _check_source(tx, request, source)
    modes = _get_modes(request)
    base = source if source is None else find_merge_base(tx, head, source)
    if base is None and source is not None:
        raise ReferenceNotFound(f"No common ancestor in parents of {hash_of(head)} and {hash_of(source)}")
    result = MergeResult(
        was_applied=False,
        was_successful=True,
        resultant_target_hash=hash_of(head),
        common_ancestor=hash_of(base),
        target_branch=branch,
        effective_target_hash=hash_of(head),
        expected_hash=expected or hash_of(head),
    )
    changes, details, created = _decide(tx, base, source, head, modes, request)
    result = msgspec.structs.replace(result, details=details)
    conflicts = tuple(row.conflict for row in details if row.conflict)
    if conflicts:
        return _refuse(result, conflicts, request)
    at_head = tree.get_many(StoredNodes(tx), root_of(head), dict(changes))
    raise_conflicts(get_namespace_conflicts(tx, root_of(head), changes, created, at_head))
    if request.dry_run:
        return msgspec.structs.replace(result, resultant_target_hash=None if changes else hash_of(head))
    if not changes:
        return result
    assert source is not None
    written = _write(tx, record, head, source, request, changes, expected, clock())
    return msgspec.structs.replace(result, was_applied=True, resultant_target_hash=written.hash)


def _check_source(tx: WriteTransaction, request: Merge, source: Commit | None) -> None:
    """Forbidden when the source is quarantined.

    A commit on the named branch is judged by that branch; any other one by the branches whose head it is.
    """
    named = None if request.from_ref == DETACHED else references.get_record(tx, request.from_ref)
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


def _get_modes(request: Merge) -> dict[ContentKey, KeyMergeMode]:
    """Merge modes by key; BadRequest when they contradict themselves."""
    modes: dict[ContentKey, KeyMergeMode] = {}
    for mode in request.key_modes:
        key = mode.key.validated()
        if key in modes:
            raise BadRequest(f"keyMergeModes: key '{key}' occurs twice.")
        modes[key] = mode
        if mode.resolved_content is None:
            continue
        if mode.expected_target_content is None:
            raise BadRequest(f"keyMergeModes: key '{key}' has resolvedContent, which needs expectedTargetContent.")
        if mode.merge_behavior != MergeBehavior.NORMAL:
            raise BadRequest(f"keyMergeModes: resolvedContent of key '{key}' needs the merge behavior NORMAL.")
    for mode in modes.values():
        for content in (mode.expected_target_content, mode.resolved_content):
            if content is not None and not content.id:
                raise BadRequest(f"keyMergeModes: the content of key '{mode.key}' has no content ID.")
    return modes


def _decide(
    tx: WriteTransaction,
    base: Commit | None,
    source: Commit | None,
    head: Commit | None,
    modes: Mapping[ContentKey, KeyMergeMode],
    request: Merge,
) -> tuple[list[Change], tuple[KeyDetails, ...], list[bytes]]:
    """(changes to the target, a row per key for the result, keys new to the target)."""
    nodes = StoredNodes(tx)
    differing = list(tree.diff(nodes, root_of(base), root_of(source)))
    _check_modes(modes, (key for key, _, _ in differing))
    at_head = tree.get_many(nodes, root_of(head), (key for key, _, _ in differing))
    changes: list[Change] = []
    details = []
    for raw, before, after in differing:
        key = ContentKey.from_bytes(raw)
        mode = modes.get(key) or KeyMergeMode(key=key, merge_behavior=request.default_behavior)
        values = Values(before, after, at_head.get(raw))
        _check_resolved(mode, values)
        decision = merge_key(key, values, mode)
        if decision.is_change:
            changes.append((raw, decision.value))
        if not decision.is_silent:
            details.append(KeyDetails(key, mode.merge_behavior, decision.conflict))
    created = [key for key, leaf in changes if leaf and key not in at_head]
    return changes, tuple(details), created


def _check_modes(modes: Mapping[ContentKey, KeyMergeMode], changed: Iterable[bytes]) -> None:
    unused = set(modes) - {ContentKey.from_bytes(key) for key in changed}
    if unused:
        names = ", ".join(f"'{key}'" for key in sorted(unused))
        raise BadRequest(
            "Not all merge key behaviors specified in the request have been used. "
            f"The following keys were not used: {names}"
        )


def _check_resolved(mode: KeyMergeMode, values: Values) -> None:
    if mode.resolved_content is None:
        return
    types = {Leaf.decode(leaf).type for leaf in (values.source, values.target) if leaf}
    if mode.resolved_content.type not in types:
        raise BadRequest(
            f"keyMergeModes: resolvedContent of key '{mode.key}' is a {mode.resolved_content.type}, "
            f"but the key holds a {' or '.join(sorted(types))}."
        )


def _refuse(result: MergeResult, conflicts: Sequence[Conflict], request: Merge) -> MergeResult:
    refused = msgspec.structs.replace(result, was_successful=False, resultant_target_hash=None)
    if request.conflicts_as_result:
        return refused
    keys = ", ".join(f"'{conflict.key}'" for conflict in conflicts)
    message = f"The following keys have been changed in conflict: {keys}"
    raise MergeConflict(message, refused, tuple(conflicts))


def _write(
    tx: WriteTransaction,
    record: ReferenceRecord,
    head: Commit | None,
    source: Commit,
    request: Merge,
    changes: Sequence[Change],
    expected: CommitHash | None,
    now: datetime,
) -> Commit:
    default = f"Merged {request.from_ref} at {request.from_hash} into {record.name} at {expected or hash_of(head)}"
    meta = msgspec.structs.replace(request.meta, message=request.meta.message or default)
    written = write_commit(tx, head, source, meta, changes, _get_resolved(request), now)
    references.move_head(tx, record, written.id, references.MERGED, now)
    return written


def _get_resolved(request: Merge) -> list[Content]:
    return [_canonical(mode.resolved_content) for mode in request.key_modes if mode.resolved_content]


def _canonical(content: Content) -> Content:
    return with_id(content, parse_content_id(str(content.id)))


def _leaf(content: Content) -> bytes:
    return leaf_of(_canonical(content))[0]


def _is_namespace(leaf: bytes | None) -> bool:
    return leaf is not None and Leaf.decode(leaf).type == ContentType.NAMESPACE
