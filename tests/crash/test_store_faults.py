"""A statement that fails, at every place in every write, leaves the old state; the same call then succeeds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pymysql
import pytest

from nessie_ops.errors import OutcomeUnknown, StoreUnavailable
from nessie_ops.model import NO_ANCESTOR, Merge, NewCommit, ReferenceType, Transplant
from nessie_ops.store import Store, WriteTransaction
from nessie_ops.versioning import VersionStore
from tests.databases import execute
from tests.versioning.helpers import commit, head, namespace, put, table, update

Write = Callable[[VersionStore], object]


def disk_full(database: str) -> Exception:
    """What the driver of a database raises when the disk is full: nothing was applied."""
    if database == "postgresql":
        return psycopg.errors.DiskFull("could not extend file: No space left on device")
    if database == "mariadb":
        return pymysql.err.OperationalError(1021, "Disk full; waiting for someone to free some space")
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


def connection_lost(database: str) -> Exception:
    """What the driver of a database raises when it does not know what became of a statement."""
    if database == "postgresql":
        return psycopg.OperationalError("server closed the connection unexpectedly")
    if database == "mariadb":
        return pymysql.err.OperationalError(2013, "Lost connection to MySQL server during query")
    return sqlite3.OperationalError("disk I/O error")


def _merge(versions: VersionStore) -> object:
    request = Merge(from_ref="side", from_hash=head(versions, "side"), meta=NewCommit(message=""))
    return versions.merge("main", None, request)


WRITES: dict[str, Write] = {
    "commit": lambda versions: commit(versions, put("n", namespace("n")), put("n.t", table(1))),
    "merge": _merge,
    "transplant": lambda versions: versions.transplant(
        "main", None, Transplant(from_ref="side", hashes=(head(versions, "side"),), meta=NewCommit(message=""))
    ),
    "revert": lambda versions: versions.revert("side", None, head(versions, "side")),
    "create": lambda versions: versions.create_reference(ReferenceType.BRANCH, "new", head(versions)),
    "assign": lambda versions: versions.assign_reference("side", None, head(versions)),
    "delete": lambda versions: versions.delete_reference("side", None),
    "properties": lambda versions: versions.update_properties("side", {"a": "b"}),
}


def state(versions: VersionStore) -> Any:
    references = versions.list_references()
    entries = [versions.list_entries(reference.hash, with_content=True) for reference in references]
    return references, entries, versions.list_moves()


@pytest.mark.parametrize("name", WRITES)
def test_the_kth_statement_fails(name: str, database_url: str) -> None:
    store = Store.open(database_url)
    versions = VersionStore(store)
    base = commit(versions, put("t", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "side", base)
    update(versions, "t", 2, "side")
    countdown = [0]

    def fail(_connection: Any, statement: str) -> None:
        in_doubt = store.dialect.name == "mariadb" and statement == "COMMIT"  # whatever its error: see the next test
        countdown[0] -= 1
        if countdown[0] == 0 and not in_doubt:
            raise disk_full(store.dialect.name)

    store.dialect.on_statement = fail
    before = state(versions)
    failures = 0
    while True:
        countdown[0] = failures + 1
        try:
            WRITES[name](versions)
            break
        except StoreUnavailable:
            failures += 1
            countdown[0] = 0
            assert state(versions) == before, f"statement {failures} left something behind"
    assert failures >= 3
    countdown[0] = 0
    assert state(versions) != before
    store.close()
    reopened = VersionStore.open(database_url)
    assert state(reopened) != before
    reopened.close()


def test_a_commit_that_fails_at_the_last_moment_has_an_unknown_outcome(database_url: str) -> None:
    store = Store.open(database_url)
    versions = VersionStore(store)

    def fail(_connection: Any, statement: str) -> None:
        if statement == "COMMIT":
            raise connection_lost(store.dialect.name)

    store.dialect.on_statement = fail
    with pytest.raises(OutcomeUnknown, match="Whether the change was applied is unknown"):
        commit(versions, put("t", table(1)), at=NO_ANCESTOR)
    store.dialect.on_statement = None
    commit(versions, put("t", table(1)), at=NO_ANCESTOR)
    store.close()


def test_a_connection_that_is_lost_after_commit_does_not_unsay_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection is given back with one more COMMIT, which some drivers send: nothing depends on it any more."""
    with closing(VersionStore.open(database_url)) as versions:
        update(versions, "t", 1)
        publish = WriteTransaction.publish

        def publish_and_lose(tx: WriteTransaction) -> None:
            publish(tx)
            if versions.store.dialect.name == "mariadb":
                execute(database_url, f"KILL {tx.connection.connection.driver_connection.thread_id()}")
            elif versions.store.dialect.name == "postgresql":
                execute(database_url, f"SELECT pg_terminate_backend({_pid(tx)}, 10000)")

        with monkeypatch.context() as patch:
            patch.setattr(WriteTransaction, "publish", publish_and_lose)
            written = update(versions, "t", 2)
        assert head(versions) == written


def _pid(tx: WriteTransaction) -> int:
    raw: Any = tx.connection.connection.driver_connection
    pid: int = raw.info.backend_pid
    return pid
