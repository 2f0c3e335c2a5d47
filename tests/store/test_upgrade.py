"""An older database is refused, and upgraded in place to what a new one would be, or not at all."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.errors import BadRequest, StoreFormatError
from nessie_ops.events import Webhooks
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.model import NewMergeRequest, NewSubscriber, ReferenceType
from nessie_ops.store import Store, migrations, tables, upgrade_store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.check import check
from tests.databases import execute
from tests.golden.make import DATABASES, EXPECTED, describe, make
from tests.versioning.helpers import update


@pytest.fixture
def old(tmp_path: Path) -> str:
    """The URL of a database of format 1."""
    shutil.copy(DATABASES[0], tmp_path / "catalog.db")
    return f"sqlite:///{tmp_path}/catalog.db"


def describe_schema(url: str) -> dict[str, Any]:
    """Tables with columns, keys and indexes, as the database tells them."""
    engine = create_engine(url)
    inspector = inspect(engine)
    found = {
        name: (
            sorted(
                (c["name"], repr(c["type"]), c["nullable"], c.get("autoincrement")) for c in inspector.get_columns(name)
            ),
            inspector.get_pk_constraint(name)["constrained_columns"],
            [(key["constrained_columns"], key["referred_table"]) for key in inspector.get_foreign_keys(name)],
            sorted((index["name"], index["column_names"], index["unique"]) for index in inspector.get_indexes(name)),
        )
        for name in inspector.get_table_names()
    }
    engine.dispose()
    return found


def differences(url: str) -> list[Any]:
    """Between the tables of a database and what `tables` says."""
    engine = create_engine(url)
    with engine.connect() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), tables.metadata)
    engine.dispose()
    return list(found)


def test_an_older_format_is_refused_until_it_is_upgraded(old: str) -> None:
    with pytest.raises(StoreFormatError, match=r"has format 1, .* needs format 5: .*`nessie-ops store upgrade`"):
        VersionStore.open(old)
    assert upgrade_store(old, dry_run=True).before == 1
    with pytest.raises(StoreFormatError):
        VersionStore.open(old)
    done = upgrade_store(old)
    assert (done.before, done.after) == (1, tables.FORMAT) and len(done.steps) == tables.FORMAT - 1
    versions = VersionStore.open(old)
    assert describe(versions) == json.loads(EXPECTED.read_text())
    moves = versions.list_moves()
    update(versions, "t", 1)
    assert [move.seq for move in versions.list_moves()] == [*(move.seq for move in moves), moves[-1].seq + 1]
    assert list(check(versions._store, lambda what, count: None)) == []
    versions.close()
    assert upgrade_store(old).steps == (), "once more does nothing"


def test_upgraded_and_created_tables_are_the_same(old: str, tmp_path: Path) -> None:
    upgrade_store(old)
    new = f"sqlite:///{tmp_path}/new.db"
    Store.open(new).close()
    assert describe_schema(old) == describe_schema(new)
    assert differences(old) == differences(new) == []


def test_format_2_is_upgraded_on_every_database(database_url: str) -> None:
    """Also when an upgrade was cut short where changes of tables cannot be undone."""
    versions = VersionStore.open(database_url)
    head = update(versions, "t", 1)
    versions.close()
    new = describe_schema(database_url)
    for undo in ("DROP TABLE idempotency_key", "SELECT 1"):
        execute(database_url, undo, "UPDATE setting SET value = '2' WHERE name = 'format'")
        with pytest.raises(StoreFormatError, match="has format 2"):
            Store.open(database_url)
        done = upgrade_store(database_url)
        assert (done.before, done.after, len(done.steps)) == (2, tables.FORMAT, tables.FORMAT - 2)
        assert describe_schema(database_url) == new
    with closing(VersionStore.open(database_url)) as versions:
        assert versions.get_reference("main").hash == head
        update(versions, "t", 2)


NEWER = {"merge_request", "catalog_transaction", "catalog_read"}  # tables of later formats


def make_format_3(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store as version 3 of the format had it, in use: a history, a webhook, a request that may be repeated."""
    with monkeypatch.context() as patch:
        patch.setattr(tables, "FORMAT", 3)
        patch.setattr(tables, "ALL", [table for table in tables.ALL if table.name not in NEWER])
        versions = make(url)
        Webhooks(versions).create_subscriber(NewSubscriber(name="hook", url="http://127.0.0.1:9/"))
        versions.close()


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_what_a_store_of_format_3_holds_outlives_its_upgrade(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_format_3(database_url, monkeypatch)
    before = describe_schema(database_url)
    if database_url.startswith("sqlite"):
        shutil.copy(DATABASES[2], tmp_path / "released.db")
        assert describe_schema(f"sqlite:///{tmp_path}/released.db") == before, "as it was released"
    done = CliRunner().invoke(
        build_app(lambda **options: None), ["store", "upgrade", "--store", database_url, "--json"]
    )
    assert json.loads(done.stdout)["after"] == tables.FORMAT
    after = describe_schema(database_url)
    assert set(after) - set(before) == NEWER and before.items() <= after.items()

    with closing(VersionStore.open(database_url)) as versions:
        assert describe(versions) == json.loads(EXPECTED.read_text())
        assert list(check(versions._store, lambda what, count: None)) == []
        [hook] = Webhooks(versions).list_subscribers()
        assert hook.name == "hook" and hook.active
        requests = MergeRequests(versions)
        assert requests.list_merge_requests() == []
        versions.create_reference(ReferenceType.BRANCH, "run/2", versions.get_reference("main").hash)
        update(versions, "more", 1, "run/2")
        asked = requests.create_merge_request(NewMergeRequest(source="run/2"))
        merged = requests.merge_merge_request(asked.number)
        assert (asked.number, merged.merge_hash) == (1, versions.get_reference("main").hash)


def test_an_upgrade_that_fails_changes_nothing(old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dump() -> list[str]:
        with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
            return list(database.iterdump())

    before = dump()
    real = migrations.upgrade

    def fail(connection: Any, format: int) -> None:
        real(connection, format)
        raise ZeroDivisionError

    monkeypatch.setattr(migrations, "upgrade", fail)
    with pytest.raises(ZeroDivisionError):
        upgrade_store(old)
    assert dump() == before


def test_what_cannot_be_upgraded(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="there is no catalog at"):
        upgrade_store(f"sqlite:///{tmp_path}/missing.db")
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    with pytest.raises(BadRequest, match="no catalog to upgrade"):
        upgrade_store(f"sqlite:///{tmp_path}/empty.db")
    (tmp_path / "text.db").write_bytes(b"no database " * 200)
    with pytest.raises(StoreFormatError, match="not a database"):
        upgrade_store(f"sqlite:///{tmp_path}/text.db")
    newer = f"sqlite:///{tmp_path}/newer.db"
    Store.open(newer).close()
    with closing(sqlite3.connect(tmp_path / "newer.db", isolation_level=None)) as database:
        database.execute("UPDATE setting SET value = '99' WHERE name = 'format'")
    with pytest.raises(StoreFormatError, match="has format 99"):
        upgrade_store(newer)


def test_the_command(old: str) -> None:
    app = build_app(lambda **options: None)
    dry = CliRunner().invoke(app, ["store", "upgrade", "--store", old, "--dry-run"])
    assert dry.stdout.startswith("would upgrade the store from format 1 to 5\n  Format 2: "), dry.output
    done = CliRunner().invoke(app, ["store", "upgrade", "--store", old, "--json"])
    assert json.loads(done.stdout)["after"] == tables.FORMAT
    again = CliRunner().invoke(app, ["store", "upgrade", "--store", old])
    assert again.stdout == f"nothing to do: the store has format {tables.FORMAT}\n"
