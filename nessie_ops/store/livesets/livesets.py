"""LiveSets: rows in, rows out of the live-set database.  Every method is one transaction; rows are written in batches.

A row that is there already is left as it is, so that work that was cut short can be done again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, NamedTuple, Self

import msgspec
from sqlalchemy import Column, Connection, Engine, Table, bindparam, delete, func, insert, inspect, select, update
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.store import dialects
from nessie_ops.store.dialects import Dialect
from nessie_ops.store.livesets import tables

BATCH = 1000  # rows of one statement


class LiveSetRecord(NamedTuple):
    number: int
    id: str
    status: str
    created_at: int
    identified_at: int = 0
    expiry_started_at: int = 0
    expired_at: int = 0
    owner: str = ""
    leased_until: int = 0
    error: str = ""
    settings: str = "{}"
    figures: str = "{}"


class ReferenceRecord(NamedTuple):
    ordinal: int
    name: str
    type: str
    hash: str
    bound: str
    is_done: int = 0
    commits: int = 0
    last: str = ""


class VersionRecord(NamedTuple):
    content_id: str
    is_table: int
    metadata_location: str
    snapshot_id: int
    key: str
    commit: str
    reference: str


class BaseRecord(NamedTuple):
    content_id: str
    place: str


class ListingRecord(NamedTuple):
    place: str
    figures: str = "{}"


class FileRecord(NamedTuple):
    location: str
    base: str
    size_bytes: int
    modified_at: int
    state: str = "pending"
    error: str = ""
    reason: str = ""


def digest_of(*parts: str) -> bytes:
    """128 bits that stand for these texts."""
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).digest()


class LiveSets:
    """A database of live sets."""

    def __init__(self, engine: Engine, dialect: Dialect, *, in_memory: bool = False) -> None:
        self._engine = engine
        # SQLite has one writer, and a database in memory one connection: waiting here is cheaper than polling there.
        lock = threading.RLock()
        self._write_lock: AbstractContextManager[object] = nullcontext() if dialect.row_locks else lock
        self._read_lock: AbstractContextManager[object] = lock if in_memory else nullcontext()
        self._dialect = dialect
        self._writer = engine.execution_options(**{dialects.WRITE: True})

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Self:
        """The database at a SQLAlchemy URL; with `create`, missing tables are made.  BadRequest, StoreUnavailable."""
        parsed, dialect = dialects.parse_url(url)
        opened = cls(dialect.open_engine(parsed, create=True), dialect, in_memory=dialects.is_memory(url))
        if create:
            opened.create_tables()
        return opened

    def close(self) -> None:
        self._engine.dispose()

    # -- tables -------------------------------------------------------------------------------

    def create_tables(self, *, drop: bool = False, must_be_new: bool = False) -> None:
        """Make the tables that are missing.  BadRequest when some are there and `must_be_new`."""
        with self._write() as connection, self._dialect.schema_lock(connection):
            found = set(inspect(connection).get_table_names()) & set(tables.metadata.tables)
            if found and must_be_new:
                raise BadRequest(f"The tables {', '.join(sorted(found))} exist already; use CREATE_IF_NOT_EXISTS.")
            if drop:
                tables.metadata.drop_all(connection)
            tables.metadata.create_all(connection)

    def check_tables(self) -> None:
        """BadRequest when the tables are not there."""
        with self._read() as connection:
            missing = set(tables.metadata.tables) - set(inspect(connection).get_table_names())
        if missing:
            raise BadRequest(
                f"The live-set database lacks the tables {', '.join(sorted(missing))}: "
                "run `nessie-ops gc create-sql-schema`, or give --jdbc-schema CREATE_IF_NOT_EXISTS."
            )

    @staticmethod
    def ddl(name: str) -> list[str]:
        """The statements that make the tables on `sqlite`, `postgresql` or `mariadb`."""
        dialect = {"sqlite": sqlite, "postgresql": postgresql, "mariadb": mysql}[name].dialect()
        statements: list[Any] = []
        for table in tables.ALL:
            statements += [CreateTable(table), *(CreateIndex(index) for index in table.indexes)]
        return [str(statement.compile(dialect=dialect)).strip() for statement in statements]

    # -- live sets ----------------------------------------------------------------------------

    def add(self, id: str, status: str, created_at: int, settings: str, references: Iterable[ReferenceRecord]) -> int:
        """A new live set with the references that it pins; its number."""
        values = LiveSetRecord(0, id, status, created_at, settings=settings)._asdict()
        del values["number"]
        with self._write() as connection:
            result = connection.execute(insert(tables.live_set), values)
            assert result.inserted_primary_key is not None
            number = int(result.inserted_primary_key[0])
            self._insert(connection, tables.reference, ((number, *row) for row in references))
        return number

    def get(self, id: str) -> LiveSetRecord | None:
        with self._read() as connection:
            row = connection.execute(select(tables.live_set).where(tables.live_set.c.id == id)).first()
        return LiveSetRecord(*row) if row else None

    def list_live_sets(self) -> list[LiveSetRecord]:
        """All live sets, newest first."""
        order = (tables.live_set.c.created_at.desc(), tables.live_set.c.number.desc())
        with self._read() as connection:
            return [LiveSetRecord(*row) for row in connection.execute(select(tables.live_set).order_by(*order))]

    def change(self, number: int, *, expected: Mapping[str, Any], **values: Any) -> bool:
        """Set columns of a live set whose columns are as `expected`; whether they were."""
        row = tables.live_set
        where = [row.c.number == number, *(row.c[name] == value for name, value in expected.items())]
        with self._write() as connection:
            return connection.execute(update(row).where(*where).values(**values)).rowcount == 1

    def take(self, number: int, owner: str, now: int, until: int) -> bool:
        """Lease a live set that nobody else has; whether that worked."""
        row = tables.live_set
        free = (row.c.owner == "") | (row.c.owner == owner) | (row.c.leased_until < now)
        with self._write() as connection:
            result = connection.execute(
                update(row).where(row.c.number == number, free).values(owner=owner, leased_until=until)
            )
            return result.rowcount == 1

    def delete(self, number: int) -> None:
        """Delete a live set and all its rows."""
        with self._write() as connection:
            for table in tables.PARTS:
                connection.execute(delete(table).where(table.c.live_set == number))
            connection.execute(delete(tables.live_set).where(tables.live_set.c.number == number))

    # -- what a mark found --------------------------------------------------------------------

    def list_references(self, number: int) -> list[ReferenceRecord]:
        """The pinned references in their order."""
        row = tables.reference
        with self._read() as connection:
            found = connection.execute(select(row).where(row.c.live_set == number).order_by(row.c.ordinal))
            return [ReferenceRecord(*values[1:]) for values in found]

    def finish_reference(
        self, number: int, ordinal: int, commits: int, last: str, versions: Iterable[VersionRecord]
    ) -> None:
        """Record what the walk of one reference found."""
        row = tables.reference
        with self._write() as connection:
            self.add_versions_in(connection, number, versions)
            connection.execute(
                update(row)
                .where(row.c.live_set == number, row.c.ordinal == ordinal)
                .values(is_done=1, commits=commits, last=last)
            )

    def add_versions_in(self, connection: Connection, number: int, versions: Iterable[VersionRecord]) -> None:
        rows = ((number, digest_of(row[0], row[2], str(row[3])), *row) for row in versions)
        self._insert(connection, tables.version, rows)

    def count_versions(self, number: int) -> tuple[int, int]:
        """How many contents, and how many versions of them."""
        row = tables.version
        query = select(func.count(row.c.content_id.distinct()), func.count()).where(row.c.live_set == number)
        with self._read() as connection:
            contents, versions = connection.execute(query).one()
        return contents, versions

    def list_versions(self, number: int) -> Iterator[VersionRecord]:
        """All live versions, in batches by digest."""
        row = tables.version
        for values in self._scan(row, row.c.live_set == number, row.c.digest):
            yield VersionRecord(*values[2:])

    # -- what a sweep found -------------------------------------------------------------------

    def add_bases(self, number: int, bases: Iterable[BaseRecord]) -> None:
        with self._write() as connection:
            self._insert(connection, tables.base, ((number, digest_of(row[0], row[1]), *row) for row in bases))

    def list_bases(self, number: int) -> list[BaseRecord]:
        """By place, then content."""
        with self._read() as connection:
            found = [BaseRecord(*values[2:]) for values in self._rows(connection, tables.base, number)]
        return sorted(found, key=lambda base: (base.place, base.content_id))

    def list_known_bases(self, numbers: Sequence[int]) -> list[BaseRecord]:
        """Bases of these live sets, each once."""
        row = tables.base
        query = select(row.c.content_id, row.c.place).where(row.c.live_set.in_(numbers)).distinct()
        with self._read() as connection:
            return [BaseRecord(*values) for values in connection.execute(query)]

    def forget_bases(self, number: int) -> None:
        with self._write() as connection:
            connection.execute(delete(tables.base).where(tables.base.c.live_set == number))

    def add_files(self, number: int, files: Iterable[FileRecord], *listed: ListingRecord) -> None:
        """Record what is to be deleted, and that the bases `listed` have been listed to their end."""
        with self._write() as connection:
            self._insert(connection, tables.file, ((number, digest_of(row.location), *row) for row in files))
            self._insert(connection, tables.listing, ((number, digest_of(row.place), *row) for row in listed))

    def list_listings(self, number: int) -> list[ListingRecord]:
        """Bases that have been listed, by place."""
        row = tables.listing
        with self._read() as connection:
            return sorted(ListingRecord(*values[2:]) for values in self._rows(connection, row, number))

    def forget_candidates(self, number: int) -> None:
        """Forget what was listed and what is still to be deleted; what has been deleted stays recorded."""
        file, listing = tables.file, tables.listing
        with self._write() as connection:
            kept = file.c.state.in_(["deleted", "gone"])
            connection.execute(delete(file).where(file.c.live_set == number, ~kept))
            connection.execute(delete(listing).where(listing.c.live_set == number))

    def list_files(self, number: int, states: Sequence[str] = ()) -> Iterator[FileRecord]:
        """Files in one of `states` (none: all) as they were when their batch was read, in the order of recording."""
        row = tables.file
        where = row.c.live_set == number
        for values in self._scan(row, where & row.c.state.in_(states) if states else where, row.c.number):
            yield FileRecord(*values[3:])

    def get_file(self, number: int, location: str) -> FileRecord | None:
        row = tables.file
        columns = [row.c[name] for name in FileRecord._fields]
        where = (row.c.live_set == number, row.c.digest == digest_of(location))
        with self._read() as connection:
            found = connection.execute(select(*columns).where(*where)).first()
        return FileRecord(*found) if found else None

    def set_states(self, number: int, files: Iterable[tuple[str, str, str]]) -> None:
        """Set (location, state, error) of files."""
        row = tables.file
        equal: dict[tuple[str, str], list[bytes]] = {}  # most ended in the same way
        for name, state, error in files:
            equal.setdefault((state, error[:2000]), []).append(digest_of(name))
        with self._write() as connection:
            for (state, error), digests in equal.items():
                statement = update(row).values(state=state, error=error)
                for start in range(0, len(digests), BATCH):
                    some = row.c.digest.in_(digests[start : start + BATCH])
                    connection.execute(statement.where(row.c.live_set == number, some))

    def set_reasons(self, number: int, files: Iterable[tuple[str, str]]) -> None:
        """Set (location, reason) of files."""
        row = tables.file
        statement = update(row).where(row.c.live_set == number, row.c.digest == bindparam("of"))
        rows = ({"of": digest_of(name), "to": reason} for name, reason in files)
        with self._write() as connection:
            while batch := list(islice(rows, BATCH)):
                connection.execute(statement.values(reason=bindparam("to")), batch)

    def sum_files(self, number: int) -> dict[str, tuple[int, int]]:
        """Number of files and their bytes by state."""
        row = tables.file
        query = select(row.c.state, func.count(), func.sum(row.c.size_bytes)).where(row.c.live_set == number)
        with self._read() as connection:
            return {
                str(state): (count, int(size)) for state, count, size in connection.execute(query.group_by(row.c.state))
            }

    # -- how ----------------------------------------------------------------------------------

    @staticmethod
    def _rows(connection: Connection, table: Table, number: int) -> Iterable[Sequence[Any]]:
        return connection.execute(select(table).where(table.c.live_set == number))

    def _scan(self, table: Table, where: Any, key: Column[Any]) -> Iterator[Sequence[Any]]:
        """Rows in the order of `key`, a batch for each query, so that nothing is held open between them."""
        last: Any = None
        while True:
            query = select(table).where(where).order_by(key).limit(BATCH)
            with self._read() as connection:
                rows = connection.execute(query if last is None else query.where(key > last)).all()
            yield from rows
            if len(rows) < BATCH:
                return
            last = rows[-1]._mapping[key]

    def _insert(self, connection: Connection, table: Table, rows: Iterable[tuple[Any, ...]]) -> None:
        """Insert rows, their values in the order of the columns; what is there already stays."""
        statement: Any = {"sqlite": sqlite.insert, "mariadb": mysql.insert}.get(self._dialect.name, postgresql.insert)(
            table
        )
        if self._dialect.name == "mariadb":
            statement = statement.on_duplicate_key_update(live_set=table.c.live_set)  # IGNORE would hide other errors
        else:
            statement = statement.on_conflict_do_nothing()
        names = [column.name for column in table.c if column is not table.autoincrement_column]
        compiled = statement.compile(dialect=self._engine.dialect, column_keys=names)
        rows = iter(rows)
        while batch := list(islice(rows, BATCH)):  # for the driver as they are: SQLAlchemy takes longer than SQLite
            found = batch if compiled.positional else [dict(zip(names, row, strict=True)) for row in batch]
            connection.exec_driver_sql(str(compiled), found)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._explained(), self._read_lock, self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._explained(), self._write_lock, self._writer.begin() as connection:
            yield connection

    @staticmethod
    @contextmanager
    def _explained() -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise StoreUnavailable(f"The live-set database failed: {str(error.orig)[:500]}") from error
