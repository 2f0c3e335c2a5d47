"""kill -9 of the server before every statement of every write, and after its COMMIT: the old state or the new one.

The server is a process, the writes come over HTTP, the databases are SQLite and PostgreSQL.  Each kill is followed by
a new server on the same store, which must have the old state, to the last hash, when the kill came before COMMIT.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from nessie_ops.model import ReferenceType
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.check import check
from tests.crash.nursery import Bomb
from tests.server.helpers import Api, delete, key, put, table
from tests.versioning import helpers as kernel

ROOT = Path(__file__).parents[2]
_DRAWN = re.compile(r"[0-9a-f]{64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z")
State = dict[str, Any]


class Victim(Api):
    """A client of a server that carries a bomb, which each write arms when it has made all its preparations."""

    def __init__(self, base_uri: str, bomb: Bomb) -> None:
        super().__init__(base_uri)
        self.bomb = bomb
        self.statements = self.commits = 0
        self.headers: dict[str, str] = {}
        self.sent: tuple[str, str, dict[str, Any] | None] | None = None

    def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        """Send a request, in which `{name}` stands for the head of a reference, with the bomb ticking from here on."""
        heads = {name: self.head(name) for name in ("main", "side", "old")}
        filled = {
            field: value.format(**heads) if isinstance(value, str) else value for field, value in (body or {}).items()
        }
        self.bomb.arm(self.statements, self.commits)
        self.sent = method, path.format(**heads), filled if body else None
        return self.send_again(self)

    def send_again(self, other: Victim) -> httpx.Response:
        """Send what `other` has sent last, with its headers."""
        assert other.sent
        method, path, body = other.sent
        return self.call(method, path, json=body, headers=other.headers)


Write = Callable[[Victim], httpx.Response]


class Nursery:
    """Starts servers that can be killed at a statement."""

    def __init__(self, folder: Path) -> None:
        file = folder / "bomb"
        file.write_bytes(bytes(16))
        self.bomb = Bomb(file)
        command = [sys.executable, "-m", "tests.crash.nursery", str(file)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    @contextmanager
    def server(self, url: str) -> Iterator[Victim]:
        """A client of a new server, which is killed at the end if it still lives."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{url}\n")
        self._process.stdin.flush()
        pid, base_uri = self._process.stdout.readline().split()
        api = Victim(base_uri, self.bomb)
        try:
            yield api
        finally:
            self.bomb.arm()
            api.http.close()
            kill(int(pid))

    def close(self) -> None:
        self._process.communicate("")


def kill(pid: int) -> None:
    """Kill a process, and wait until it has gone."""
    while True:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    made = Nursery(tmp_path_factory.mktemp("nursery"))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Makes stores that hold what the writes need; each call gives the URL of another one."""
    urls: list[str] = []
    databases = None if request.param == "sqlite" else request.getfixturevalue("postgresql_databases")

    def create() -> str:
        url = databases.create() if databases else f"sqlite:///{tmp_path}/{len(urls)}.db"
        urls.append(url)
        prepare(url)
        return url

    yield create
    if databases:
        for url in urls:
            databases.drop(url)


def prepare(url: str) -> None:
    """Make a branch with a namespace and two tables, one with two commits of its own, and one that has not moved."""
    with closing(VersionStore.open(url)) as versions:
        base = kernel.commit(versions, kernel.put("n", kernel.namespace("n")), kernel.put("n.t", kernel.table(1)))
        for name in ("side", "old"):
            versions.create_reference(ReferenceType.BRANCH, name, base)
        for n in (1, 2):
            kernel.commit(versions, kernel.put(f"n.side{n}", kernel.table(n)), branch="side")
        kernel.commit(versions, kernel.put("n.u", kernel.table(1)))


def commit(api: Victim) -> httpx.Response:
    updated = table(2, api.content("n.t")["id"])
    operations = [put("n.t", updated), put("n.new", table(1)), delete("n.u")]
    body = {"commitMeta": {"message": "commit"}, "operations": operations}
    return api.send("POST", "trees/main@{main}/history/commit", body)


def merge(api: Victim) -> httpx.Response:
    return api.send("POST", "trees/main@{main}/history/merge", {"fromRefName": "side", "fromHash": "{side}"})


def transplant(api: Victim) -> httpx.Response:
    hashes = [entry["commitMeta"]["hash"] for entry in reversed(api.log("side")[:2])]
    body = {"fromRefName": "side", "hashesToTransplant": hashes}
    return api.send("POST", "trees/main@{main}/history/transplant", body)


def revert(api: Victim) -> httpx.Response:
    return api.send("POST", "trees/main@{main}/history/revert", {"commitHash": "{main}"})


def revert_keys(api: Victim) -> httpx.Response:
    body = {"keys": [key("n.u")], "sourceRef": "old", "allowDeletes": True}
    return api.send("POST", "trees/main@{main}/history/revert", body)


def assign(api: Victim) -> httpx.Response:
    return api.send("PUT", "trees/old@{old}", {"type": "BRANCH", "name": "side", "hash": "{side}"})


def create(api: Victim) -> httpx.Response:
    return api.send("POST", "trees?name=new&type=TAG", {"type": "BRANCH", "name": "side", "hash": "{side}"})


def remove(api: Victim) -> httpx.Response:
    return api.send("DELETE", "trees/old@{old}")


def set_properties(api: Victim) -> httpx.Response:
    return api.send("PUT", "trees/old@{old}/properties", {"updates": {"a": "b"}})


WRITES: list[Write] = [commit, merge, transplant, revert, revert_keys, assign, create, remove, set_properties]


def state_of(api: Api) -> State:
    """All that can be seen of a store over HTTP."""
    references = api.call("GET", "trees", headers={"Nessie-Ops-Properties": "true"}).json()["references"]
    return {
        "references": references,
        "entries": [api.get(f"trees/{each['name']}/entries", content="true")["entries"] for each in references],
        "log": [api.log(each["name"], fetch="ALL") for each in references],
        "moves": api.get("reference-log")["moves"],
    }


def outline(state: State) -> str:
    """What two runs of one write have in common: hashes, drawn ids and times are gone."""
    return _DRAWN.sub("", json.dumps(state))


def run(api: Victim, write: Write, *, statements: int = 0, commits: int = 0) -> int | None:
    """The status of the answer to `write` by a server whose bomb is armed; None when there was none."""
    api.statements, api.commits = statements, commits
    try:
        return write(api).status_code
    except httpx.TransportError:
        assert api.bomb.left == (0, 0)
        return None


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_kill_leaves_the_old_state_or_the_new_one(
    write: Write, nursery: Nursery, new_store: Callable[[], str]
) -> None:
    url = new_store()
    killed, before, status = 0, None, None
    while status is None:
        with nursery.server(url) as api:
            found = state_of(api)
            before = before or found
            assert found == before, f"killed before statement {killed}"
            status = run(api, write, statements=killed + 1)
            if status is None:
                killed += 1
            else:
                nursery.bomb.arm()
                after = state_of(api)
    assert status == 200 and killed >= 4
    assert outline(after) != outline(before or {})
    with nursery.server(url) as api:
        assert state_of(api) == after, "acknowledged, and then killed"
    assert_sound(url)

    other = new_store()
    with nursery.server(other) as api:
        assert run(api, write, commits=1) is None, "killed between COMMIT and its answer"
    with nursery.server(other) as api:
        assert outline(state_of(api)) == outline(after)
    assert_sound(other)


def test_a_request_with_a_key_is_sent_again_after_any_kill(nursery: Nursery, new_store: Callable[[], str]) -> None:
    """Before each statement, and after COMMIT: the next server carries the request out, or answers as it would have."""

    def kill_and_repeat(**bomb: int) -> str | None:
        """What is there afterwards; None when nobody was killed."""
        url = new_store()
        with nursery.server(url) as victim:
            victim.headers = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
            if run(victim, commit, **bomb) is not None:
                return None
        with nursery.server(url) as api:
            answers = [api.send_again(victim) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
            assert answers[0].content == answers[1].content
            return outline(state_of(api))

    found = [kill_and_repeat(commits=1)]
    while (after := kill_and_repeat(statements=len(found))) is not None:
        found.append(after)
    assert len(found) >= 4 and len(set(found)) == 1


def assert_sound(url: str) -> None:
    with closing(VersionStore.open(url)) as versions:
        assert list(check(versions.store, lambda what, count: None)) == []
        kernel.commit(versions, kernel.put("n.afterwards", kernel.table(1)))
