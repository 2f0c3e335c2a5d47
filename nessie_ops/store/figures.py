"""How much a database holds: rows and bytes by table, references by type, the times of its commits."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.exc import OperationalError

from nessie_ops.store import tables
from nessie_ops.store.transactions import Transaction


class CommitTime(NamedTuple):
    id: bytes
    time: int  # microseconds since 1970, UTC


def get_url(tx: Transaction) -> str:
    """The URL of the database, without its password."""
    return tx.connection.engine.url.render_as_string(hide_password=True)


def count_rows(tx: Transaction) -> dict[str, int]:
    """Rows by table."""
    counts = {}
    for table in tables.ALL:
        counts[table.name] = int(tx.connection.execute(select(func.count()).select_from(table)).scalar_one())
    return counts


_BYTES = {
    "sqlite": "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_master WHERE tbl_name = :table)",
    "postgresql": "SELECT pg_total_relation_size(quote_ident(:table)::regclass)",
    "mariadb": "SELECT data_length + index_length FROM information_schema.tables "
    "WHERE table_schema = database() AND table_name = :table",
}


def measure_bytes(tx: Transaction) -> dict[str, int | None]:
    """Bytes by table, with its indexes, as the database accounts for them; None where this build of it does not."""
    name = tx.connection.dialect.name
    statement = text(_BYTES["mariadb" if name == "mysql" else name])
    sizes: dict[str, int | None] = {}
    for table in tables.ALL:
        try:
            sizes[table.name] = int(tx.connection.execute(statement, {"table": table.name}).scalar() or 0)
        except OperationalError as error:
            if "dbstat" not in str(error.orig):
                raise
            sizes[table.name] = None
    return sizes


def count_references(tx: Transaction) -> dict[str, int]:
    """References by type."""
    kind = tables.reference.c.type
    return {row.type: row.n for row in tx.connection.execute(select(kind, func.count().label("n")).group_by(kind))}


def get_oldest_and_newest_commit(tx: Transaction) -> tuple[CommitTime, CommitTime] | None:
    """By commit time; None when there are no commits."""
    commit = tables.commit
    query = select(commit.c.id, commit.c.time).limit(1)
    oldest = tx.connection.execute(query.order_by(commit.c.time, commit.c.depth)).first()
    newest = tx.connection.execute(query.order_by(commit.c.time.desc(), commit.c.depth.desc())).first()
    if oldest is None or newest is None:
        return None
    return CommitTime(bytes(oldest.id), oldest.time), CommitTime(bytes(newest.id), newest.time)
