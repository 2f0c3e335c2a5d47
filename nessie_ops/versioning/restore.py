"""Moves references back to where the reference log says that they were.

Each move is logged like any other, so a restore can be undone by a restore.  Properties are not in the log: a reference
keeps those it has, and one that is created again has none.
Branches of transactions are left alone: they are as long as their transactions are open.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import TRANSACTIONS, CommitHash, ReferenceType
from nessie_ops.store import Move, ReferenceRecord, WriteTransaction, scan
from nessie_ops.versioning import references
from nessie_ops.versioning.codec import to_hash, to_micros

MAX_NAMED = 10  # purged commits that the error names


class Restored(msgspec.Struct, frozen=True, rename="camel"):
    """A reference that was moved, created or deleted: type and commit before and after, None where it is not."""

    name: str
    type_before: ReferenceType | None
    before: CommitHash | None
    type_after: ReferenceType | None
    after: CommitHash | None


def restore(
    tx: WriteTransaction, at: datetime, names: Collection[str], default_branch: str, now: datetime, dry_run: bool
) -> list[Restored]:
    """What was moved, by name, or with `dry_run` would be.

    BadRequest (a time before the repository or in the future), ReferenceNotFound (no such reference at either time;
    a commit that has been purged).  Nothing is written on error.
    """
    if at > now:
        raise BadRequest(f"at: {at:%Y-%m-%d %H:%M:%S}Z is in the future.")
    plan = _plan(tx, at, names, default_branch)
    _check_commits(tx, [after for _, after in plan if after])
    steps = []
    for before, after in plan:
        if not dry_run:
            _apply(tx, before, after, now)
        steps.append(_describe(before, after))
    return steps


Change = tuple[ReferenceRecord | None, Move | None]
"""The reference as it is, and the move that led to where it was; None where it does not exist."""


def _plan(tx: WriteTransaction, at: datetime, names: Collection[str], default_branch: str) -> list[Change]:
    current = {record.name for record in tx.list_references()}
    moves = {move.name: move for move in scan.list_last_moves(tx, to_micros(at))}
    if default_branch not in moves:
        raise BadRequest(f"at: {at:%Y-%m-%d %H:%M:%S}Z is before the repository was created.")
    unknown = sorted(set(names) - current - moves.keys())
    if unknown:
        raise ReferenceNotFound(f"There is no reference '{unknown[0]}', neither now nor at that time.")
    transactions = [name for name in names if name.startswith(TRANSACTIONS)]
    if transactions:
        raise BadRequest(f"'{transactions[0]}' is the branch of a transaction, which cannot be restored.")
    plan = []
    for name in sorted(set(names) or {name for name in current | moves.keys() if not name.startswith(TRANSACTIONS)}):
        before = tx.get_reference(name, lock=True)
        move = moves.get(name)
        after = move if move and move.action != references.DELETED else None
        if _where(before) != _where_then(after):
            plan.append((before, after))
    return plan


def _where(record: ReferenceRecord | None) -> tuple[str, bytes | None] | None:
    return (record.type, record.head) if record else None


def _where_then(move: Move | None) -> tuple[str, bytes | None] | None:
    return (move.type, move.after) if move else None


def _check_commits(tx: WriteTransaction, moves: Sequence[Move]) -> None:
    existing = scan.list_existing(tx, [move.after for move in moves if move.after])
    gone = [f"'{move.name}' was at {move.after.hex()}" for move in moves if move.after and move.after not in existing]
    if gone:
        more = f" and {len(gone) - MAX_NAMED} more" if len(gone) > MAX_NAMED else ""
        raise ReferenceNotFound(
            f"Nothing was restored, since commits have been purged: {'; '.join(gone[:MAX_NAMED])}{more}. "
            "Name the references to restore, or choose a later time."
        )


def _apply(tx: WriteTransaction, before: ReferenceRecord | None, after: Move | None, now: datetime) -> None:
    at = to_micros(now)
    if after and after.after and not tx.touch_commit(after.after):
        raise ReferenceNotFound(f"Commit '{after.after.hex()}' not found")
    if before and (after is None or after.type != before.type):
        tx.delete_reference(before.name)
        tx.append_move(before, None, references.DELETED, at)
        before = None
    if after and before:
        moved = before._replace(head=after.after)
        tx.update_reference(moved)
        tx.append_move(before, moved, references.RESTORED, at)
    elif after:
        created = ReferenceRecord(after.name, after.type, after.after, at, "{}")
        tx.insert_reference(created)
        tx.append_move(None, created, references.CREATED, at)


def _describe(before: ReferenceRecord | None, after: Move | None) -> Restored:
    return Restored(
        name=(before or after).name,  # type: ignore[union-attr]
        type_before=ReferenceType(before.type) if before else None,
        before=to_hash(before.head) if before else None,
        type_after=ReferenceType(after.type) if after else None,
        after=to_hash(after.after) if after else None,
    )
