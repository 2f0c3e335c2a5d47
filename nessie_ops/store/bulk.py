"""Rows of references, their log and settings as a whole, for archives: read as they are, written as they were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import delete, func, insert, select, update

from nessie_ops.store import tables
from nessie_ops.store.packing import unpack
from nessie_ops.store.rows import Kind, Move
from nessie_ops.store.transactions import Transaction
from nessie_ops.store.writing import WriteTransaction

_AT_ONCE = 500


def list_settings(tx: Transaction) -> dict[str, str]:
    """All settings but the format, by name."""
    setting = tables.setting
    rows = tx.connection.execute(select(setting).where(setting.c.name != "format").order_by(setting.c.name))
    return {row.name: row.value for row in rows}


def read_data(tx: Transaction, kind: Kind, ids: Sequence[bytes]) -> dict[bytes, bytes]:
    """What was hashed of nodes or contents, by id; absent ids are left out."""
    table = kind.table
    found: dict[bytes, bytes] = {}
    for start in range(0, len(ids), _AT_ONCE):
        statement = select(table.c.id, table.c.data).where(table.c.id.in_(ids[start : start + _AT_ONCE]))
        found |= {bytes(row.id): unpack(bytes(row.data)) for row in tx.connection.execute(statement)}
    return found


def is_empty(tx: Transaction) -> bool:
    """Whether nothing has ever happened here but the creation of the default branch."""
    moves = tx.connection.execute(select(func.count()).select_from(tables.reference_log)).scalar_one()
    objects = any(tx.connection.execute(select(kind.table.c.id).limit(1)).first() for kind in Kind)
    heads = tx.connection.execute(select(tables.reference.c.head)).scalars().all()
    return not objects and moves <= 1 and len(heads) <= 1 and not any(heads)


def clear_references(tx: WriteTransaction) -> None:
    """Delete all references and their log."""
    tx.connection.execute(delete(tables.reference))
    tx.connection.execute(delete(tables.reference_log))
    set_last_seq(tx, 0)


def insert_moves(tx: WriteTransaction, moves: Iterable[Move]) -> None:
    """Add rows of the reference log with the numbers that they have."""
    rows = [move._asdict() for move in moves]
    if rows:
        tx.connection.execute(insert(tables.reference_log), rows)


def set_last_seq(tx: WriteTransaction, seq: int) -> None:
    """Let the reference log go on after `seq`."""
    counter = tables.counter
    tx.connection.execute(update(counter).where(counter.c.name == "reference_log").values(value=seq))


def delete_setting(tx: WriteTransaction, name: str) -> None:
    tx.connection.execute(delete(tables.setting).where(tables.setting.c.name == name))
