"""COMMIT: what was read must still be so, what was written is merged, and a conflict says who is in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NoReturn

import msgspec

from nessie_ops.buffering.blame import MAX_LOG, find_changes, tell
from nessie_ops.errors import ReferenceConflict, TransactionNotOpen
from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    CommitHash,
    Conflict,
    Isolation,
    Merge,
    NewCommit,
)
from nessie_ops.store import WriteTransaction
from nessie_ops.transactions.namespaces import find_created_twice
from nessie_ops.transactions.reads import find_conflicts
from nessie_ops.transactions.refreshing import find_since
from nessie_ops.versioning import history, merging, references
from nessie_ops.versioning.codec import to_hash
from nessie_ops.versioning.objects import find_commit, load_commit, root_of

ID = "nessie_ops.transaction"  # properties of the commit
ISOLATION = "nessie_ops.isolation"


def commit(
    tx: WriteTransaction,
    open: CatalogTransaction,
    message: str,
    author: str,
    default_branch: str,
    clock: Callable[[], datetime],
) -> CatalogTransaction:
    """The transaction as committed; TransactionConflict, TransactionNotOpen (its branch was deleted)."""
    target = references.get_branch_record(tx, open.target, "commit")
    branch = tx.get_reference(open.branch, lock=True)
    if branch is None:
        raise TransactionNotOpen(f"Somebody deleted the branch {open.branch} of the transaction; roll it back.")
    conflicts = list(open.overtaken)
    if open.isolation is Isolation.SERIALIZABLE:
        roots = (root_of(find_commit(tx, open.start_hash)), root_of(load_commit(tx, target.head)))
        conflicts += find_conflicts(tx, tx.list_reads(open.id), *roots)
    head, source = to_hash(target.head), to_hash(branch.head)
    known = {conflict.key for conflict in conflicts}
    twice = find_created_twice(tx, open.base_hash, source, head)
    conflicts += [conflict for conflict in twice if conflict.key not in known]
    if conflicts:
        _refuse(tx, open, conflicts, head)
    request = Merge(
        from_ref=open.branch, from_hash=source, meta=_words(open, message, author), conflicts_as_result=True
    )
    try:
        result = merging.merge(tx, open.target, None, request, clock, squash=True, since=find_since(tx, open, head))
    except ReferenceConflict as error:  # of namespaces
        _refuse(tx, open, error.conflicts, head)
    if not result.was_successful:
        _refuse(tx, open, [row.conflict for row in result.details if row.conflict], head)
    now = clock()
    references.delete_reference(tx, open.branch, source, default_branch, now)
    return msgspec.structs.replace(
        open,
        state=CatalogTransactionState.COMMITTED,
        commit_hash=result.resultant_target_hash,
        ended_at=now,
    )


def _words(open: CatalogTransaction, message: str, author: str) -> NewCommit:
    who = author or open.author
    return NewCommit(
        message=message or open.message or f"Commit transaction {open.id}",
        authors=(who,) if who else (),
        properties={ID: (open.id,), ISOLATION: (open.isolation,)},
    )


def _refuse(
    tx: WriteTransaction, open: CatalogTransaction, conflicts: Sequence[Conflict], head: CommitHash
) -> NoReturn:
    """TransactionConflict with who changed what."""
    keys = {conflict.key for conflict in conflicts if conflict.key}
    is_newer = head != open.start_hash and history.is_ancestor(
        tx, find_commit(tx, open.start_hash), find_commit(tx, head)
    )  # who set the target back is in no log
    log = history.list_log(tx, head, open.start_hash, MAX_LOG, True, None) if is_newer else ()
    raise tell(f"Transaction {open.id}", open.target, conflicts, find_changes(log, keys, open.start_hash))
