"""Each anomaly, step by step, at a real server by Nessie's API: at which level it is refused, and what that says.

The names are those of Berenson and others, Adya, and Fekete.  Tables are a and b at first, and n.x in the namespace n.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

import pytest

from nessie_ops.model import Isolation
from tests.server.helpers import Api, delete, key, namespace, put, running_server, table

READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Isolation
LEVELS = list(Isolation)


class Open(NamedTuple):
    id: str
    ref: str


class World:
    """A server, on whose main branch each scenario has tables of its own."""

    def __init__(self, uri: str) -> None:
        self.api = Api(uri)

    def reset(self) -> None:
        """a and b at 1, n.x at 1, nothing else."""
        names = [".".join(row["name"]["elements"]) for row in self.api.get("trees/main/entries")["entries"]]
        if names:
            self.api.commit(*(delete(name) for name in names))
        self.api.commit(put("a"), put("b"), put("n", namespace("n")), put("n.x"))

    def begin(self, level: Isolation) -> Open:
        answer = self.api.post("transactions", {"isolation": level})
        return Open(answer["id"], answer["branch"])

    def read(self, ref: str, *names: str) -> list[int | None]:
        """The values of tables, by one request; None where there is none."""
        path = f"trees/{quote(ref, safe='')}/contents"
        rows = self.api.post(path, {"requestedKeys": [key(name) for name in names]})["contents"]
        found = {".".join(row["key"]["elements"]): row["content"].get("snapshotId", 0) for row in rows}
        return [found.get(name) for name in names]

    def list(self, ref: str, prefix: str) -> list[str]:
        rows = self.api.get(f"trees/{quote(ref, safe='')}/entries", **{"prefix-key": prefix})["entries"]
        return [".".join(row["name"]["elements"]) for row in rows]

    def write(self, ref: str, author: str = "bob", **values: int | None) -> None:
        """Put or delete tables, in one commit."""
        names = {name.replace("_", "."): value for name, value in values.items()}
        path = f"trees/{quote(ref, safe='')}/contents"
        rows = self.api.post(path, {"requestedKeys": [key(name) for name in names]})["contents"]
        ids = {".".join(row["key"]["elements"]): row["content"]["id"] for row in rows}
        operations = [put(name, table(n, ids.get(name))) if n else delete(name) for name, n in names.items()]
        body = {"commitMeta": {"message": "m", "authors": [author]}, "operations": operations}
        self.api.post(f"trees/{quote(ref, safe='')}@{self.api.head(ref)}/history/commit", body)

    def commit(self, one: Open) -> str:
        """What is in the way: nothing, or the keys."""
        answer = self.api.call("POST", f"transactions/{one.id}/commit", json={})
        if answer.status_code == 200:
            return ""
        assert answer.status_code == 409, answer.text
        return ", ".join(".".join(each["key"]["elements"]) for each in answer.json()["errorDetails"]["conflicts"])


@pytest.fixture(scope="module")
def server() -> Iterator[World]:
    with running_server() as uri:
        yield World(uri)


@pytest.fixture
def world(server: World) -> World:
    server.reset()
    return server


@pytest.mark.parametrize("level", LEVELS)
def test_lost_update(world: World, level: Isolation) -> None:
    one, two = world.begin(level), world.begin(level)
    for each, value in ((one, 2), (two, 3)):
        assert world.read(each.ref, "a") == [1]
        world.write(each.ref, a=value)
    assert world.commit(one) == "" and world.commit(two) == "a"
    assert world.read("main", "a") == [2]


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew(world: World, level: Isolation) -> None:
    one, two = world.begin(level), world.begin(level)
    for each in (one, two):
        assert world.read(each.ref, "a", "b") == [1, 1]
    world.write(one.ref, a=2)
    world.write(two.ref, b=2)
    assert world.commit(one) == ""
    assert world.commit(two) == ("a" if level is SERIALIZABLE else "")


@pytest.mark.parametrize("level", LEVELS)
def test_phantom(world: World, level: Isolation) -> None:
    """Each counts the tables of a namespace, and adds one."""
    one, two = world.begin(level), world.begin(level)
    for each in (one, two):
        assert world.list(each.ref, "n") == ["n", "n.x"]
    world.write(one.ref, n_y=1)
    world.write(two.ref, n_z=1)
    assert world.commit(one) == ""
    assert world.list(two.ref, "n") == (["n", "n.x", "n.y", "n.z"] if level is READ_COMMITTED else ["n", "n.x", "n.z"])
    assert world.commit(two) == ("n.y" if level is SERIALIZABLE else "")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("change", [{"new": 1}, {"n_x": None}], ids=["comes", "goes"])
def test_what_comes_and_goes(world: World, level: Isolation, change: dict[str, int | None]) -> None:
    one = world.begin(level)
    [name] = (name.replace("_", ".") for name in change)
    assert world.read(one.ref, name) == [None if name == "new" else 1]
    world.write(one.ref, a=2)
    world.write("main", **change)
    assert world.commit(one) == (name if level is SERIALIZABLE else "")


@pytest.mark.parametrize("level", LEVELS)
def test_the_anomaly_of_a_reader(world: World, level: Isolation) -> None:
    """Fekete's: it writes nothing, and sees what one has done, and not what another did before that in any order."""
    pivot = world.begin(level)
    assert world.read(pivot.ref, "a", "b") == [1, 1]
    world.write("main", b=2)
    reader = world.begin(level)
    assert world.read(reader.ref, "a", "b") == [1, 2]
    world.write(pivot.ref, a=2)
    assert world.commit(pivot) == ("b" if level is SERIALIZABLE else "")
    assert world.commit(reader) == ""


@pytest.mark.parametrize("level", LEVELS)
def test_a_reader_that_is_overtaken(world: World, level: Isolation) -> None:
    reader = world.begin(level)
    assert world.read(reader.ref, "a") == [1]
    world.write("main", a=2)
    assert world.read(reader.ref, "a") == [2 if level is READ_COMMITTED else 1]
    assert world.commit(reader) == ("a" if level is SERIALIZABLE else "")


@pytest.mark.parametrize("level", LEVELS)
def test_torn_reads(world: World, level: Isolation) -> None:
    """By one request both tables are of one commit; by two at Read Committed they need not be."""
    reader = world.begin(level)
    late = level is READ_COMMITTED
    assert world.read(reader.ref, "a") == [1]
    world.write("main", a=2, b=2)
    assert world.read(reader.ref, "b") == [2 if late else 1]
    assert world.read(reader.ref, "a", "b") == ([2, 2] if late else [1, 1])
    world.write(reader.ref, n_x=2)
    assert world.commit(reader) == ("a, b" if level is SERIALIZABLE else "")


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_committed_is_not_seen(world: World, level: Isolation) -> None:
    """Neither what is in the making, nor what was in between, nor what is rolled back."""
    writer, reader = world.begin(level), world.begin(level)
    world.write(writer.ref, a=2, n_y=1)
    assert world.read(reader.ref, "a", "n.y") == world.read("main", "a", "n.y") == [1, None]
    world.write(writer.ref, a=3, n_y=None)
    world.commit(writer)
    assert world.read("main", "a", "n.y") == [3, None]
    gone = world.begin(level)
    world.write(gone.ref, b=9)
    world.api.post(f"transactions/{gone.id}/rollback", {})
    assert world.read("main", "b") == [1] and world.api.log()[0]["commitMeta"]["message"] != "m"


@pytest.mark.parametrize("level", LEVELS)
def test_dirty_writes(world: World, level: Isolation) -> None:
    """Two write both tables, in turns: what is committed is one's or the other's."""
    one, two = world.begin(level), world.begin(level)
    world.write(one.ref, a=11)
    world.write(two.ref, a=22)
    world.write(one.ref, b=11)
    world.write(two.ref, b=22)
    assert world.commit(two) == "" and world.commit(one) == "a, b"
    assert world.read("main", "a", "b") == [22, 22]


@pytest.mark.parametrize("level", LEVELS)
def test_a_namespace_goes_as_a_table_comes(world: World, level: Isolation) -> None:
    one = world.begin(level)
    world.write(one.ref, n_y=1)
    world.api.commit(delete("n.x"), delete("n"))
    assert world.commit(one) == "n"


@pytest.mark.parametrize("level", LEVELS)
def test_a_table_comes_as_its_namespace_goes(world: World, level: Isolation) -> None:
    one = world.begin(level)
    world.api.commit(delete("n.x"), delete("n"), ref=one.ref)
    world.write("main", n_y=1)
    assert world.commit(one) == "n"


@pytest.mark.parametrize("level", LEVELS)
def test_a_refusal_says_who_was_first(world: World, level: Isolation) -> None:
    one = world.begin(level)
    assert world.read(one.ref, "a", "b") == [1, 1]
    world.write(one.ref, a=2, b=2)
    world.write("main", author="ann", a=5)
    first = world.api.head()
    world.write("main", author="bob", b=5)
    world.write("main", author="cat", n_x=5)
    answer = world.api.call("POST", f"transactions/{one.id}/commit", json={})
    error = answer.json()
    changes = error["errorDetails"]["changes"]
    assert [(each["key"], each["author"]) for each in changes] == [("a", "ann"), ("b", "bob")]
    log = {entry["commitMeta"]["hash"]: entry["commitMeta"] for entry in world.api.log()}
    assert changes[0]["commitHash"] == first
    for each in changes:
        meta = log[each["commitHash"]]
        assert (each["time"], each["message"]) == (meta["commitTime"], "m")
        told = f"by {each['author']} in {each['commitHash'][:16]} at {each['time'][:10]} {each['time'][11:19]}Z"
        assert f"key '{each['key']}'" in error["message"] and told in error["message"]
