"""A unit of work that writes to a database.

A writing transaction keeps all that it writes in memory until it ends, and then writes it in one fixed
order: contents, nodes, commits (each sorted by id), references (by name), the reference log.  So two
transactions lock rows in the same order, and a part of it (`part`) can be taken back when it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import DBAPIError

from nessie_ops.errors import KeyReused
from nessie_ops.store import rows, tables
from nessie_ops.store.cache import Cache
from nessie_ops.store.dialects import Dialect, Statement
from nessie_ops.store.once import AlreadyAnswered
from nessie_ops.store.packing import pack, unpack
from nessie_ops.store.rows import (
    COLUMNS,
    CatalogTransactionRecord,
    Kind,
    MergeRequestRecord,
    Move,
    ReadRecord,
    ReferenceRecord,
)
from nessie_ops.store.transactions import Transaction, commit_size

T = TypeVar("T")
EXPIRED_AT_ONCE = 200  # keys that have expired, deleted by one transaction
_REQUESTS = "merge_request"  # the counter of their numbers
_DELETING_SHARE = 32  # of so many keys, one makes its transaction delete others


class _Staged:
    """What a part of a writing transaction has written."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Kind, bytes], tuple[Any, int]] = {}  # value and its size in bytes
        self.pending: dict[Kind, dict[bytes, Sequence[Any]]] = {kind: {} for kind in Kind}
        self.references: dict[str, ReferenceRecord | None] = {}
        self.moves: list[Sequence[Any]] = []
        self.settings: dict[str, str] = {}
        self.requests: dict[int, MergeRequestRecord] = {}
        self.transactions: dict[str, CatalogTransactionRecord] = {}
        self.reads: dict[tuple[str, bytes], ReadRecord] = {}
        self.forgotten: set[str] = set()  # transactions whose reads go

    def add(self, other: _Staged) -> None:
        self.objects |= other.objects
        self.references |= other.references
        self.moves += other.moves
        self.settings |= other.settings
        self.requests |= other.requests
        self.transactions |= other.transactions
        self.reads |= other.reads
        self.forgotten |= other.forgotten
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
        self.is_durable = False
        self._expires = False  # whether this transaction also deletes keys that have expired
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
        self._part.pending[kind][id] = (id, pack(data, dense), self._used_at)
        self._part.objects[kind, id] = value, 4 * (len(data) + len(dense))

    def save_commit(self, id: bytes, value: object, columns: Mapping[str, Any]) -> None:
        """Save a commit row."""
        row = (id, *(columns[name] for name in COLUMNS[Kind.COMMIT][1:-1]), self._used_at)
        self._part.pending[Kind.COMMIT][id] = row
        self._part.objects[Kind.COMMIT, id] = value, commit_size(row)

    def touch_commit(self, id: bytes) -> bool:
        """Record that a commit is needed now; false when it has been purged."""
        if (Kind.COMMIT, id) in self._part.objects or (Kind.COMMIT, id) in self._done.objects:
            return True
        touched = bool(self._dialect.change(self._raw, rows.TOUCH_COMMIT, (self._used_at, id)))
        if not touched:
            self._cache.discard((Kind.COMMIT, id))
        return touched

    def put_setting(self, name: str, value: str) -> None:
        self._part.settings[name] = value

    def get_setting(self, name: str) -> str | None:
        for staged in (self._part, self._done):
            if name in staged.settings:
                return staged.settings[name]
        return super().get_setting(name)

    def save_merge_request(self, record: MergeRequestRecord) -> None:
        """Write a new merge request, or all columns of one that is locked."""
        self._part.requests[record.number] = record

    def get_merge_request(self, number: int, *, lock: bool = False) -> MergeRequestRecord | None:
        for staged in (self._part, self._done):
            if number in staged.requests:
                return staged.requests[number]
        return super().get_merge_request(number, lock=lock)

    def list_merge_requests(self, **wanted: Any) -> list[MergeRequestRecord]:
        self.flush()
        return super().list_merge_requests(**wanted)

    def count_merge_requests(self, states: Iterable[str]) -> int:
        self.flush()
        return super().count_merge_requests(states)

    def save_catalog_transaction(self, record: CatalogTransactionRecord) -> None:
        """Write a new transaction over tables, or all columns of one that is locked."""
        self._part.transactions[record.id] = record

    def get_catalog_transaction(self, id: str, *, lock: bool = False) -> CatalogTransactionRecord | None:
        for staged in (self._part, self._done):
            if id in staged.transactions:
                return staged.transactions[id]
        return super().get_catalog_transaction(id, lock=lock)

    def add_reads(self, reads: Iterable[ReadRecord]) -> None:
        """Add what a transaction has read, unless it is there."""
        self._part.reads |= {(read.transaction, read.digest): read for read in reads}

    def delete_reads(self, id: str) -> None:
        """Forget what a transaction has read, once this one ends: some ten thousand rows at most."""
        self._part.forgotten.add(id)

    def delete_some_reads(self, id: str) -> bool:
        """Delete some ten thousand rows of what a transaction has read; whether there may be more."""
        self.flush()
        return self._dialect.change(self._raw, *rows.delete_reads(id)) > rows.READS_AT_ONCE

    def delete_catalog_transaction(self, id: str) -> None:
        """Delete a transaction over tables that is locked; what it has read must have gone before."""
        self.connection.execute(delete(tables.catalog_transaction).where(tables.catalog_transaction.c.id == id))

    def take_request_number(self) -> int:
        """The number of the next merge request, lost if it is not used; others wait for theirs until this ends."""
        row = tables.counter.c.name == _REQUESTS
        advance = update(tables.counter).where(row).values(value=tables.counter.c.value + 1)
        if not self.connection.execute(advance).rowcount:
            self.connection.execute(insert(tables.counter), {"name": _REQUESTS, "value": 1})
        number: int = self.connection.execute(select(tables.counter.c.value).where(row)).scalar_one()
        return number

    def record_answer(self, key: bytes, digest: bytes, answer: bytes, lifetime_us: int) -> None:
        """Record the answer to the request `digest`, whose key is forgotten after `lifetime_us`.

        AlreadyAnswered, KeyReused when the key has an answer: to this request, to another one.  Waits for a
        transaction of another process that records one just now.  This is the last thing that a part does: it is
        not taken back with what the part has saved.
        """
        row = key, digest, pack(answer, b""), self._used_at + lifetime_us
        insert = self._dialect.insert_if_absent("idempotency_key", rows.ANSWER_COLUMNS)
        while not self._dialect.change(self._raw, insert, row):
            found = self._dialect.fetch(self._raw, rows.SELECT_ANSWER + self._dialect.for_update, (key,))
            if not found:
                continue  # it had expired, and somebody has just deleted it
            known, recorded, expires_at = found[0]
            if expires_at <= self._used_at:
                self._dialect.change(self._raw, rows.REPLACE_ANSWER, (*row[1:], key))
                break
            if bytes(known) != digest:
                raise KeyReused("Idempotency-Key: was used for another request; make a new key for each request.")
            raise AlreadyAnswered(unpack(bytes(recorded)))
        self._writes["idempotency_key"] += 1
        self._expires |= key[-1] % _DELETING_SHARE == 0

    def delete_expired_answers(self) -> int:
        """Delete some of the keys that have expired; how many."""
        return self._dialect.change(self._raw, *self._delete_expired())

    def _delete_expired(self) -> Statement:
        text = self._dialect.delete_some("idempotency_key", "key", "expires_at", EXPIRED_AT_ONCE)
        return text, (self._used_at,)

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
        self, prefix: str = "", after: tuple[str, str] | None = None, limit: int | None = None, without: str = ""
    ) -> list[ReferenceRecord]:
        self.flush()
        return super().list_references(prefix, after, limit, without)

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
        expired = [self._delete_expired()] if self._expires else []
        self._dialect.commit(self._raw, self._take_statements() + expired)
        self.is_durable = True

    def _take_statements(self) -> list[Statement]:
        done = self._done
        statements: list[Statement] = [
            (rows.insert_objects(kind, len(some), self._dialect.upsert_clause("id", ("used_at",))), _flat(some))
            for kind in (Kind.CONTENT, Kind.NODE, Kind.COMMIT)
            for some in rows.chunks([done.pending[kind][id] for id in sorted(done.pending[kind])])
        ]
        statements += self._setting_statements()
        statements += self._reference_statements()
        statements += self._request_statements()
        statements += self._transaction_statements()
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

    def _setting_statements(self) -> list[Statement]:
        text = 'INSERT INTO "setting" ("name", "value") VALUES (?, ?)' + self._dialect.upsert_clause("name", ("value",))
        return [(text, (name, self._done.settings[name])) for name in sorted(self._done.settings)]

    def _request_statements(self) -> list[Statement]:
        text = rows.INSERT_REQUEST + self._dialect.upsert_clause("number", MergeRequestRecord._fields[1:])
        return [(text, self._done.requests[number]) for number in sorted(self._done.requests)]

    def _transaction_statements(self) -> list[Statement]:
        done = self._done
        text = rows.INSERT_TRANSACTION + self._dialect.upsert_clause("id", CatalogTransactionRecord._fields[1:])
        add = self._dialect.insert_if_absent("catalog_read", rows.READ_COLUMNS)
        statements: list[Statement] = [(text, done.transactions[id]) for id in sorted(done.transactions)]
        statements += [(add, done.reads[key]) for key in sorted(done.reads)]
        return statements + [rows.delete_reads(id) for id in sorted(done.forgotten)]

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


def _flat(some: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in some for value in row]
