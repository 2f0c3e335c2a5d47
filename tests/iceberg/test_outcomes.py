"""Metadata files of commits that fail: deleted when nothing was applied, kept when a commit may have happened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.catalog.requests import CreateTable
from nessie_ops.errors import NoSuchTable, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import ContentKey
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from tests.iceberg.helpers import SCHEMA

DB, TABLE = ContentKey.of("db"), ContentKey.of("db", "t")
REQUEST = CreateTable(name="t", schema=SCHEMA)
LOST_DISK = sqlite3.OperationalError("disk I/O error")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path}/catalog.db")
    yield store
    store.close()


@pytest.fixture
def catalog(store: Store, tmp_path: Path) -> IcebergCatalog:
    catalog = IcebergCatalog(VersionStore(store), f"{tmp_path}/warehouse")
    catalog.namespaces.create("main", DB, {})
    return catalog


def metadata_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "warehouse").rglob("*.metadata.json"))


def test_deleted_when_nothing_was_applied(catalog: IcebergCatalog, store: Store, tmp_path: Path) -> None:
    seen: list[int] = []

    def fail(_connection: Any, statement: str) -> None:
        if statement.startswith("INSERT"):
            seen.append(len(metadata_files(tmp_path)))
            raise LOST_DISK

    store.dialect.on_statement = fail
    with pytest.raises(StoreUnavailable):
        catalog.tables.create("main", DB, REQUEST)
    store.dialect.on_statement = None
    assert seen == [1], "the file was there before the commit began"
    assert metadata_files(tmp_path) == []
    with pytest.raises(NoSuchTable):
        catalog.tables.load("main", TABLE)


@pytest.mark.parametrize("applied", [True, False])
def test_kept_when_the_outcome_is_unknown(catalog: IcebergCatalog, store: Store, tmp_path: Path, applied: bool) -> None:
    def fail(connection: sqlite3.Connection, statement: str) -> None:
        if statement == "COMMIT":
            if applied:
                connection.execute("COMMIT")
            raise LOST_DISK

    store.dialect.on_statement = fail
    with pytest.raises(OutcomeUnknown):
        catalog.tables.create("main", DB, REQUEST)
    store.dialect.on_statement = None
    assert len(metadata_files(tmp_path)) == 1
    assert catalog.tables.exists("main", TABLE) == applied
