"""The database under the kernel: how it is opened, what is refused, what an acknowledged commit rests on."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest

from nessie_ops.errors import BadRequest, ReferenceNotFound, StoreFormatError, StoreUnavailable
from nessie_ops.model import NO_ANCESTOR, NewCommit, ReferenceType
from nessie_ops.store import Cache, Store, dialects
from nessie_ops.versioning import VersionStore, commits, references
from nessie_ops.versioning.codec import decode_commit
from nessie_ops.versioning.objects import load_commit
from tests.versioning.helpers import head, update

CONNECTIONS = 4


def test_every_connection_writes_through_to_the_disk(tmp_path: Path) -> None:
    """WAL with synchronous = FULL (2) is what survives a power cut; a weaker setting would pass every kill test."""
    store = Store.open(f"sqlite:///{tmp_path}/catalog.db")
    all_open = Barrier(CONNECTIONS)

    def look(_: int) -> list[object]:
        with store.read() as tx:
            all_open.wait()
            names = ("journal_mode", "synchronous", "foreign_keys")
            return [tx.connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        assert list(threads.map(look, range(CONNECTIONS))) == [["wal", 2, 1]] * CONNECTIONS
    with store.write() as tx:
        assert tx.connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    store.close()


@pytest.mark.parametrize(
    "url", ["x", "", "oracle://u:secret@h/db", "sqlite+aiosqlite:///x.db", "sqlite:////dev/null/x"]
)
def test_urls_that_cannot_be(url: str) -> None:
    with pytest.raises(BadRequest, match="store") as caught:
        VersionStore.open(url)
    assert "secret" not in caught.value.message


def test_a_store_that_must_exist_is_not_created(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/new/catalog.db"
    with pytest.raises(BadRequest, match=r"there is no catalog at .*/new/catalog\.db"):
        VersionStore.open(url, create=False)
    assert list(tmp_path.iterdir()) == []
    VersionStore.open(url).close()
    VersionStore.open(url, create=False).close()


def test_the_home_of_the_user_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    VersionStore.open("sqlite:///~/a/catalog.db").close()
    assert (tmp_path / "a" / "catalog.db").exists()


def test_what_is_no_catalog_is_refused_and_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_bytes(b"no database " * 200)
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as database:
        database.execute("CREATE TABLE reference (x)")
    newer = tmp_path / "newer.db"
    VersionStore.open(f"sqlite:///{newer}").close()
    with closing(sqlite3.connect(newer, isolation_level=None)) as database:
        database.execute("UPDATE setting SET value = '99' WHERE name = 'format'")
    for path, message in [(text, "not a database"), (foreign, "not a catalog"), (newer, "has format 99")]:
        with pytest.raises(StoreFormatError, match=message):
            VersionStore.open(f"sqlite:///{path}")
    assert text.read_bytes() == b"no database " * 200
    with closing(sqlite3.connect(foreign)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("reference",)]


def test_a_writer_that_waits_too_long_is_told_and_can_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialects, "BUSY_TIMEOUT_MS", 50)
    versions = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    update(versions, "t", 1)
    with closing(sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        before = head(versions)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="locked"):
                versions.create_reference(ReferenceType.BRANCH, "x", NO_ANCESTOR)
        assert head(versions) == before, "readers do not wait"
    versions.create_reference(ReferenceType.BRANCH, "x", NO_ANCESTOR)
    versions.close()


def test_the_cache_keeps_what_was_used_last_within_its_size() -> None:
    cache = Cache(3_000)
    for n in range(3):
        cache.put(n, f"value {n}", 700)
    assert cache.get(0) == "value 0"
    cache.put(3, "value 3", 700)
    assert [cache.get(n) for n in range(4)] == ["value 0", None, "value 2", "value 3"]
    cache.put(3, "again", 100)
    assert cache.get(3) == "again" and cache.used_bytes == 2 * 900 + 300
    cache.put("too large", "x", 3_000)
    assert cache.get("too large") is None and cache.get(0) == "value 0"


def test_what_is_rolled_back_is_not_in_the_cache(tmp_path: Path) -> None:
    versions = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    update(versions, "t", 1)
    store, written = versions._store, []
    with pytest.raises(ZeroDivisionError), store.write() as tx:
        record = references.get_branch_record(tx, "main", "commit")
        new = commits.write_commit(
            tx, load_commit(tx, record.head), None, NewCommit(message=""), [], [], datetime.now(UTC)
        )
        assert load_commit(tx, new.id) == new and tx.load_ancestors(new.id, 2, decode_commit)[0] == new
        written.append(new)
        raise ZeroDivisionError
    with pytest.raises(ReferenceNotFound, match=f"Commit '{written[0].hash}' not found"):
        versions.create_reference(ReferenceType.BRANCH, "x", written[0].hash)
    versions.close()


def test_a_lock_that_is_never_released_is_not_waited_for_for_ever(postgresql_url: str) -> None:
    with closing(VersionStore.open(postgresql_url)) as versions, versions.store.read() as tx:
        names = ("lock_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count")
        shown = [tx.connection.exec_driver_sql(f"SHOW {name}").scalar() for name in names]
        assert shown == ["30s", "30", "10", "3"]
    impatient = f"{postgresql_url}?options=-c%20lock_timeout%3D100"
    with closing(VersionStore.open(impatient)) as versions, closing(VersionStore.open(impatient)) as other:
        before = head(versions)
        with other.store.write() as tx:
            tx.get_reference("main", lock=True)
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                update(versions, "t", 1)
        assert head(versions) == before
        update(versions, "t", 1)


def test_prepared_statements_outlive_a_rollback(postgresql_url: str) -> None:
    """psycopg, left to itself, prepares what runs often, and at a rollback deallocates all that is prepared."""
    with closing(VersionStore.open(postgresql_url)) as versions:
        update(versions, "t", 0)
        for _ in range(10):
            with versions.store.write() as tx:
                tx.list_references()
        with pytest.raises(ZeroDivisionError), versions.store.write() as tx:
            tx.list_references()
            raise ZeroDivisionError
        update(versions, "t", 1)


def test_prepared_statements_that_are_gone_are_prepared_anew(postgresql_url: str) -> None:
    with closing(VersionStore.open(postgresql_url)) as versions:
        update(versions, "t", 0)
        with pytest.raises(ZeroDivisionError), versions.store.write() as tx:
            tx.connection.exec_driver_sql("DEALLOCATE ALL")  # no transaction takes that back
            raise ZeroDivisionError
        update(versions, "t", 1)
