"""The tables of live sets: what a mark found, and what a sweep found to delete.

They may lie in a database of their own, or beside the tables of a catalog, with which they share nothing.
Times are microseconds since 1970, UTC.  Locations have any length, so digests of them are the keys.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, String, Table, Text, UniqueConstraint
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import registry
from sqlalchemy.types import TypeEngine
from sqlmodel import Field, SQLModel


class _Base(SQLModel, registry=registry(metadata=MetaData())):
    """Tables apart from those of the catalog."""


def _digest(*, is_key: bool = True) -> Column[bytes]:
    kind: TypeEngine[bytes] = LargeBinary(16).with_variant(mysql.BINARY(16), "mysql", "mariadb")
    return Column(kind, primary_key=is_key, nullable=False)


def _word(**options: Any) -> Column[str]:
    """ASCII that is compared byte by byte."""
    kind = String(64).with_variant(mysql.VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
    return Column(kind, **({"nullable": False} | options))


def _text() -> Column[str]:
    kind = Text().with_variant(mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")
    return Column(kind, nullable=False)


def _number() -> Column[int]:
    return Column(BigInteger, nullable=False)


def _set() -> Column[int]:
    return Column(Integer, primary_key=True, autoincrement=False)


class LiveSetRow(_Base, table=True):
    """One run.  `settings` and `figures` are JSON of the collector; a time of 0 has not come yet."""

    __tablename__ = "gc_live_set"

    number: int | None = Field(sa_column=Column(Integer, primary_key=True))
    id: str = Field(sa_column=_word(unique=True))
    status: str = Field(sa_column=_word())
    created_at: int = Field(sa_column=_number())
    identified_at: int = Field(sa_column=_number())
    expiry_started_at: int = Field(sa_column=_number())
    expired_at: int = Field(sa_column=_number())
    owner: str = Field(sa_column=_word())  # of the run that works on it; empty: nobody
    leased_until: int = Field(sa_column=_number())
    error: str = Field(sa_column=_text())
    settings: str = Field(sa_column=_text())
    figures: str = Field(sa_column=_text())


class ReferenceRow(_Base, table=True):
    """A reference as it was pinned; one unit of work of the mark."""

    __tablename__ = "gc_reference"

    live_set: int = Field(sa_column=_set())
    ordinal: int = Field(sa_column=Column(Integer, primary_key=True, autoincrement=False))
    name: str = Field(sa_column=_text())
    type: str = Field(sa_column=_word())
    hash: str = Field(sa_column=_word())
    bound: str = Field(sa_column=_word())  # as the collector writes cutoffs
    is_done: int = Field(sa_column=_number())
    commits: int = Field(sa_column=_number())
    last: str = Field(sa_column=_word())


class VersionRow(_Base, table=True):
    """A live version of a table or view, and the first reason that was found for it."""

    __tablename__ = "gc_version"

    live_set: int = Field(sa_column=_set())
    digest: bytes = Field(sa_column=_digest())
    content_id: str = Field(sa_column=_text())
    is_table: int = Field(sa_column=_number())
    metadata_location: str = Field(sa_column=_text())
    snapshot_id: int = Field(sa_column=_number())
    key: str = Field(sa_column=_text())
    commit: str = Field(sa_column=_word())
    reference: str = Field(sa_column=_text())


class BaseRow(_Base, table=True):
    """A place where files of a content lie; kept for later runs, when its metadata may be gone."""

    __tablename__ = "gc_base"

    live_set: int = Field(sa_column=_set())
    digest: bytes = Field(sa_column=_digest())
    content_id: str = Field(sa_column=_text())
    place: str = Field(sa_column=_text())


class ListingRow(_Base, table=True):
    """A base that has been listed to its end; one unit of work of the sweep.  `figures` are JSON of the collector."""

    __tablename__ = "gc_listing"

    live_set: int = Field(sa_column=_set())
    digest: bytes = Field(sa_column=_digest())
    place: str = Field(sa_column=_text())
    figures: str = Field(sa_column=_text())


class FileRow(_Base, table=True):
    """A file that is to be deleted, or has been.

    Numbered as they are found, so that what is read and changed together lies together; digests are in no order.
    """

    __tablename__ = "gc_file"
    __table_args__ = (UniqueConstraint("live_set", "digest"), Index("gc_file_number", "live_set", "number"))

    number: int | None = Field(sa_column=Column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True))
    live_set: int = Field(sa_column=Column(Integer, nullable=False))
    digest: bytes = Field(sa_column=_digest(is_key=False))
    location: str = Field(sa_column=_text())
    base: str = Field(sa_column=_text())
    size_bytes: int = Field(sa_column=_number())
    modified_at: int = Field(sa_column=_number())
    state: str = Field(sa_column=_word())
    error: str = Field(sa_column=_text())
    reason: str = Field(sa_column=_text())  # JSON of the collector: who held the file last; empty: not looked up


def _table(row: type[SQLModel]) -> Table:
    found: Table = row.__table__  # type: ignore[attr-defined]
    return found


live_set, reference = _table(LiveSetRow), _table(ReferenceRow)
version, base, listing, file = _table(VersionRow), _table(BaseRow), _table(ListingRow), _table(FileRow)
PARTS = (reference, version, base, listing, file)
ALL = [live_set, *PARTS]
metadata = _Base.metadata
