"""Transactions: what can be read from a database, with immutable objects remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

from sqlalchemy import CompoundSelect, Connection, Select, func, literal, select, union_all

from nessie_ops.model import ReferenceType
from nessie_ops.store import rows, tables
from nessie_ops.store.cache import Cache
from nessie_ops.store.dialects import Dialect
from nessie_ops.store.packing import unpack
from nessie_ops.store.rows import (
    COLUMNS,
    CatalogTransactionRecord,
    Kind,
    MergeRequestRecord,
    Move,
    ReadRecord,
    ReferenceRecord,
)

IN_LIMIT = 500  # ids in one IN list: below the parameter limit of every database
T = TypeVar("T")


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

    def peek(self, kind: Kind, id: bytes) -> Any | None:
        """The object, or None."""
        return self._cache.get((kind, id))


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
            value, size = decode(row), commit_size(row)
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
        self, prefix: str = "", after: tuple[str, str] | None = None, limit: int | None = None, without: str = ""
    ) -> list[ReferenceRecord]:
        """References ordered by (type, name), after the given pair; none whose name begins with `without`.

        Reads branches only as far as the page goes, and nothing that `without` leaves out.
        """
        if not rows.storable(prefix):
            return []
        found: list[ReferenceRecord] = []
        for type in ReferenceType:
            if after and type < after[0]:
                continue
            beyond = after[1] if after and type == after[0] else None
            left = None if limit is None else limit - len(found)
            statement = _select_references(type, _ranges(prefix, without), beyond, left)
            found += sorted(ReferenceRecord(*row) for row in self.connection.execute(statement))[:left]
            if limit is not None and len(found) >= limit:
                break
        return found

    def find_references_at(self, head: bytes | None) -> list[ReferenceRecord]:
        """References whose head is this commit."""
        found = self.connection.execute(select(tables.reference).where(tables.reference.c.head == head))
        return [ReferenceRecord(*row) for row in found]

    def get_merge_request(self, number: int, *, lock: bool = False) -> MergeRequestRecord | None:
        """One merge request; with `lock` nobody else changes it before this transaction ends."""
        statement = select(tables.merge_request).where(tables.merge_request.c.number == number)
        row = self.connection.execute(statement.with_for_update() if lock else statement).first()
        return MergeRequestRecord(*row) if row else None

    def list_merge_requests(
        self, *, state: str = "", source: str = "", target: str = "", before: int | None = None, limit: int
    ) -> list[MergeRequestRecord]:
        """Merge requests, newest first, from below the number `before`."""
        if not (rows.storable(source) and rows.storable(target)):
            return []
        table = tables.merge_request
        statement = select(table).order_by(table.c.number.desc()).limit(limit)
        for column, wanted in ((table.c.state, state), (table.c.source, source), (table.c.target, target)):
            if wanted:
                statement = statement.where(column == wanted)
        if before is not None:
            statement = statement.where(table.c.number < before)
        return [MergeRequestRecord(*row) for row in self.connection.execute(statement)]

    def count_merge_requests(self, states: Iterable[str]) -> int:
        """How many are in these states."""
        wanted = tables.merge_request.c.state.in_(list(states))
        found: int = self.connection.execute(
            select(func.count()).select_from(tables.merge_request).where(wanted)
        ).scalar_one()
        return found

    def get_catalog_transaction(self, id: str, *, lock: bool = False) -> CatalogTransactionRecord | None:
        """One transaction over tables; with `lock` nobody else changes it before this one ends."""
        if not rows.storable(id):
            return None
        statement = select(tables.catalog_transaction).where(tables.catalog_transaction.c.id == id)
        row = self.connection.execute(statement.with_for_update() if lock else statement).first()
        return CatalogTransactionRecord(*row) if row else None

    def get_catalog_transactions(self, ids: Sequence[str], state: str) -> dict[str, CatalogTransactionRecord]:
        """Those of these that exist and are in a state, by id; at most 500."""
        table = tables.catalog_transaction
        found = self.connection.execute(select(table).where(table.c.id.in_(ids), table.c.state == state))
        return {row[0]: CatalogTransactionRecord(*row) for row in found}

    def list_catalog_transactions(self, state: str, *, after: str = "", limit: int) -> list[CatalogTransactionRecord]:
        """Those in a state, by id from after `after`."""
        table = tables.catalog_transaction
        statement = select(table).where(table.c.state == state, table.c.id > after).order_by(table.c.id).limit(limit)
        return [CatalogTransactionRecord(*row) for row in self.connection.execute(statement)]

    def list_expired_transactions(self, state: str, until: int, limit: int) -> list[CatalogTransactionRecord]:
        """Those in a state whose `expires_at` is at most `until`, the oldest first."""
        table = tables.catalog_transaction
        statement = select(table).where(table.c.state == state, table.c.expires_at <= until)
        found = self.connection.execute(statement.order_by(table.c.expires_at).limit(limit))
        return [CatalogTransactionRecord(*row) for row in found]

    def find_next_expiry(self, state: str) -> int | None:
        """The least `expires_at` of those in a state: one row of an index."""
        table = tables.catalog_transaction
        found: int | None = self.connection.execute(
            select(func.min(table.c.expires_at)).where(table.c.state == state)
        ).scalar_one()
        return found

    def list_reads(self, id: str) -> list[ReadRecord]:
        """What a transaction over tables has read, in no order."""
        table = tables.catalog_read
        found = self.connection.execute(select(table).where(table.c.transaction == id))
        return [ReadRecord(*row) for row in found]

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


Ranges = list[tuple[str, str]]
"""From a name up to and without another one; an empty text is no limit."""


def _ranges(prefix: str, without: str) -> Ranges:
    """Where names begin with `prefix`, or else not with `without`."""
    if prefix:  # not LIKE, which may ignore case
        return [(prefix, _beyond(prefix))]
    return [("", without), (_beyond(without), "")] if without else [("", "")]


def _select_references(
    type: str, ranges: Ranges, after: str | None, limit: int | None
) -> Select[Any] | CompoundSelect[Any]:
    """References of a type with names in `ranges` and after `after`: from each range the first `limit`, by name."""
    table, parts = tables.reference, []
    for low, high in ranges:
        part = select(table).where(table.c.type == type)
        part = part.where(table.c.name >= low) if low else part
        part = part.where(table.c.name < high) if high else part
        part = part.where(table.c.name > after) if after is not None else part
        parts.append(part.order_by(table.c.name).limit(limit))
    # A part of its own for each, since only whole selections have an order and a limit everywhere.
    return parts[0] if len(parts) == 1 else union_all(*(select(part.subquery()) for part in parts))


def _beyond(prefix: str) -> str:
    """The least name that is greater than all that begin with `prefix`, which is ASCII."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def commit_size(row: Sequence[Any]) -> int:
    """Bytes that a commit takes in memory, about."""
    return 600 + len(row[8]) + len(row[9])
