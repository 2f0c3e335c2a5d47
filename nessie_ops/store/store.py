"""Store: transactions over the tables, with immutable objects cached across them.

Writes of objects are collected and flushed, sorted by id, when the transaction commits; two
transactions that write the same objects therefore lock their rows in the same order.
Counters in `Store.reads` and `Store.writes` (rows, by table) let tests guard complexity.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum
from typing import Any, NamedTuple, Self, TypeVar, cast

from sqlalchemy import Connection, Engine, and_, delete, func, insert, literal, or_, select, update
from sqlalchemy.exc import DatabaseError, OperationalError

from nessie_ops.errors import OutcomeUnknown, StoreFormatError, StoreUnavailable
from nessie_ops.store import dialects, schema, tables
from nessie_ops.store.cache import Cache
from nessie_ops.store.forks import gate
from nessie_ops.store.signal import Signal

IN_LIMIT = 500  # ids in one IN list: below the parameter limit of every database
T = TypeVar("T")
_RAW, _ZLIB = b"\x00", b"\x01"  # first byte of stored data: how the rest is packed


class Kind(Enum):
    """Immutable objects by table."""

    COMMIT = tables.commit
    NODE = tables.node
    CONTENT = tables.content


class ReferenceRecord(NamedTuple):
    name: str
    type: str
    head: bytes | None
    created_at: int
    properties: str


class Move(NamedTuple):
    """A row of the reference log; heads are None for "no commit"."""

    seq: int
    name: str
    type: str
    action: str
    before: bytes | None
    after: bytes | None
    at: int


class Transaction:
    """A consistent view of the database."""

    def __init__(self, connection: Connection, cache: Cache, reads: Counter[str]) -> None:
        self._connection = connection
        self._cache = cache
        self._reads = reads

    @property
    def connection(self) -> Connection:
        """The database connection of this transaction, for the other modules of this package."""
        return self._connection

    def load(self, kind: Kind, ids: Iterable[bytes], decode: Callable[[Any], T]) -> dict[bytes, T]:
        """The objects with these ids, decoded; absent ids are left out.  One query per 500 that are not cached.

        `decode` gets a row for a commit, and the unpacked data otherwise.  Use one decoder per kind:
        what it returns is cached and shared.
        """
        found: dict[bytes, T] = {}
        missing = []
        for id in dict.fromkeys(ids):
            cached = self._cache.get((kind, id))
            if cached is None:
                missing.append(id)
            else:
                found[id] = cached
        table = kind.value
        columns = table.c if kind is Kind.COMMIT else (table.c.id, table.c.data)
        for start in range(0, len(missing), IN_LIMIT):
            some = missing[start : start + IN_LIMIT]
            condition = table.c.id.in_(some) if len(some) > 1 else table.c.id == some[0]
            for row in self._connection.execute(select(*columns).where(condition)):
                found[row.id] = self._remember(kind, row, decode)
        return found

    def load_ancestors(self, head: bytes, limit: int, decode: Callable[[Any], T]) -> list[T]:
        """Commit `head` and its direct ancestors, newest first, at most `limit`: one recursive query."""
        commit = tables.commit
        first = select(commit.c.id, commit.c.parent, literal(1).label("n")).where(commit.c.id == head)
        chain = first.cte("chain", recursive=True)
        older = select(commit.c.id, commit.c.parent, chain.c.n + 1)
        chain = chain.union_all(older.join(chain, commit.c.id == chain.c.parent).where(chain.c.n < limit))
        rows = self._connection.execute(select(*commit.c).join(chain, commit.c.id == chain.c.id).order_by(chain.c.n))
        return [self._remember(Kind.COMMIT, row, decode) for row in rows]

    def _remember(self, kind: Kind, row: Any, decode: Callable[[Any], T]) -> T:
        self._reads[kind.value.name] += 1
        if kind is Kind.COMMIT:
            value, size = decode(row), 600 + len(row.meta) + len(row.operations)
        else:
            data = _unpack(row.data)
            value, size = decode(data), 4 * len(data)  # objects made of it take about as much
        self._cache.put((kind, row.id), value, size)
        return value

    def get_setting(self, name: str) -> str | None:
        setting = tables.setting
        value: str | None = self._connection.execute(select(setting.c.value).where(setting.c.name == name)).scalar()
        return value

    def get_reference(self, name: str, *, lock: bool = False) -> ReferenceRecord | None:
        """The reference; with `lock` nobody else moves it before this transaction ends."""
        statement = select(tables.reference).where(tables.reference.c.name == name)
        if lock:
            statement = statement.with_for_update()
        row = self._connection.execute(statement).first()
        return ReferenceRecord(*row) if row else None

    def list_references(
        self, prefix: str = "", after: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[ReferenceRecord]:
        """References ordered by (type, name), after the given pair."""
        table = tables.reference
        statement = select(table).order_by(table.c.type, table.c.name).limit(limit)
        if prefix:  # not LIKE, which may ignore case
            statement = statement.where(func.substr(table.c.name, 1, len(prefix)) == prefix)
        if after:
            later = and_(table.c.type == after[0], table.c.name > after[1])
            statement = statement.where(or_(table.c.type > after[0], later))
        return [ReferenceRecord(*row) for row in self._connection.execute(statement)]

    def find_references_at(self, head: bytes | None) -> list[ReferenceRecord]:
        """References whose head is this commit."""
        rows = self._connection.execute(select(tables.reference).where(tables.reference.c.head == head))
        return [ReferenceRecord(*row) for row in rows]

    def list_moves(self, name: str | None, after_seq: int, limit: int, *, newest_first: bool) -> list[Move]:
        """Rows of the reference log with a greater sequence number, of one reference or all."""
        log = tables.reference_log
        order = log.c.seq.desc() if newest_first else log.c.seq
        statement = select(log).where(log.c.seq > after_seq).order_by(order).limit(limit)
        if name is not None:
            statement = statement.where(log.c.name == name)
        return [Move(*row) for row in self._connection.execute(statement)]


class WriteTransaction(Transaction):
    """A transaction that may also write.  Objects saved in it can be loaded at once."""

    def __init__(self, connection: Connection, store: Store, used_at: int) -> None:
        super().__init__(connection, store.cache, store.reads)
        self._writes = store.writes
        self._used_at = used_at
        self.has_moves = False
        self._pending: dict[Kind, dict[bytes, dict[str, Any]]] = {kind: {} for kind in Kind}
        self._objects: dict[tuple[Kind, bytes], Any] = {}

    def load(self, kind: Kind, ids: Iterable[bytes], decode: Callable[[Any], T]) -> dict[bytes, T]:
        ids = list(ids)
        own = {id: self._objects[kind, id] for id in ids if (kind, id) in self._objects}
        if len(own) == len(ids):
            return own
        return own | super().load(kind, [id for id in ids if id not in own], decode)

    def _remember(self, kind: Kind, row: Any, decode: Callable[[Any], T]) -> T:
        if (kind, row.id) in self._objects:  # others must not see it: it may yet be rolled back
            return cast(T, self._objects[kind, row.id])
        return super()._remember(kind, row, decode)

    def save(self, kind: Kind, id: bytes, value: object, data: bytes) -> None:
        """Save a node or content: `data` under `id`; `value` is what decoding would give."""
        self._pending[kind][id] = {"id": id, "data": _pack(data)}
        self._objects[kind, id] = value

    def save_commit(self, id: bytes, value: object, columns: Mapping[str, Any]) -> None:
        """Save a commit row; flushes it and its objects, so that a reference may point to it."""
        self._pending[Kind.COMMIT][id] = {"id": id, **columns}
        self._objects[Kind.COMMIT, id] = value
        self.flush()

    def flush(self) -> None:
        """Write the saved objects, in the order of their ids."""
        for kind, pending in self._pending.items():
            if pending:
                rows = [{**pending[id], "used_at": self._used_at} for id in sorted(pending)]
                self._connection.execute(dialects.upsert(kind.value, ("used_at",)), rows)
                self._writes[kind.value.name] += len(rows)
                pending.clear()

    def touch_commit(self, id: bytes) -> None:
        """Record that a commit is needed now."""
        table = tables.commit
        self._connection.execute(update(table).where(table.c.id == id).values(used_at=self._used_at))

    def put_setting(self, name: str, value: str) -> None:
        self._connection.execute(dialects.upsert(tables.setting, ("value",)), {"name": name, "value": value})

    def insert_reference(self, record: ReferenceRecord) -> None:
        self._connection.execute(insert(tables.reference), record._asdict())
        self._writes["reference"] += 1

    def update_reference(self, record: ReferenceRecord) -> None:
        """Set the head and properties of a reference."""
        table = tables.reference
        values = {"head": record.head, "properties": record.properties}
        self._connection.execute(update(table).where(table.c.name == record.name).values(values))
        self._writes["reference"] += 1

    def delete_reference(self, name: str) -> None:
        self._connection.execute(delete(tables.reference).where(tables.reference.c.name == name))

    def append_move(self, before: ReferenceRecord | None, after: ReferenceRecord | None, action: str, at: int) -> None:
        """Log a change of a reference: its record before and after, None where it does not exist."""
        record = after or before
        assert record is not None
        row = {
            "name": record.name,
            "type": record.type,
            "action": action,
            "before": before.head if before else None,
            "after": after.head if after else None,
            "at": at,
        }
        self._connection.execute(insert(tables.reference_log), row)
        self._writes["reference_log"] += 1
        self.has_moves = True


class Store:
    """A database of the catalog.  Safe for threads, for several processes, and to use on both sides of a fork."""

    def __init__(
        self,
        engine: Engine,
        *,
        cache: Cache | None = None,
        in_memory: bool = False,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._engine = engine
        self._clock_ns = clock_ns
        self._writer = engine.execution_options(**{dialects.WRITE: True})
        self.cache = cache or Cache()
        self.reads: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()
        # SQLite has one writer: waiting here is fair and cheap, waiting there is polling.  A store in
        # memory has one connection, so readers wait, too.
        self.moved = Signal()
        self._write_lock = threading.RLock()
        self._read_lock: AbstractContextManager[object] = self._write_lock if in_memory else nullcontext()
        if not in_memory:
            gate.guard(engine)
        try:
            with gate.transaction(), self._begin(self._writer) as connection:
                schema.prepare(connection)
        except DatabaseError as error:
            raise StoreFormatError(f"The store is not a catalog of nessie_ops: {error.orig}.") from error

    @classmethod
    def open(cls, url: str, *, cache: Cache | None = None, create: bool = True) -> Self:
        """Open the database at a SQLAlchemy URL, creating it and its tables if it is new.

        BadRequest (the URL; with `create` false also a missing database), StoreFormatError, StoreUnavailable.
        """
        return cls(dialects.open_engine(url, create=create), cache=cache, in_memory=dialects.is_memory(url))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A snapshot of the database."""
        with gate.transaction(), self._read_lock, self._begin(self._engine) as connection:
            yield Transaction(connection, self.cache, self.reads)

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        """A writing transaction: all or nothing; durable when this returns."""
        with gate.transaction(), self._write_lock, self._begin(self._writer) as connection:
            transaction = WriteTransaction(connection, self, self._clock_ns() // 1000)
            yield transaction
            transaction.flush()
        if transaction.has_moves:
            self.moved.fire()

    @contextmanager
    def _begin(self, engine: Engine) -> Iterator[Connection]:
        """A database transaction.  StoreUnavailable: certainly not applied.  OutcomeUnknown: COMMIT itself failed."""
        try:
            with engine.connect() as connection:
                transaction = connection.begin()
                yield connection
                try:
                    transaction.commit()
                except OperationalError as error:
                    connection.invalidate()  # it may still be in the transaction
                    raise OutcomeUnknown(
                        f"The catalog's database failed while committing: {error.orig}. Whether the change was "
                        "applied is unknown: look before you repeat it."
                    ) from error
        except OperationalError as error:
            raise StoreUnavailable(f"The catalog's database did not answer: {error.orig}. Try again.") from error


def _pack(data: bytes) -> bytes:
    packed = zlib.compress(data, 1) if len(data) > 200 else data
    return _ZLIB + packed if len(packed) < len(data) else _RAW + data


def _unpack(data: bytes) -> bytes:
    return zlib.decompress(data[1:]) if data[:1] == _ZLIB else data[1:]
