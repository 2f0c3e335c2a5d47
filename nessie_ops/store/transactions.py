"""Transactions: what can be read from a database, and a unit of work that writes to it.

A writing transaction keeps all that it writes in memory until it ends, and then writes it in one fixed
order: contents, nodes, commits (each sorted by id), references (by name), the reference log.  So two
transactions lock rows in the same order, and a part of it (`part`) can be taken back when it fails.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, and_, func, literal, or_, select
from sqlalchemy.exc import DBAPIError

from nessie_ops.store import rows, tables
from nessie_ops.store.cache import Cache
from nessie_ops.store.dialects import Dialect, Statement
from nessie_ops.store.rows import COLUMNS, Kind, Move, ReferenceRecord

IN_LIMIT = 500  # ids in one IN list: below the parameter limit of every database
T = TypeVar("T")
MIN_PACKED = 200  # bytes; fewer are stored as they are
# First byte of stored data: as it is; zlib (written by format 1 only); 4 bytes of length, that much deflated, the rest.
_RAW, _ZLIB, _SPLIT = b"\x00", b"\x01", b"\x02"
_WINDOW = -12  # bits, without header


class NotCached(Exception):
    """A transaction without a database was asked for an object that is not in the cache."""


class Objects:
    """Immutable objects in the cache alone; `NotCached` for others."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def load(self, kind: Kind, ids: Iterable[bytes], decode: Callable[[Any], T]) -> dict[bytes, T]:
        found = {id: self._cache.get((kind, id)) for id in ids}
        if None in found.values():
            raise NotCached
        return cast(dict[bytes, T], found)


class Transaction:
    """A view of the database."""

    def __init__(self, connection: Connection, dialect: Dialect, cache: Cache, reads: Counter[str]) -> None:
        self.connection = connection
        self._dialect = dialect
        self._raw: Any = connection.connection.driver_connection
        self._cache = cache
        self._reads = reads

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
        for start in range(0, len(missing), IN_LIMIT):
            some = missing[start : start + IN_LIMIT]
            statement = self._dialect.select_in(rows.LOADED[kind], kind.table.name, some)
            for row in self._dialect.fetch(self._raw, *statement):
                found[bytes(row[0])] = self._remember(kind, row, decode)
        return found

    def peek(self, kind: Kind, id: bytes) -> Any | None:
        """The object, if it is in memory."""
        return self._cache.get((kind, id))

    def load_ancestors(self, head: bytes, limit: int, decode: Callable[[Any], T]) -> list[T]:
        """Commit `head` and its direct ancestors, newest first, at most `limit`: one recursive query."""
        commit = tables.commit
        first = select(commit.c.id, commit.c.parent, literal(1).label("n")).where(commit.c.id == head)
        chain = first.cte("chain", recursive=True)
        older = select(commit.c.id, commit.c.parent, chain.c.n + 1)
        chain = chain.union_all(older.join(chain, commit.c.id == chain.c.parent).where(chain.c.n < limit))
        columns = [commit.c[name] for name in COLUMNS[Kind.COMMIT][:-1]]
        found = self.connection.execute(select(*columns).join(chain, commit.c.id == chain.c.id).order_by(chain.c.n))
        return [self._remember(Kind.COMMIT, row, decode) for row in found]

    def _remember(self, kind: Kind, row: Sequence[Any], decode: Callable[[Any], T]) -> T:
        self._reads[kind.table.name] += 1
        if kind is Kind.COMMIT:
            value, size = decode(row), _commit_size(row)
        else:
            data = unpack(row[1])
            value, size = decode(data), 4 * len(data)  # objects made of it take about as much
        self._cache.put((kind, bytes(row[0])), value, size)
        return value

    def get_setting(self, name: str) -> str | None:
        setting = tables.setting
        value: str | None = self.connection.execute(select(setting.c.value).where(setting.c.name == name)).scalar()
        return value

    def get_reference(self, name: str, *, lock: bool = False) -> ReferenceRecord | None:
        """The reference; with `lock` nobody else moves it before this transaction ends."""
        if not rows.storable(name):
            return None
        suffix = self._dialect.for_update if lock else ""
        found = self._dialect.fetch(self._raw, rows.SELECT_REFERENCE + suffix, (name,))
        return ReferenceRecord(*found[0]) if found else None

    def get_references(self, names: Sequence[str], *, lock: bool = False) -> dict[str, ReferenceRecord]:
        """Those of these references that exist, by name; at most 500."""
        names = [name for name in names if rows.storable(name)]
        if not names:
            return {}
        statement = rows.select_references(len(names), self._dialect.for_update if lock else "")
        found = self._dialect.fetch(self._raw, statement, names)
        return {row[0]: ReferenceRecord(*row) for row in found}

    def list_references(
        self, prefix: str = "", after: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[ReferenceRecord]:
        """References ordered by (type, name), after the given pair."""
        if not rows.storable(prefix):
            return []
        table = tables.reference
        statement = select(table).order_by(table.c.type, table.c.name).limit(limit)
        if prefix:  # not LIKE, which may ignore case
            statement = statement.where(func.substr(table.c.name, 1, len(prefix)) == prefix)
        if after:
            later = and_(table.c.type == after[0], table.c.name > after[1])
            statement = statement.where(or_(table.c.type > after[0], later))
        return [ReferenceRecord(*row) for row in self.connection.execute(statement)]

    def find_references_at(self, head: bytes | None) -> list[ReferenceRecord]:
        """References whose head is this commit."""
        found = self.connection.execute(select(tables.reference).where(tables.reference.c.head == head))
        return [ReferenceRecord(*row) for row in found]

    def list_moves(
        self, name: str | None, after_seq: int, limit: int, *, newest_first: bool, before_seq: int | None = None
    ) -> list[Move]:
        """Rows of the reference log with sequence numbers between these two, of one reference or all."""
        if name is not None and not rows.storable(name):
            return []
        log = tables.reference_log
        order = log.c.seq.desc() if newest_first else log.c.seq
        statement = select(log).where(log.c.seq > after_seq).order_by(order).limit(limit)
        if name is not None:
            statement = statement.where(log.c.name == name)
        if before_seq is not None:
            statement = statement.where(log.c.seq < before_seq)
        return [Move(*row) for row in self.connection.execute(statement)]


class _Staged:
    """What a part of a writing transaction has written."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Kind, bytes], tuple[Any, int]] = {}  # value and its size in bytes
        self.pending: dict[Kind, dict[bytes, Sequence[Any]]] = {kind: {} for kind in Kind}
        self.references: dict[str, ReferenceRecord | None] = {}
        self.moves: list[Sequence[Any]] = []

    def add(self, other: _Staged) -> None:
        self.objects |= other.objects
        self.references |= other.references
        self.moves += other.moves
        for kind, some in other.pending.items():
            self.pending[kind] |= some


class WriteTransaction(Transaction):
    """A transaction that may also write.  What is written in it can be read in it at once."""

    def __init__(
        self,
        connection: Connection,
        dialect: Dialect,
        cache: Cache,
        reads: Counter[str],
        writes: Counter[str],
        used_at: int,
    ) -> None:
        super().__init__(connection, dialect, cache, reads)
        self._writes = writes
        self._used_at = used_at
        # After one of these, the whole transaction has failed.
        self.errors: tuple[type[Exception], ...] = (*dialect.errors, DBAPIError)
        self._stored: dict[str, ReferenceRecord | None] = {}  # locked references, as the database has them
        self.has_moves = False
        self._done = _Staged()
        self._part = self._done
        self._flushed: dict[tuple[Kind, bytes], tuple[Any, int]] = {}

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the transaction: when it raises, what it has written is forgotten."""
        self._part = _Staged()
        try:
            yield
            self._done.add(self._part)
        finally:
            self._part = self._done

    def lock(self, names: Iterable[str]) -> None:
        """Lock references in one query, before anything else is locked."""
        wanted = sorted(set(names))
        found = self.get_references(wanted, lock=True)
        self._stored |= {name: found.get(name) for name in wanted}

    def load(self, kind: Kind, ids: Iterable[bytes], decode: Callable[[Any], T]) -> dict[bytes, T]:
        own = [objects for objects in (self._part.objects, self._done.objects, self._flushed) if objects]
        if not own:
            return super().load(kind, ids, decode)
        found: dict[bytes, T] = {}
        missing = []
        for id in ids:
            entry = next((objects[kind, id] for objects in own if (kind, id) in objects), None)
            if entry is None:
                missing.append(id)
            else:
                found[id] = entry[0]
        return found | super().load(kind, missing, decode) if missing else found

    def _remember(self, kind: Kind, row: Sequence[Any], decode: Callable[[Any], T]) -> T:
        own = self._flushed.get((kind, bytes(row[0])))
        if own is not None:  # others must not see it: it may yet be rolled back
            return cast(T, own[0])
        return super()._remember(kind, row, decode)

    def load_ancestors(self, head: bytes, limit: int, decode: Callable[[Any], T]) -> list[T]:
        self.flush()
        return super().load_ancestors(head, limit, decode)

    def save(self, kind: Kind, id: bytes, value: object, data: bytes, dense: bytes = b"") -> None:
        """Save a node or content: `data`, then `dense`, which cannot be compressed; `value` is what decoding gives."""
        self._part.pending[kind][id] = (id, _pack(data, dense), self._used_at)
        self._part.objects[kind, id] = value, 4 * (len(data) + len(dense))

    def save_commit(self, id: bytes, value: object, columns: Mapping[str, Any]) -> None:
        """Save a commit row."""
        row = (id, *(columns[name] for name in COLUMNS[Kind.COMMIT][1:-1]), self._used_at)
        self._part.pending[Kind.COMMIT][id] = row
        self._part.objects[Kind.COMMIT, id] = value, _commit_size(row)

    def touch_commit(self, id: bytes) -> bool:
        """Record that a commit is needed now; false when it has been purged."""
        if (Kind.COMMIT, id) in self._part.objects or (Kind.COMMIT, id) in self._done.objects:
            return True
        touched = bool(self._dialect.change(self._raw, rows.TOUCH_COMMIT, (self._used_at, id)))
        if not touched:
            self._cache.discard((Kind.COMMIT, id))
        return touched

    def put_setting(self, name: str, value: str) -> None:
        statement = 'INSERT INTO "setting" ("name", "value") VALUES (?, ?)' + self._dialect.upsert_clause(
            "name", ("value",)
        )
        self._dialect.change(self._raw, statement, (name, value))

    def get_reference(self, name: str, *, lock: bool = False) -> ReferenceRecord | None:
        for staged in (self._part, self._done):
            if name in staged.references:
                return staged.references[name]
        if name in self._stored:
            return self._stored[name]
        record = super().get_reference(name, lock=lock)
        if lock:
            self._stored[name] = record
        return record

    def list_references(
        self, prefix: str = "", after: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[ReferenceRecord]:
        self.flush()
        return super().list_references(prefix, after, limit)

    def find_references_at(self, head: bytes | None) -> list[ReferenceRecord]:
        self.flush()
        return super().find_references_at(head)

    def list_moves(
        self, name: str | None, after_seq: int, limit: int, *, newest_first: bool, before_seq: int | None = None
    ) -> list[Move]:
        self.flush()
        return super().list_moves(name, after_seq, limit, newest_first=newest_first, before_seq=before_seq)

    def insert_reference(self, record: ReferenceRecord) -> None:
        """Add a reference; call `get_reference` with `lock` before, which says that there is none."""
        self._part.references[record.name] = record

    def update_reference(self, record: ReferenceRecord) -> None:
        """Set the head and properties of a reference that is locked."""
        self._part.references[record.name] = record

    def delete_reference(self, name: str) -> None:
        """Delete a reference that is locked."""
        self._part.references[name] = None

    def append_move(self, before: ReferenceRecord | None, after: ReferenceRecord | None, action: str, at: int) -> None:
        """Log a change of a reference: its record before and after, None where it does not exist."""
        record = after or before
        assert record is not None
        heads = before.head if before else None, after.head if after else None
        self._part.moves.append((record.name, record.type, action, *heads, at))

    def flush(self) -> None:
        """Write what has been saved by the finished parts."""
        statements = self._take_statements()
        if statements:
            self._dialect.execute_all(self._raw, statements)

    def commit(self) -> None:
        """Write what has been saved, and end the transaction, in one round trip where the driver can."""
        self._dialect.commit(self._raw, self._take_statements())

    def _take_statements(self) -> list[Statement]:
        done = self._done
        statements: list[Statement] = [
            (rows.insert_objects(kind, len(some), self._dialect.upsert_clause("id", ("used_at",))), _flat(some))
            for kind in (Kind.CONTENT, Kind.NODE, Kind.COMMIT)
            for some in rows.chunks([done.pending[kind][id] for id in sorted(done.pending[kind])])
        ]
        statements += self._reference_statements()
        if done.moves:
            self.has_moves = True
            statements.append((rows.ADVANCE_LOG, (len(done.moves),)))
        left = len(done.moves)
        for some in rows.chunks(done.moves):
            statements.append((rows.insert_moves(len(some)), _flat((left - 1 - i, *row) for i, row in enumerate(some))))
            left -= len(some)
        self._count(done)
        self._flushed |= done.objects
        self._stored |= done.references
        self._done = _Staged()
        if self._part is done:
            self._part = self._done
        return statements

    def _reference_statements(self) -> list[Statement]:
        statements: list[Statement] = []
        for name in sorted(self._done.references):
            before, after = self._stored.get(name), self._done.references[name]
            if after is None and before:
                statements.append((rows.DELETE_REFERENCE, (name,)))
            elif after and before is None:
                statements.append((rows.INSERT_REFERENCE, after))
            elif after and before and after == before._replace(head=after.head):
                statements.append((rows.MOVE_REFERENCE, (after.head, name)))
            elif after:
                statements.append((rows.UPDATE_REFERENCE, (*after[1:], name)))
        return statements

    def _count(self, done: _Staged) -> None:
        for kind in Kind:
            if done.pending[kind]:
                self._writes[kind.table.name] += len(done.pending[kind])
        changed = sum(record is not None for record in done.references.values())
        if changed:
            self._writes["reference"] += changed
        if done.moves:
            self._writes["reference_log"] += len(done.moves)

    def publish(self) -> None:
        """Let others see, through the cache, what this transaction has committed."""
        for key, (value, size) in self._flushed.items():
            self._cache.put(key, value, size)


def _commit_size(row: Sequence[Any]) -> int:
    return 600 + len(row[8]) + len(row[9])


def _flat(some: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in some for value in row]


def _pack(data: bytes, dense: bytes) -> bytes:
    """`data` made smaller where it can be, and `dense` as it is."""
    if len(data) > MIN_PACKED:
        # A small window: the default one takes longer to set up than a node takes to compress.
        deflate = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 5)
        packed = deflate.compress(data) + deflate.flush()
        if len(packed) + 4 < len(data):
            return b"".join((_SPLIT, len(packed).to_bytes(4, "big"), packed, dense))
    return _RAW + data + dense


def unpack(data: bytes) -> bytes:
    """What was hashed, from stored data; zlib.error."""
    kind = data[:1]
    if kind == _SPLIT:
        cut = 5 + int.from_bytes(data[1:5], "big")
        return zlib.decompress(data[5:cut], _WINDOW) + data[cut:]
    return zlib.decompress(data[1:]) if kind == _ZLIB else bytes(data[1:])
