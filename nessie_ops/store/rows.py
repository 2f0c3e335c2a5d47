"""Rows as the store hands them out, and the texts of the hot statements, made from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from typing import NamedTuple, TypeVar

from sqlalchemy import Table

from nessie_ops.store import tables

T = TypeVar("T")
MAX_ROWS = 64  # rows of one INSERT: bounds its parameters, and the number of texts that drivers prepare


class Kind(Enum):
    """Immutable objects by table."""

    COMMIT = tables.commit
    NODE = tables.node
    CONTENT = tables.content

    __hash__ = object.__hash__  # part of every cache key

    @property
    def table(self) -> Table:
        return self.value


class ReferenceRecord(NamedTuple):
    name: str
    type: str
    head: bytes | None
    created_at: int
    properties: str


class MergeRequestRecord(NamedTuple):
    number: int
    source: str
    source_hash: str
    target: str
    state: str
    created_at: int
    updated_at: int
    document: str


class CatalogTransactionRecord(NamedTuple):
    id: str
    state: str
    target: str
    expires_at: int
    document: str


class ReadRecord(NamedTuple):
    """Keys from `low` up to and without `high` that a transaction has read; the kind says what of them."""

    transaction: str
    digest: bytes
    kind: int
    low: bytes
    high: bytes


class Move(NamedTuple):
    """A row of the reference log; heads are None for "no commit"."""

    seq: int
    name: str
    type: str
    action: str
    before: bytes | None
    after: bytes | None
    at: int


def storable(name: str) -> bool:
    """Whether the columns for names can hold this one: what they cannot hold is not there, and not asked for."""
    return name.isascii() and "\0" not in name


def _columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


COLUMNS = {kind: _columns(kind.table) for kind in Kind}
"""Names of the columns of each kind, in order; the last one is `used_at`."""

LOADED = {
    kind: ", ".join(f'"{name}"' for name in (COLUMNS[kind][:-1] if kind is Kind.COMMIT else ("id", "data")))
    for kind in Kind
}
"""What a load selects, as SQL text."""

SELECT_REFERENCE = 'SELECT "name", "type", "head", "created_at", "properties" FROM "reference" WHERE "name" = ?'
SELECT_REFERENCES_ANY = SELECT_REFERENCE.removesuffix("= ?") + "= ANY(?::text[])"  # PostgreSQL
_REQUEST_COLUMNS = ", ".join(f'"{name}"' for name in MergeRequestRecord._fields)
_REQUEST_MARKS = ", ".join("?" * len(MergeRequestRecord._fields))
INSERT_REQUEST = f'INSERT INTO "merge_request" ({_REQUEST_COLUMNS}) VALUES ({_REQUEST_MARKS})'
_TRANSACTION_COLUMNS = ", ".join(f'"{name}"' for name in CatalogTransactionRecord._fields)
INSERT_TRANSACTION = f'INSERT INTO "catalog_transaction" ({_TRANSACTION_COLUMNS}) VALUES (?, ?, ?, ?, ?)'
READ_COLUMNS = ", ".join(f'"{name}"' for name in ReadRecord._fields)
READS_AT_ONCE = 10_000  # and one, deleted by one statement
# The digest that so many are below; a subquery of its own, since MariaDB reads no table that it deletes from.
_LAST_OF_READS = (
    'SELECT "digest" FROM (SELECT "digest" FROM "catalog_read" WHERE "transaction" = ? '
    f'ORDER BY "digest" LIMIT 1 OFFSET {READS_AT_ONCE}) AS "some"'
)
_DELETE_READS = f'DELETE FROM "catalog_read" WHERE "transaction" = ? AND "digest" <= COALESCE(({_LAST_OF_READS}), ?)'
INSERT_REFERENCE = 'INSERT INTO "reference" ("name", "type", "head", "created_at", "properties") VALUES (?, ?, ?, ?, ?)'
UPDATE_REFERENCE = 'UPDATE "reference" SET "type" = ?, "head" = ?, "created_at" = ?, "properties" = ? WHERE "name" = ?'
MOVE_REFERENCE = 'UPDATE "reference" SET "head" = ? WHERE "name" = ?'
DELETE_REFERENCE = 'DELETE FROM "reference" WHERE "name" = ?'
TOUCH_COMMIT = 'UPDATE "commit" SET "used_at" = ? WHERE "id" = ?'
ANSWER_COLUMNS = '"key", "digest", "answer", "expires_at"'
SELECT_ANSWER = 'SELECT "digest", "answer", "expires_at" FROM "idempotency_key" WHERE "key" = ?'
REPLACE_ANSWER = 'UPDATE "idempotency_key" SET "digest" = ?, "answer" = ?, "expires_at" = ? WHERE "key" = ?'
ADVANCE_LOG = """UPDATE "counter" SET "value" = "value" + ? WHERE "name" = 'reference_log'"""
_NEXT_SEQ = """(SELECT "value" FROM "counter" WHERE "name" = 'reference_log') - ?"""


@cache
def select_references(count: int, suffix: str) -> str:
    """The query for references by name, in the order in which all transactions lock them."""
    marks = ", ".join("?" * count)
    return SELECT_REFERENCE.removesuffix("= ?") + f'IN ({marks}) ORDER BY "name"{suffix}'


def delete_reads(id: str) -> tuple[str, tuple[object, ...]]:
    """The statement that deletes READS_AT_ONCE and one of what a transaction has read, or all."""
    return _DELETE_READS, (id, id, b"\xff" * 16)


@cache
def insert_objects(kind: Kind, count: int, suffix: str) -> str:
    columns = ", ".join(f'"{name}"' for name in COLUMNS[kind])
    marks = "(" + ", ".join("?" * len(COLUMNS[kind])) + ")"
    return f'INSERT INTO "{kind.table.name}" ({columns}) VALUES ' + ", ".join([marks] * count) + suffix


@cache
def insert_moves(count: int) -> str:
    """Each row's parameters begin with its distance from the last sequence number."""
    columns = '"seq", "name", "type", "action", "before", "after", "at"'
    marks = f"({_NEXT_SEQ}, ?, ?, ?, ?, ?, ?)"
    return f'INSERT INTO "reference_log" ({columns}) VALUES ' + ", ".join([marks] * count)


def chunk_sizes(count: int) -> list[int]:
    """`count` as a sum of powers of two up to MAX_ROWS, so that few different statements are ever made."""
    sizes = [MAX_ROWS] * (count // MAX_ROWS)
    rest = count % MAX_ROWS
    return sizes + [1 << bit for bit in range(MAX_ROWS.bit_length() - 1, -1, -1) if rest >> bit & 1]


def chunks(rows: Sequence[T]) -> list[Sequence[T]]:
    """`rows` cut as `chunk_sizes` says."""
    cut, start = [], 0
    for size in chunk_sizes(len(rows)):
        cut.append(rows[start : start + size])
        start += size
    return cut
