"""Whole tables for housekeeping, read in batches.

Each batch is one query by primary key, so a table of any size is read in bounded memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, func, select

from nessie_ops.store import tables
from nessie_ops.store.packing import unpack
from nessie_ops.store.rows import Kind, Move, ReferenceRecord
from nessie_ops.store.transactions import Transaction

BATCH = 500  # rows of a query: some megabytes of nodes, and below the parameter limit of every database


def scan_objects(tx: Transaction, kind: Kind) -> Iterator[Sequence[tuple[bytes, bytes | None]]]:
    """(id, data) of all nodes or contents in batches, by id; None for data that cannot be unpacked."""
    table = kind.table
    for rows in _scan(tx, select(table.c.id, table.c.data), table.c.id):
        yield [(bytes(row.id), _unpacked(bytes(row.data))) for row in rows]


def _unpacked(data: bytes) -> bytes | None:
    try:
        return unpack(data)
    except zlib.error:
        return None


def read_ages(tx: Transaction, kind: Kind, after: bytes) -> Sequence[tuple[bytes, int]]:
    """(id, used_at) of the next objects of a kind behind the id `after`, by id; none at the end."""
    table = kind.table
    statement = select(table.c.id, table.c.used_at).where(table.c.id > after).order_by(table.c.id).limit(4 * BATCH)
    return [(bytes(row.id), row.used_at) for row in tx.connection.execute(statement)]


def scan_moves(tx: Transaction, after: int = 0, since: int | None = None) -> Iterator[Sequence[Move]]:
    """The reference log in batches, by sequence number, after the given one, and not older than `since`."""
    log = tables.reference_log
    statement = select(log) if since is None else select(log).where(log.c.at >= since)
    for rows in _scan(tx, statement, log.c.seq, after):
        yield [Move(*tuple(row)) for row in rows]


def list_last_moves(tx: Transaction, at: int) -> list[Move]:
    """The last move of each reference that was not later than `at` (microseconds since 1970), by name."""
    log = tables.reference_log
    last = select(func.max(log.c.seq)).where(log.c.at <= at).group_by(log.c.name)
    return [
        Move(*tuple(row)) for row in tx.connection.execute(select(log).where(log.c.seq.in_(last)).order_by(log.c.name))
    ]


def scan_references(tx: Transaction) -> Iterator[ReferenceRecord]:
    """All references, by name."""
    table = tables.reference
    for rows in _scan(tx, select(table), table.c.name):
        yield from (ReferenceRecord(*tuple(row)) for row in rows)


class CommitWithKin(NamedTuple):
    """A row of the table `commit`, and those that its derived columns follow from; None where there is no row."""

    row: Row[Any]
    parent: Row[Any] | None
    merge_parent: Row[Any] | None
    parent_jump: Row[Any] | None
    parent_jump_jump: Row[Any] | None


def scan_commits(tx: Transaction) -> Iterator[Sequence[CommitWithKin]]:
    """All commits in batches, by id, with parent, merge parent, and the parent's jump and its jump."""
    table = tables.commit
    for rows in _scan(tx, select(table), table.c.id):
        parents = _by_id(tx, (id for row in rows for id in (row.parent, row.merge_parent)))
        jumps = _by_id(tx, (row.jump for row in parents.values()))
        far = _by_id(tx, (row.jump for row in jumps.values()))
        batch = []
        for row in rows:
            parent = parents.get(row.parent)
            jump = jumps.get(parent.jump) if parent else None
            batch.append(
                CommitWithKin(row, parent, parents.get(row.merge_parent), jump, far.get(jump.jump) if jump else None)
            )
        yield batch


def scan_commit_ages(tx: Transaction) -> Iterator[Sequence[tuple[bytes, int, int]]]:
    """(id, used_at, generation) of all commits in batches, by id."""
    table = tables.commit
    for rows in _scan(tx, select(table.c.id, table.c.used_at, table.c.generation), table.c.id):
        yield [(bytes(row.id), row.used_at, row.generation) for row in rows]


def list_existing(tx: Transaction, ids: Iterable[bytes]) -> set[bytes]:
    """Those of these commits that are in the database, whatever the cache has."""
    return {id for id in _by_id(tx, ids) if id is not None}


def exists(tx: Transaction, kind: Kind, id: bytes) -> bool:
    """Whether the object is in the database, whatever the cache has."""
    return tx.connection.execute(select(kind.table.c.id).where(kind.table.c.id == id)).first() is not None


def _by_id(tx: Transaction, ids: Iterable[bytes | None]) -> dict[bytes | None, Row[Any]]:
    """Commits without what they hold."""
    table = tables.commit
    names = ("id", "jump", "depth", "generation", "time")
    wanted = sorted({bytes(id) for id in ids if id is not None})
    found: dict[bytes | None, Row[Any]] = {}
    for start in range(0, len(wanted), BATCH):
        statement = select(*(table.c[name] for name in names)).where(table.c.id.in_(wanted[start : start + BATCH]))
        found |= {bytes(row.id): row for row in tx.connection.execute(statement)}
    return found


def _scan(tx: Transaction, statement: Any, key: Any, after: Any = None) -> Iterator[Sequence[Row[Any]]]:
    while True:
        later = statement if after is None else statement.where(key > after)
        rows = tx.connection.execute(later.order_by(key).limit(BATCH)).fetchall()
        if rows:
            yield rows
        if len(rows) < BATCH:
            return
        after = getattr(rows[-1], key.name)


def get_last_seq(tx: Transaction, *, lock: bool = False) -> int | None:
    """The greatest sequence number of the reference log, by the counter; None when there is none.

    With `lock`, no reference moves until the transaction ends: writers change the counter last, and wait for it.
    """
    counter = tables.counter
    statement = select(counter.c.value).where(counter.c.name == "reference_log")
    value: int | None = tx.connection.execute(statement.with_for_update() if lock else statement).scalar()
    return value
