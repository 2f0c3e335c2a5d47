"""Deletes immutable objects that nobody needs, without ever waiting for a row of a writer.

Whoever deletes first holds back the moves of references (`scan.get_last_seq` with `lock`), and then passes over rows
that a writer in flight has touched: that writer may be waiting for the same lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, func, select

from nessie_ops.store.rows import Kind
from nessie_ops.store.transactions import Transaction
from nessie_ops.store.writing import WriteTransaction


class Candidates(NamedTuple):
    """Objects that may be deleted, with their bytes; and those that somebody needs just now."""

    free: dict[bytes, int]
    needed: set[bytes]


def find_candidates(tx: Transaction, kind: Kind, ids: Sequence[bytes], used_before: int, *, lock: bool) -> Candidates:
    """Sort those of `ids` (at most 500) that exist: used since `used_before` or locked by others, or free."""
    table = kind.table
    is_commit = kind is Kind.COMMIT
    size = func.length(table.c.meta) + func.length(table.c.operations) if is_commit else func.length(table.c.data)
    statement = select(table.c.id, table.c.used_at, size.label("size")).where(table.c.id.in_(ids))
    unlocked = tx.connection.execute(statement.with_for_update(skip_locked=True) if lock else statement).fetchall()
    free = {bytes(row.id): int(row.size) for row in unlocked if row.used_at < used_before}
    existing = tx.connection.execute(select(table.c.id).where(table.c.id.in_(ids)))
    return Candidates(free, {bytes(row.id) for row in existing} - free.keys())


def delete_objects(tx: WriteTransaction, kind: Kind, ids: Sequence[bytes]) -> None:
    """Delete objects that `find_candidates` locked and found free."""
    tx.connection.execute(delete(kind.table).where(kind.table.c.id.in_(ids)))
