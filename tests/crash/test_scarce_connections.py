"""Connections to the database run out, in the pool and at the server: an answer that asks for another try."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from sqlalchemy import make_url

from nessie_ops.store import dialects
from tests.crash.writers import Writers
from tests.databases import Databases, PostgreSQL
from tests.server.helpers import Api, running_server
from tests.server.processes import Served

READERS = 12
READS = ("trees/main/entries", "trees/main/history", "trees", "trees/main")


@contextmanager
def connected(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of somebody else's to the same database."""
    with psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)) as other:
        yield other


@contextmanager
def reading(base_uri: str) -> Iterator[list[Future[httpx.Response]]]:
    """Many reads at once, which are under way in this context and answered when it ends."""
    paths = [path for path in READS for _ in range(READERS)]
    with httpx.Client(base_url=f"{base_uri}/api/v2/", timeout=60) as http, ThreadPoolExecutor(len(paths)) as threads:
        yield [threads.submit(http.get, path) for path in paths]


def read_all(base_uri: str) -> list[httpx.Response]:
    """The answers to many reads at once, all of them."""
    with reading(base_uri) as answers:
        pass
    return [answer.result() for answer in answers]


def assert_busy(answers: list[httpx.Response]) -> None:
    """Some are told to come again, and nobody is told anything else that is wrong."""
    busy = [answer for answer in answers if answer.status_code == 503]
    assert busy and all(answer.headers["retry-after"] == "1" for answer in busy)
    assert {answer.status_code for answer in answers} <= {200, 503}


def test_an_exhausted_pool(monkeypatch: pytest.MonkeyPatch, postgresql_url: str) -> None:
    for name, value in (("POOL_SIZE", 2), ("POOL_OVERFLOW", 0), ("POOL_TIMEOUT_S", 0.3)):
        monkeypatch.setattr(dialects, name, value)
    with running_server(postgresql_url) as uri:
        api = Api(uri)
        api.add_table("before")
        with Writers(uri, ["main"] * 4) as writers:
            writers.wait_for(200, 20)
            # Whoever reads or writes waits with its connection for this lock.
            with reading(uri) as reads, connected(postgresql_url) as other:
                other.execute("LOCK TABLE reference")
                with reading(uri) as more:
                    refused = [next(as_completed(more)).result() for _ in range(3)]
                    health = httpx.get(f"{uri}/health", timeout=60)
                    other.rollback()
            assert_busy([read.result() for read in (*reads, *more)])
            assert health.status_code == 503 and health.headers["retry-after"] == "1"
            assert {answer.status_code for answer in refused} == {503}
            writers.wait_for(200, 20)
        assert {answer.status_code for answer in read_all(uri)} == {200}
        assert api.http.get("/health").status_code == 200
        api.http.close()
        writers.assert_kept(postgresql_url)


def test_a_database_that_takes_no_more_connections(tmp_path: Path) -> None:
    with PostgreSQL.running(max_connections=12) as server, ExitStack() as taken:
        url = Databases(server.url).create()
        with Served(tmp_path, store=url) as served:
            api = Api(served.base_uri)
            api.add_table("before")
            with pytest.raises(psycopg.OperationalError, match="too many clients"):
                while True:
                    taken.enter_context(connected(url))
            with Writers(served.base_uri, ["main"] * 4) as writers:
                assert_busy(read_all(served.base_uri))
                taken.close()
                writers.wait_for(200, 20)
            assert any(  # a closed connection's place is free a moment later
                {answer.status_code for answer in read_all(served.base_uri)} == {200} for _ in range(100)
            )
            api.http.close()
        writers.assert_kept(url)
