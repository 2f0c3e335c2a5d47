"""The tables of the catalog: immutable objects, and the few mutable references that point into them.

Objects (`commit`, `node`, `content`) are keyed by the hash of what they hold and never change but for
`used_at` (microseconds since 1970, UTC), the last time a writer needed them.  A NULL commit id means
"no commit".  The foreign key of `reference.head` makes a dangling reference impossible.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, String, Table, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine
from sqlmodel import Field, SQLModel

FORMAT = 5  # of the tables and of the bytes in them; see docs/format.md

# PostgreSQL moves long values out of the row unless told that rows may fill a page.
_WHOLE_ROWS = {"postgresql_with": {"toast_tuple_target": 8160}}
# Rows that change with every commit find room for their next version on their own page.
_ROOM_TO_CHANGE = {"postgresql_with": {"fillfactor": 50}}


def _id(size: int, **options: Any) -> Column[bytes]:
    kind: TypeEngine[bytes] = LargeBinary(size).with_variant(mysql.BINARY(size), "mysql", "mariadb")
    return Column(kind, **options)


def _blob() -> Column[bytes]:
    kind: TypeEngine[bytes] = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
    return Column(kind, nullable=False)


def _name(size: int, **options: Any) -> Column[str]:
    """ASCII text that is compared byte by byte on every database, so that listings have one order."""
    kind = (
        Text()
        .with_variant(String(size, collation="C"), "postgresql")
        .with_variant(mysql.VARCHAR(size, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
    )
    return Column(kind, **({"nullable": False} | options))


def _text() -> Column[str]:
    kind = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    return Column(kind, nullable=False)


def _count() -> Column[int]:
    return Column(Integer, nullable=False)


def _micros() -> Column[int]:
    return Column(BigInteger, nullable=False)


class CommitRow(SQLModel, table=True):
    __tablename__ = "commit"
    __table_args__ = _WHOLE_ROWS

    id: bytes = Field(sa_column=_id(32, primary_key=True))
    parent: bytes | None = Field(sa_column=_id(32))
    merge_parent: bytes | None = Field(sa_column=_id(32))
    jump: bytes | None = Field(sa_column=_id(32))  # a far ancestor, for O(log depth) walks
    depth: int = Field(sa_column=_micros())  # commits from here to the root along direct parents
    generation: int = Field(sa_column=_micros())  # greater than that of every parent
    time: int = Field(sa_column=_micros())  # commit time, microseconds since 1970
    root: bytes = Field(sa_column=_id(20, nullable=False))
    meta: bytes = Field(sa_column=_blob())
    operations: bytes = Field(sa_column=_blob())
    used_at: int = Field(sa_column=_micros())


class NodeRow(SQLModel, table=True):
    __tablename__ = "node"
    __table_args__ = _WHOLE_ROWS

    id: bytes = Field(sa_column=_id(20, primary_key=True))
    data: bytes = Field(sa_column=_blob())
    used_at: int = Field(sa_column=_micros())


class ContentRow(SQLModel, table=True):
    __tablename__ = "content"
    __table_args__ = _WHOLE_ROWS

    id: bytes = Field(sa_column=_id(20, primary_key=True))
    data: bytes = Field(sa_column=_blob())
    used_at: int = Field(sa_column=_micros())


class ReferenceRow(SQLModel, table=True):
    __tablename__ = "reference"
    __table_args__ = _ROOM_TO_CHANGE

    name: str = Field(sa_column=_name(1000, primary_key=True))
    type: str = Field(sa_column=_name(20))
    head: bytes | None = Field(sa_column=_id(32))
    created_at: int = Field(sa_column=_micros())
    properties: str = Field(sa_column=_text())  # JSON object of strings


class ReferenceLogRow(SQLModel, table=True):
    """Sequence numbers have no gaps and are in the order of the database's commits: `counter` gives them."""

    __tablename__ = "reference_log"
    __table_args__ = (Index("reference_log_name", "name", "seq"),)

    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=_name(1000))
    type: str = Field(sa_column=_name(20))
    action: str = Field(sa_column=_name(20))
    before: bytes | None = Field(sa_column=_id(32))
    after: bytes | None = Field(sa_column=_id(32))
    at: int = Field(sa_column=_micros())


class CounterRow(SQLModel, table=True):
    """`reference_log`: the greatest sequence number.  Writers change it last, so they commit in its order.

    `merge_request`: the greatest number of one; there is no such row before the first.
    """

    __tablename__ = "counter"
    __table_args__ = _ROOM_TO_CHANGE

    name: str = Field(sa_column=_name(100, primary_key=True))
    value: int = Field(sa_column=Column(BigInteger, nullable=False))


class SettingRow(SQLModel, table=True):
    __tablename__ = "setting"

    name: str = Field(sa_column=_name(100, primary_key=True))
    value: str = Field(sa_column=_text())


class SubscriberRow(SQLModel, table=True):
    """A webhook, how far it has come, and which process is sending to it."""

    __tablename__ = "subscriber"

    name: str = Field(sa_column=_name(100, primary_key=True))
    url: str = Field(sa_column=_text())
    secret: str = Field(sa_column=_text())
    kinds: str = Field(sa_column=_text())  # JSON list
    pattern: str = Field(sa_column=_text())
    max_attempts: int = Field(sa_column=_count())
    active: int = Field(sa_column=_count())  # 0 or 1
    created_at: int = Field(sa_column=_micros())
    seq: int = Field(sa_column=_micros())  # of the reference log: all up to here is done
    attempts: int = Field(sa_column=_count())  # at what comes next
    retry_at: int = Field(sa_column=_micros())
    error: str = Field(sa_column=_text())
    owner: str = Field(sa_column=_name(40))  # empty: nobody
    leased_until: int = Field(sa_column=_micros())


class DeadLetterRow(SQLModel, table=True):
    """An event that a webhook did not take."""

    __tablename__ = "dead_letter"

    subscriber: str = Field(sa_column=_name(100, primary_key=True))
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    event: str = Field(sa_column=_text())  # JSON
    error: str = Field(sa_column=_text())
    attempts: int = Field(sa_column=_count())
    at: int = Field(sa_column=_micros())
    retrying: int = Field(sa_column=_count())  # 0 or 1


class IdempotencyKeyRow(SQLModel, table=True):
    """The answer to a request that carried a key, in the transaction that did what the request asked for."""

    __tablename__ = "idempotency_key"
    __table_args__ = (Index("idempotency_key_expires_at", "expires_at"),)

    key: bytes = Field(sa_column=_id(16, primary_key=True))
    digest: bytes = Field(sa_column=_id(32, nullable=False))  # of the request
    answer: bytes = Field(sa_column=_blob())
    expires_at: int = Field(sa_column=_micros())


class MergeRequestRow(SQLModel, table=True):
    """A wish to merge a branch at one commit.  What only its own readers look at is in `document`, JSON."""

    __tablename__ = "merge_request"
    __table_args__ = (
        Index("merge_request_state", "state", "number"),
        Index("merge_request_source", "source", "number"),
    )

    number: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    source: str = Field(sa_column=_name(1000))
    source_hash: str = Field(sa_column=_name(64))
    target: str = Field(sa_column=_name(1000))
    state: str = Field(sa_column=_name(20))
    created_at: int = Field(sa_column=_micros())
    updated_at: int = Field(sa_column=_micros())
    document: str = Field(sa_column=_text())


class CatalogTransactionRow(SQLModel, table=True):
    """A transaction over many tables.  What only its own readers look at is in `document`, JSON."""

    __tablename__ = "catalog_transaction"
    __table_args__ = (Index("catalog_transaction_state", "state", "expires_at"),)

    id: str = Field(sa_column=_name(64, primary_key=True))
    state: str = Field(sa_column=_name(20))
    target: str = Field(sa_column=_name(1000))
    expires_at: int = Field(sa_column=_micros())  # when it has ended: when its row may go
    document: str = Field(sa_column=_text())


class CatalogReadRow(SQLModel, table=True):
    """What a transaction has read; `digest` is of kind and key, since databases bound the length of a key."""

    __tablename__ = "catalog_read"

    transaction: str = Field(sa_column=_name(64, primary_key=True))
    digest: bytes = Field(sa_column=_id(16, primary_key=True))
    kind: int = Field(sa_column=Column(BigInteger, nullable=False))  # writers pack integers into eight bytes
    low: bytes = Field(sa_column=_blob())
    high: bytes = Field(sa_column=_blob())


def _table(row: type[SQLModel]) -> Table:
    table: Table = row.__table__  # type: ignore[attr-defined]
    return table


commit, node, content = _table(CommitRow), _table(NodeRow), _table(ContentRow)
reference, reference_log = _table(ReferenceRow), _table(ReferenceLogRow)
counter, setting = _table(CounterRow), _table(SettingRow)
subscriber, dead_letter = _table(SubscriberRow), _table(DeadLetterRow)
idempotency_key, merge_request = _table(IdempotencyKeyRow), _table(MergeRequestRow)
catalog_transaction, catalog_read = _table(CatalogTransactionRow), _table(CatalogReadRow)
metadata = SQLModel.metadata
reference.c.head.append_foreign_key(ForeignKey(commit.c.id))
ALL = [
    commit,
    node,
    content,
    reference,
    reference_log,
    counter,
    setting,
    subscriber,
    dead_letter,
    idempotency_key,
    merge_request,
    catalog_transaction,
    catalog_read,
]
