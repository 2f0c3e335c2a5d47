"""What differs between databases: how to connect, to begin a writing transaction, to upsert, to lock a row."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.schema import Table

from nessie_ops.errors import BadRequest

BUSY_TIMEOUT_MS = 30_000  # longer than any transaction of ours takes; then the caller gets "try again"
WRITE = "nessie_ops_write"


def open_engine(url: str, *, create: bool = True) -> Engine:
    """An engine for a SQLAlchemy URL; BadRequest for one that cannot be used, or must exist and does not."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise BadRequest("store: this is not a SQLAlchemy URL; use one such as sqlite:////path/to/catalog.db") from None
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise BadRequest(f"store: '{parsed.drivername}' is not supported; use sqlite:////path/to/catalog.db")
    if is_memory(url):
        engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False})
    else:
        file = _prepare_file(Path(str(parsed.database)).expanduser(), create)
        # Requests run in a pool of threads: none of them should wait for a connection.
        engine = create_engine(
            parsed.set(database=file), pool_size=64, max_overflow=-1, connect_args={"check_same_thread": False}
        )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_file(path: Path, create: bool) -> str:
    if not create and not path.exists():
        raise BadRequest(f"store: there is no catalog at {path}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"store: cannot create the folder {path.parent}: {error.strerror}.") from None
    return str(path)


def is_memory(url: str) -> bool:
    """Whether the store lives in this process only."""
    parsed = make_url(url)
    return parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")  # in WAL mode only FULL makes a commit survive a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Set the journal mode once for the file; SQLite's own waiting does not cover this switch."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    # A writer takes the one write lock at once: a read lock cannot be upgraded when others write.
    writes = connection.get_execution_options().get(WRITE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def upsert(table: Table, touched: tuple[str, ...]) -> Insert:
    """INSERT that, where the row exists, only updates the `touched` columns."""
    statement = sqlite.insert(table)
    return statement.on_conflict_do_update(
        index_elements=list(table.primary_key.columns),
        set_={name: statement.excluded[name] for name in touched},
    )
