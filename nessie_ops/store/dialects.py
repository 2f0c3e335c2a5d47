"""What differs between databases: how to connect, to begin and end a transaction, to upsert, to judge an error.

The hot statements are text with `?` for parameters and go straight to the driver (`Dialect.execute`);
everything else is Core.  SQLite has one writer at a time; PostgreSQL and MariaDB lock rows.
CockroachDB speaks PostgreSQL's protocol, but has not been tried.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pymysql
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import StaticPool

from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.store import libpq

BUSY_TIMEOUT_MS = 30_000  # longer than any transaction of ours takes; then the caller gets "try again"
POOL_SIZE = 32  # connections kept; as many as the server has threads
POOL_OVERFLOW = 16
POOL_TIMEOUT_S = 10  # then "try again"
CONNECT_TIMEOUT_S = 10
NETWORK_TIMEOUT_MS = 30_000  # without an acknowledgement: then the connection is lost
WRITE = "nessie_ops_write"
_SCHEMA_LOCK = 4_711_020
_QUIET: Any = {"hide_parameters": True}  # errors go to logs, and a parameter may be a secret

Row = Sequence[Any]
Statement = tuple[str, Sequence[Any]]
"""(text with `?`, parameters)."""


class Verdict(Enum):
    """What an error of the driver says about the transaction."""

    RETRY = "rolled back by the database's own scheduling; the same again may work"
    LOST = "the connection is gone"
    FAILED = "the statement failed; nothing is applied"
    CORRUPT = "this is no database of ours"


class InDoubt(Exception):
    """Whether a COMMIT was applied is unknown; the argument is the driver's error."""


class Dialect:
    """SQLite, and what all have in common."""

    name = "sqlite"
    row_locks = False  # else one writer at a time
    inline_reads = True  # a read of a few rows is shorter than a change of threads
    can_watch = False  # an event loop can wait for its connections
    for_update = ""
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    on_statement: Callable[[Any, str], None] | None = None  # told of each hot statement and COMMIT before it: for tests

    def open_engine(self, url: URL, create: bool) -> Engine:
        if _is_memory(url):
            engine = create_engine(url, poolclass=StaticPool, connect_args={"check_same_thread": False}, **_QUIET)
        else:
            file = _prepare_file(Path(str(url.database)).expanduser(), create)
            # Requests run in a pool of threads: none of them should wait for a connection.
            engine = create_engine(
                url.set(database=file),
                pool_size=64,
                max_overflow=-1,
                connect_args={"check_same_thread": False},
                **_QUIET,
            )
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def set_autocommit(self, raw: Any) -> None:
        """Make each statement a transaction of its own."""

    def fetch(self, raw: Any, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """The rows of one hot query on a driver's connection."""
        self._tell(raw, statement)
        rows: list[Row] = self._execute(raw, statement, parameters).fetchall()
        return rows

    def change(self, raw: Any, statement: str, parameters: Sequence[Any] = ()) -> int:
        """Run one hot statement; how many rows it changed."""
        self._tell(raw, statement)
        count: int = self._execute(raw, statement, parameters).rowcount
        return count

    def _tell(self, raw: Any, statement: str) -> None:
        if self.on_statement:
            self.on_statement(raw, statement)

    def _execute(self, raw: Any, statement: str, parameters: Sequence[Any]) -> Any:
        return raw.execute(statement, parameters)

    def execute_all(self, raw: Any, statements: Iterable[Statement]) -> None:
        """Run statements in one round trip where the driver can."""
        for statement, parameters in statements:
            self.change(raw, statement, parameters)

    def commit(self, raw: Any, statements: Sequence[Statement]) -> None:
        """Run statements and COMMIT; InDoubt when the COMMIT itself failed in a way that may have worked."""
        self.execute_all(raw, statements)
        try:
            self.change(raw, "COMMIT")
        except self.errors as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise  # the last frame of the log was not written
            raise InDoubt(error) from error

    def select_in(self, columns: str, table: str, ids: Sequence[bytes]) -> Statement:
        """The query for rows by id."""
        return _select_in(columns, table, len(ids)), ids

    def insert_if_absent(self, table: str, columns: str) -> str:
        """The text that adds a row unless one of its key is there, for which it waits; the count says which."""
        marks = ", ".join("?" * (columns.count(",") + 1))
        return f'INSERT INTO "{table}" ({columns}) VALUES ({marks}) ON CONFLICT DO NOTHING'

    def delete_some(self, table: str, key: str, column: str, limit: int) -> str:
        """The text that deletes at most `limit` rows whose `column` is below a parameter."""
        skip = f"{self.for_update} SKIP LOCKED" if self.row_locks else ""
        some = f'SELECT "{key}" FROM "{table}" WHERE "{column}" < ? ORDER BY "{column}" LIMIT {limit}{skip}'
        return f'DELETE FROM "{table}" WHERE "{key}" IN ({some})'

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        """Held by one process at a time while it creates or changes tables."""
        yield  # BEGIN IMMEDIATE has locked

    def upsert_clause(self, key: str, touched: Sequence[str]) -> str:
        changes = ", ".join(f'"{name}" = excluded."{name}"' for name in touched)
        return f' ON CONFLICT ("{key}") DO UPDATE SET {changes}'

    def judge(self, error: Exception) -> Verdict:
        """What an error (the driver's own, or one that wraps it) says."""
        cause = getattr(error, "orig", None) or error
        if isinstance(cause, sqlite3.IntegrityError):
            return Verdict.RETRY  # somebody else wrote the row since it was looked for
        if type(cause) is sqlite3.DatabaseError:
            return Verdict.CORRUPT
        return Verdict.FAILED


class PostgreSQL(Dialect):
    name = "postgresql"
    row_locks = True
    inline_reads = False
    can_watch = True
    for_update = " FOR UPDATE"
    errors = (psycopg.Error,)

    def open_engine(self, url: URL, create: bool) -> Engine:
        options = {"connect_timeout": CONNECT_TIMEOUT_S, "tcp_user_timeout": NETWORK_TIMEOUT_MS} | dict(url.query)
        engine = create_engine(
            url.set(drivername="postgresql+psycopg", query={}),
            pool_size=POOL_SIZE,
            max_overflow=POOL_OVERFLOW,
            pool_timeout=POOL_TIMEOUT_S,
            connect_args=options,
            **_QUIET,
        )
        event.listen(engine, "connect", _configure_postgresql)
        return engine

    def set_autocommit(self, raw: Any) -> None:
        raw.autocommit = True

    def fetch(self, raw: Any, statement: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return libpq.rows_of(self._run(raw, [(statement, parameters)])[0])

    def change(self, raw: Any, statement: str, parameters: Sequence[Any] = ()) -> int:
        return self._run(raw, [(statement, parameters)])[0].command_tuples or 0

    def _run(self, raw: Any, statements: Sequence[Statement]) -> Sequence[Any]:
        for statement, _ in statements:
            self._tell(raw, statement)
        if not raw.autocommit and raw.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return libpq.run(raw, [("BEGIN", ()), *statements])[1:]
        return libpq.run(raw, statements)

    def execute_all(self, raw: Any, statements: Iterable[Statement]) -> None:
        self._run(raw, list(statements))

    def commit(self, raw: Any, statements: Sequence[Statement]) -> None:
        try:
            self.execute_all(raw, [*statements, ("COMMIT", ())])
        except psycopg.Error as error:
            if self.judge(error) is Verdict.LOST:
                raise InDoubt(error) from error
            raise  # the server says that it has rolled back

    def select_in(self, columns: str, table: str, ids: Sequence[bytes]) -> Statement:
        if len(ids) == 1:
            return super().select_in(columns, table, ids)
        return f'SELECT {columns} FROM "{table}" WHERE "id" = ANY(?)', (list(ids),)

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})")
        yield

    def judge(self, error: Exception) -> Verdict:
        cause = getattr(error, "orig", None) or error
        state = getattr(cause, "sqlstate", None)
        if state is None:  # not from the server
            wrong = isinstance(cause, psycopg.ProgrammingError | psycopg.DataError | psycopg.NotSupportedError)
            return Verdict.FAILED if wrong else Verdict.LOST
        # Deadlock, serialization; a row that somebody else wrote first; a statement that is not prepared any more.
        if state[:2] in ("40", "23", "26"):
            return Verdict.RETRY
        return Verdict.LOST if state[:2] in ("57", "08") and state != "57014" else Verdict.FAILED


class MariaDB(Dialect):
    """MariaDB and MySQL."""

    name = "mariadb"
    row_locks = True
    inline_reads = False
    for_update = " FOR UPDATE"
    errors = (pymysql.err.MySQLError,)

    def open_engine(self, url: URL, create: bool) -> Engine:
        options = {
            "charset": "utf8mb4",
            "connect_timeout": CONNECT_TIMEOUT_S,
            "init_command": "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES,NO_ENGINE_SUBSTITUTION'",
        } | dict(url.query)
        return create_engine(
            url.set(drivername=f"{url.get_backend_name()}+pymysql", query={}),
            pool_size=POOL_SIZE,
            max_overflow=POOL_OVERFLOW,
            pool_timeout=POOL_TIMEOUT_S,
            isolation_level="READ COMMITTED",
            connect_args=options,
            **_QUIET,
        )

    def set_autocommit(self, raw: Any) -> None:
        raw.autocommit(True)

    def _execute(self, raw: Any, statement: str, parameters: Sequence[Any]) -> Any:
        cursor = raw.cursor()
        cursor.execute(_percent(statement), parameters)
        return cursor

    @contextmanager
    def schema_lock(self, connection: Connection) -> Iterator[None]:
        got = connection.exec_driver_sql(f"SELECT GET_LOCK('nessie_ops {_SCHEMA_LOCK}', {POOL_TIMEOUT_S * 6})").scalar()
        if got != 1:
            raise StoreUnavailable("Somebody else is creating or changing the tables of the store. Try again.")
        try:
            yield
            connection.exec_driver_sql("COMMIT")
        finally:
            connection.exec_driver_sql(f"SELECT RELEASE_LOCK('nessie_ops {_SCHEMA_LOCK}')")

    def insert_if_absent(self, table: str, columns: str) -> str:
        return (
            super()
            .insert_if_absent(table, columns)
            .replace("INSERT", "INSERT IGNORE", 1)
            .removesuffix(" ON CONFLICT DO NOTHING")
        )

    def delete_some(self, table: str, key: str, column: str, limit: int) -> str:
        return f'DELETE FROM "{table}" WHERE "{column}" < ? ORDER BY "{column}" LIMIT {limit}'

    def upsert_clause(self, key: str, touched: Sequence[str]) -> str:
        return " ON DUPLICATE KEY UPDATE " + ", ".join(f'"{name}" = VALUES("{name}")' for name in touched)

    def judge(self, error: Exception) -> Verdict:
        cause = getattr(error, "orig", None) or error
        code = cause.args[0] if cause.args else None
        if isinstance(cause, pymysql.err.IntegrityError) or code in (1205, 1213, 1020):
            return Verdict.RETRY
        lost = isinstance(cause, pymysql.err.InterfaceError) or code in (2003, 2006, 2013, 1053, 1927, 4031)
        return Verdict.LOST if lost else Verdict.FAILED


_DIALECTS = {
    "sqlite": Dialect,
    "sqlite+pysqlite": Dialect,
    "postgresql": PostgreSQL,
    "postgresql+psycopg": PostgreSQL,
    "mariadb": MariaDB,
    "mariadb+pymysql": MariaDB,
    "mysql": MariaDB,
    "mysql+pymysql": MariaDB,
}


def parse_url(url: str) -> tuple[URL, Dialect]:
    """A SQLAlchemy URL and the dialect of its database; BadRequest for one that cannot be used."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise BadRequest("store: this is not a SQLAlchemy URL; use one such as sqlite:////path/to/catalog.db") from None
    dialect = _DIALECTS.get(parsed.drivername)
    if dialect is None:
        raise BadRequest(
            f"store: '{parsed.drivername}' is not supported; use sqlite:////path/to/catalog.db, "
            "postgresql+psycopg://user@host/database or mariadb+pymysql://user@host/database."
        )
    return parsed, dialect()


def is_memory(url: str) -> bool:
    """Whether the store lives in this process only."""
    return _is_memory(make_url(url))


def _is_memory(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


@cache
def _percent(statement: str) -> str:
    return statement.replace("?", "%s")


@cache
def _select_in(columns: str, table: str, count: int) -> str:
    marks = ", ".join("?" * count)
    return f'SELECT {columns} FROM "{table}" WHERE "id" IN ({marks})'


def _prepare_file(path: Path, create: bool) -> str:
    if not create and not path.exists():
        raise BadRequest(f"store: there is no catalog at {path}.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadRequest(f"store: cannot create the folder {path.parent}: {error.strerror}.") from None
    return str(path)


def _configure_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")  # in WAL mode only FULL makes a commit survive a power cut
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _configure_postgresql(connection: Any, _record: Any) -> None:
    """Bound the wait for a lock, and let the server notice that a client's machine is gone, unless that is set."""
    connection.prepare_threshold = None  # else a rollback of psycopg's deallocates what `libpq` has prepared
    connection.autocommit = True
    connection.execute(
        "SELECT set_config(name, value, false) FROM pg_settings JOIN (VALUES "
        f"('lock_timeout', '{BUSY_TIMEOUT_MS}'), "
        "('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3')"
        ") AS wanted (name, value) USING (name) WHERE source = 'default'"
    )
    connection.autocommit = False


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
    raw: Any = connection.connection.driver_connection
    raw.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
