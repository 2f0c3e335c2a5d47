"""The database server dies and comes back under 16 writers: nothing acknowledged is lost, nothing refused is applied.

The catalog server is not touched; it must find its way back by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.writers import Writers
from tests.databases import Databases, MariaDB, PostgreSQL, Server
from tests.server.helpers import Api, put
from tests.server.processes import Served

WRITERS, RESTARTS, ENOUGH = 16, 3, 40
ONE, MANY = ["main"] * WRITERS, [f"b{n}" for n in range(WRITERS)]


@pytest.fixture(scope="module", params=[PostgreSQL, MariaDB], ids=lambda kind: kind.__name__)
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Server, Databases]]:
    with request.param.running() as server:
        yield server, Databases(server.url)


@pytest.mark.parametrize("branches", [ONE, MANY], ids=["one branch", "many branches"])
def test_restarts_under_writers(branches: list[str], running: tuple[Server, Databases], tmp_path: Path) -> None:
    server, databases = running
    url = databases.create()
    with Served(tmp_path, store=url) as served:
        api = Api(served.base_uri)
        for name in {*branches} - {"main"}:
            api.branch(name)
        with Writers(served.base_uri, branches) as writers:
            for _ in range(RESTARTS):
                writers.wait_for(200, ENOUGH)
                server.crash()
                server.start()
            writers.wait_for(200, ENOUGH)
        api.add_table("afterwards")
        api.http.close()
    assert writers.refused or writers.unknown, "no restart hit a commit"
    writers.assert_kept(url)


def test_a_stopped_database_is_an_answer_not_a_wait(running: tuple[Server, Databases], tmp_path: Path) -> None:
    server, databases = running
    url = databases.create()
    with Served(tmp_path, store=url) as served:
        api = Api(served.base_uri)
        api.http.timeout = 20
        head = api.head()
        api.add_table("before")
        server.stop()
        try:
            for _ in range(3):
                for method, path in (("GET", "trees"), ("GET", "trees/main"), ("GET", "trees/main/entries")):
                    answer = api.call(method, path)
                    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1"), answer.text
                assert api.try_commit(put("t"), at=head, status=503)["errorCode"] == "SERVICE_UNAVAILABLE"
                assert api.http.get("/health").status_code == 503
        finally:
            server.start()
        answers = []
        while not answers or answers[-1] != 200:
            answers.append(api.http.get("/health").status_code)
            assert len(answers) < 50
