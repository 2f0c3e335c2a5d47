"""READ COMMITTED: a transaction's branch takes up what others have committed to the target, but for what it wrote.

A key that both have changed keeps the transaction's value, and is remembered: COMMIT will refuse it, since somebody
else's update would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import msgspec

from nessie_ops.errors import ReferenceConflict
from nessie_ops.model import CatalogTransaction, CommitHash, Conflict, KeyMergeMode, Merge, MergeBehavior, NewCommit
from nessie_ops.store import Transaction, WriteTransaction
from nessie_ops.transactions.namespaces import find_created_twice
from nessie_ops.versioning import merging, references
from nessie_ops.versioning.codec import to_hash
from nessie_ops.versioning.history import is_ancestor
from nessie_ops.versioning.objects import find_commit


def refresh(tx: WriteTransaction, open: CatalogTransaction, clock: Callable[[], datetime]) -> CatalogTransaction:
    """The transaction, seeing the target as it is now; its branch is moved, or gets a commit."""
    target, branch = tx.get_reference(open.target), tx.get_reference(open.branch, lock=True)
    if target is None or branch is None or to_hash(target.head) == open.base_hash:
        return open
    head = to_hash(target.head)
    if to_hash(branch.head) == open.base_hash:  # it has written nothing
        references.assign_reference(tx, open.branch, open.base_hash, head, clock())
        return msgspec.structs.replace(open, base_hash=head)
    request = Merge(
        from_ref=open.target,
        from_hash=head,
        meta=NewCommit(message=f"See {open.target} at {head}"),
        conflicts_as_result=True,
    )
    twice = find_created_twice(tx, open.base_hash, to_hash(branch.head), head)
    try:
        found = _merge(tx, open, request, twice, clock)
    except ReferenceConflict as error:  # of namespaces: it stays where it is
        return msgspec.structs.replace(open, overtaken=_add(open.overtaken, error.conflicts))
    return msgspec.structs.replace(open, base_hash=head, overtaken=_add(open.overtaken, found))


def find_since(tx: Transaction, open: CatalogTransaction, head: CommitHash) -> CommitHash | None:
    """What the transaction and its target, at `head`, are compared with, where a merge would find something else.

    A target that was set back has the merge base where it is, and what it has given up would come back.
    """
    base = find_commit(tx, open.base_hash)
    return None if is_ancestor(tx, base, find_commit(tx, head)) else open.base_hash


def _merge(
    tx: WriteTransaction,
    open: CatalogTransaction,
    request: Merge,
    known: Sequence[Conflict],
    clock: Callable[[], datetime],
) -> tuple[Conflict, ...]:
    """Merge the target into the branch; the conflicts, whose keys stay as the transaction wrote them.

    What stays can be in the way of another key, such as the one that the target has moved it to: that stays, too.
    """
    since, kept = find_since(tx, open, request.from_hash), list(known)
    while True:
        result = merging.merge(tx, open.branch, None, _keep(request, kept), clock, since=since)
        found = [row.conflict for row in result.details if row.conflict]
        if not found:
            return tuple(kept)
        kept += found


def _keep(request: Merge, conflicts: Iterable[Conflict]) -> Merge:
    """The merge without the keys of conflicts."""
    keys = (conflict.key for conflict in conflicts if conflict.key)
    modes = tuple(KeyMergeMode(key=key, merge_behavior=MergeBehavior.DROP) for key in keys)
    return msgspec.structs.replace(request, key_modes=modes)


def _add(known: tuple[Conflict, ...], new: tuple[Conflict, ...]) -> tuple[Conflict, ...]:
    keys = {conflict.key for conflict in known}
    return known + tuple(conflict for conflict in new if conflict.key not in keys)
