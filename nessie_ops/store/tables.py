"""The tables of the catalog: immutable objects, and the few mutable references that point into them.

Objects (`commit`, `node`, `content`) are keyed by the hash of what they hold and never change but for
`used_at` (microseconds since 1970, UTC), the last time a writer needed them.  A NULL commit id means
"no commit".  The foreign key of `reference.head` makes a dangling reference impossible.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, Table, Text
from sqlmodel import Field, SQLModel

FORMAT = 1  # of the tables and of the bytes in them; see docs/format.md


def _id(size: int, **options: object) -> Column[bytes]:
    return Column(LargeBinary(size), **options)  # type: ignore[arg-type]


def _micros() -> Column[int]:
    return Column(BigInteger, nullable=False)


class CommitRow(SQLModel, table=True):
    __tablename__ = "commit"

    id: bytes = Field(sa_column=_id(32, primary_key=True))
    parent: bytes | None = Field(sa_column=_id(32))
    merge_parent: bytes | None = Field(sa_column=_id(32))
    jump: bytes | None = Field(sa_column=_id(32))  # a far ancestor, for O(log depth) walks
    depth: int = Field(sa_column=_micros())  # commits from here to the root along direct parents
    generation: int = Field(sa_column=_micros())  # greater than that of every parent
    time: int = Field(sa_column=_micros())  # commit time, microseconds since 1970
    root: bytes = Field(sa_column=_id(20, nullable=False))
    meta: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    operations: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    used_at: int = Field(sa_column=_micros())


class NodeRow(SQLModel, table=True):
    __tablename__ = "node"

    id: bytes = Field(sa_column=_id(20, primary_key=True))
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    used_at: int = Field(sa_column=_micros())


class ContentRow(SQLModel, table=True):
    __tablename__ = "content"

    id: bytes = Field(sa_column=_id(20, primary_key=True))
    data: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    used_at: int = Field(sa_column=_micros())


class ReferenceRow(SQLModel, table=True):
    __tablename__ = "reference"

    name: str = Field(sa_column=Column(Text, primary_key=True))
    type: str = Field(sa_column=Column(Text, nullable=False))
    head: bytes | None = Field(sa_column=_id(32))
    created_at: int = Field(sa_column=_micros())
    properties: str = Field(sa_column=Column(Text, nullable=False))  # JSON object of strings


class ReferenceLogRow(SQLModel, table=True):
    __tablename__ = "reference_log"
    __table_args__ = (Index("reference_log_name", "name", "seq"), {"sqlite_autoincrement": True})

    seq: int = Field(sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True))
    name: str = Field(sa_column=Column(Text, nullable=False))
    type: str = Field(sa_column=Column(Text, nullable=False))
    action: str = Field(sa_column=Column(Text, nullable=False))
    before: bytes | None = Field(sa_column=_id(32))
    after: bytes | None = Field(sa_column=_id(32))
    at: int = Field(sa_column=_micros())


class SettingRow(SQLModel, table=True):
    __tablename__ = "setting"

    name: str = Field(sa_column=Column(Text, primary_key=True))
    value: str = Field(sa_column=Column(Text, nullable=False))


def _table(row: type[SQLModel]) -> Table:
    table: Table = row.__table__  # type: ignore[attr-defined]
    return table


commit, node, content = _table(CommitRow), _table(NodeRow), _table(ContentRow)
reference, reference_log, setting = _table(ReferenceRow), _table(ReferenceLogRow), _table(SettingRow)
metadata = SQLModel.metadata
reference.c.head.append_foreign_key(ForeignKey(commit.c.id))
