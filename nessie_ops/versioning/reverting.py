"""Reverts: keys get back the values of an older state, by a new commit on top of the head.

Conflicts are decided by value: a key is put back only while it has the value that the caller means to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import DETACHED, CommitHash, ContentKey, KeyMergeMode, MergeResult, NewCommit
from nessie_ops.store import ReferenceRecord, WriteTransaction
from nessie_ops.versioning import references, tree
from nessie_ops.versioning.codec import Commit, meta_of
from nessie_ops.versioning.commits import MAX_OPERATIONS, check_meta, get_expected, write_commit
from nessie_ops.versioning.conflicts import compare_leaves, get_namespace_conflicts, raise_conflicts
from nessie_ops.versioning.decisions import Decision, Difference, Plan, get_nearby, make_plan
from nessie_ops.versioning.history import find_merge_base, is_ancestor
from nessie_ops.versioning.merging import check_source, refuse, start_result
from nessie_ops.versioning.objects import StoredNodes, find_commit, hash_of, load_commit, load_contents, root_of

NO_WORDS = NewCommit(message="")
MAX_NAMED = 5  # keys that the default message names


class Options(NamedTuple):
    """An empty message gives the default one."""

    meta: NewCommit = NO_WORDS
    dry_run: bool = False
    conflicts_as_result: bool = False


class _Target(NamedTuple):
    """The branch to write to, locked; `seen` is the commit that the caller has looked at."""

    record: ReferenceRecord
    head: Commit | None
    seen: Commit | None
    expected: CommitHash | None


def revert(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash | None,
    commit: CommitHash,
    options: Options,
    clock: Callable[[], datetime],
) -> MergeResult:
    target = _find_target(tx, branch, expected, options)
    undone = find_commit(tx, commit)
    if undone is None or find_merge_base(tx, undone, target.head) != undone:
        raise ReferenceNotFound(f"Could not find commit '{commit}' in reference '{branch}'.")
    roots = root_of(undone), root_of(load_commit(tx, undone.parent)), root_of(target.head)
    nodes = StoredNodes(tx)
    plan = _plan(nodes, list(tree.diff(nodes, *roots[:2])), roots)
    return _finish(tx, target, plan, options, f"Reverted {undone.hash}: {_first_line(undone)}", clock())


def revert_contents(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash | None,
    keys: Iterable[ContentKey],
    at: CommitHash,
    allow_deletes: bool,
    options: Options,
    clock: Callable[[], datetime],
) -> MergeResult:
    wanted = sorted({key.validated() for key in keys})
    if not 0 < len(wanted) <= MAX_OPERATIONS:
        raise BadRequest(f"keys: {len(wanted)} keys; 1 to {MAX_OPERATIONS} can be reverted at once.")
    target = _find_target(tx, branch, expected, options)
    source = find_commit(tx, at)
    if not is_ancestor(tx, source, target.head):
        check_source(tx, DETACHED, source)
    nodes, raw = StoredNodes(tx), [key.to_bytes() for key in wanted]
    seen, then = (tree.get_many(nodes, root_of(commit), raw) for commit in (target.seen, source))
    if not allow_deletes:
        _check_existence(wanted, then, at)
    roots = root_of(find_merge_base(tx, source, target.head)), root_of(source), root_of(target.head)
    plan = _plan(nodes, [(key, seen.get(key), then.get(key)) for key in raw], roots)
    names = ", ".join(f"'{key}'" for key in wanted) if len(wanted) <= MAX_NAMED else f"{len(wanted)} keys"
    return _finish(tx, target, plan, options, f"Reverted {names} to the state at {hash_of(source)}", clock())


def _find_target(tx: WriteTransaction, branch: str, expected: CommitHash | None, options: Options) -> _Target:
    check_meta(options.meta)
    record = references.get_branch_record(tx, branch, "revert")
    head = load_commit(tx, record.head)
    seen = head if expected is None else get_expected(tx, branch, expected, head)
    return _Target(record, head, seen, expected)


def _check_existence(keys: Sequence[ContentKey], found: dict[bytes, bytes], at: CommitHash) -> None:
    missing = [key for key in keys if key.to_bytes() not in found]
    if missing:
        names = ", ".join(f"'{key}'" for key in missing[:MAX_NAMED]) + (", ..." if len(missing) > MAX_NAMED else "")
        raise BadRequest(f"keys: {names} did not exist at {at}; allow deletes to delete what exists since.")


def _plan(nodes: StoredNodes, rows: Sequence[Difference], roots: tuple[bytes, bytes, bytes]) -> Plan:
    """Rows are (key, the value to undo, the value to restore); roots those of base, restored state and head."""
    at_head = tree.get_many(nodes, roots[2], (raw for raw, _, _ in rows))
    decided = []
    for raw, undone, restored in rows:
        mode = KeyMergeMode(key=ContentKey.from_bytes(raw))
        conflict = compare_leaves(mode.key, at_head.get(raw), undone)
        decided.append((raw, mode, Decision(conflict, restored != at_head.get(raw), restored)))
    return make_plan(decided, at_head, lambda: get_nearby(nodes, *roots))


def _finish(
    tx: WriteTransaction, target: _Target, plan: Plan, options: Options, message: str, now: datetime
) -> MergeResult:
    """Write the plan, unless it has conflicts, changes nothing, or is not to be written."""
    record, head = target.record, target.head
    result = start_result(record.name, target.expected, head, None, plan)
    if plan.conflicts:
        return refuse(result, plan.conflicts, as_result=options.conflicts_as_result)
    raise_conflicts(get_namespace_conflicts(tx, root_of(head), plan.changes, plan.created, plan.at_head))
    if not plan.changes:
        return result
    if options.dry_run:
        return msgspec.structs.replace(result, resultant_target_hash=None)
    meta = msgspec.structs.replace(options.meta, message=options.meta.message or message)
    contents = load_contents(tx, (leaf for _, leaf in plan.changes if leaf))
    written = write_commit(tx, head, None, meta, plan.changes, contents.values(), now)
    references.move_head(tx, record, written.id, references.REVERTED, now)
    return msgspec.structs.replace(result, was_applied=True, resultant_target_hash=written.hash)


def _first_line(commit: Commit) -> str:
    return next(iter(meta_of(commit).message.splitlines()), "")
