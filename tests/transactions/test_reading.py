"""Every way of the server to read through a transaction's branch is recorded: none escapes a serializable commit.

Each way is tried by a transaction of its own; then somebody changes what was read, once for all of them, and each
commit must be refused.  Transactions of the same ways that read something else commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import httpx
import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.versioning import VersionStore
from tests.server.helpers import Api, delete, key, namespace, put, running_server, unchanged, view

ICE = "/iceberg/v1/{ref}/namespaces/db"
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
IDENTIFIER = {"namespace": ["db"], "name": "b"}


class Way(NamedTuple):
    """A request; `{ref}` is the branch, `{head}` its head, `{main}` that of main."""

    path: str
    body: Any = None
    method: str = "GET"
    succeeds: bool = True  # a refusal tells as much

    def send(self, http: httpx.Client, branch: str, head: str) -> httpx.Response:
        ref = branch.replace("/", "%2F")
        path = self.path.format(ref=ref, head=head, main="main")
        method = "POST" if self.body is not None and self.method == "GET" else self.method
        return http.request(method, path, json=self.body)


RANGE = {"type": "UNCHANGED_RANGE", "prefix": key("db")}


def commit_of(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"commitMeta": {"message": "m"}, "operations": list(operations)}


VALUE = [
    Way("/api/v2/trees/{ref}/contents/db.b"),
    Way("/api/v2/trees/{ref}@{head}/contents/db.b"),
    Way("/api/v2/trees/{ref}*2099-01-01T00:00:00Z/contents/db.b"),
    Way("/api/v2/trees/{ref}/contents?key=db.b&key=db"),
    Way("/api/v2/trees/{ref}/contents", {"requestedKeys": [key("db.b"), key("db")]}),
    Way("/api/v2/trees/{ref}@{head}/contents", {"requestedKeys": [key("db.b")]}),
    Way("/api/v2/trees/{ref}/entries?content=true"),
    Way("/api/v2/trees/{ref}/entries?content=true&prefix-key=db"),
    Way("/api/v2/trees/{ref}/entries?content=true&min-key=db.b&max-key=db.b"),
    Way("/api/v2/trees/{ref}/entries?content=true&key=db.b"),
    Way("/api/v2/trees/{ref}/entries?content=true&filter=entry.contentType=='ICEBERG_TABLE'"),
    Way("/api/v2/trees/{ref}/diff/main"),
    Way("/api/v2/trees/main/diff/{ref}"),
    Way("/api/v2/trees/main/diff/{ref}?key=db.b"),
    Way("/api/v2/trees/{ref}@{head}/history/commit", commit_of(unchanged("db.b"), put("mine"))),
    Way("/api/v2/trees/{ref}@{head}/history/commit", commit_of(RANGE | {"withContent": True}, put("mine"))),
    Way("/api/v1/trees/branch/{ref}/commit?expectedHash={head}", commit_of(unchanged("db.b"), put("mine"))),
    Way("/api/v1/contents/db.b?ref={ref}"),
    Way("/api/v1/contents/db.b?ref={ref}&hashOnRef={head}"),
    Way("/api/v1/contents?ref={ref}", {"requestedKeys": [key("db.b")]}),
    Way("/api/v1/diffs/main...{ref}"),
    Way("/api/v1/diffs/{ref}*{head}...main"),
    Way(ICE + "/tables/b"),
    Way(ICE + "/tables/b?snapshots=refs"),
    Way(ICE + "/tables/b", None, "HEAD"),
    Way("/iceberg/{ref}/v1/-/namespaces/db/tables/b"),
    Way("/iceberg/v1/main/namespaces/db/tables/b%40{ref}"),
    Way(ICE + "/tables/b/credentials"),
    Way(ICE + "/tables/b", {"requirements": [], "updates": []}),
    Way(
        "/iceberg/v1/{ref}/transactions/commit",
        {"table-changes": [{"identifier": IDENTIFIER, "requirements": [], "updates": []}]},
    ),
    Way(ICE + "/tables", {"name": "b", "schema": SCHEMA}, succeeds=False),
    Way(ICE + "/tables", {"name": "b", "schema": SCHEMA, "stage-create": True}, succeeds=False),
]
ABSENT = [  # db.new is not there
    Way("/api/v2/trees/{ref}@{head}/history/commit", commit_of(RANGE, put("mine"))),
    Way("/api/v2/trees/{ref}/contents/db.new", succeeds=False),
    Way("/api/v2/trees/{ref}/contents", {"requestedKeys": [key("db.new")]}),
    Way("/api/v2/trees/{ref}/entries"),
    Way("/api/v2/trees/{ref}/entries?prefix-key=db"),
    Way("/api/v2/trees/{ref}/entries?min-key=db.c&max-key=db.x"),
    Way("/api/v2/trees/{ref}/entries?key=db.new"),
    Way("/api/v2/trees/{ref}/entries?max-records=1"),
    Way("/api/v2/trees/main/diff/{ref}?prefix-key=db"),
    Way("/api/v1/trees/tree/{ref}/entries"),
    Way("/api/v1/trees/tree/{ref}/entries?namespaceDepth=2"),
    Way("/api/v1/namespaces/{ref}"),
    Way("/api/v1/namespaces/{ref}?name=db"),
    Way("/api/v1/namespaces/namespace/{ref}/db.new", succeeds=False),
    Way("/iceberg/v1/{ref}/namespaces"),
    Way("/iceberg/v1/{ref}/namespaces?parent=db"),
    Way("/iceberg/v1/{ref}/namespaces/db%1Fnew", succeeds=False),
    Way("/iceberg/v1/{ref}/namespaces/db%1Fnew", None, "HEAD", succeeds=False),
    Way(ICE + "/tables"),
    Way(ICE + "/tables?pageSize=1"),
    Way(ICE + "/views"),
    Way(ICE + "/tables/new", succeeds=False),
    Way(ICE + "/tables/new", None, "HEAD", succeeds=False),
    Way(ICE + "/tables/new", None, "DELETE", succeeds=False),
    Way(ICE + "/views/new", succeeds=False),
    Way(ICE + "/views/new", None, "HEAD", succeeds=False),
]


class Server:
    def __init__(self, uri: str) -> None:
        self.api, self.http = Api(uri), httpx.Client(base_url=uri, timeout=60)

    def begin(self) -> dict[str, Any]:
        return dict(self.api.post("transactions", {}))

    def try_commit(self, begun: dict[str, Any]) -> httpx.Response:
        return self.api.call("POST", f"transactions/{begun['id']}/commit", json={})

    def escapes(self, ways: list[Way], change: Any) -> tuple[list[str], set[str]]:
        """The ways that are not seen to have read what `change` changes, and the keys in conflict."""
        begun = {f"{way.method} {way.path} {way.body}": (way, self.begin()) for way in ways}
        for name, (way, one) in begun.items():
            answer = way.send(self.http, one["branch"], self.api.head(one["branch"]))
            assert answer.status_code in (200, 204, 404, 409), f"{name}: {answer.text}"
            assert answer.is_success == way.succeeds, f"{name}: {answer.status_code}"
        change()
        found = {name: self.try_commit(one) for name, (_, one) in begun.items()}
        conflicts = [
            answer.json()["errorDetails"]["conflicts"] for answer in found.values() if answer.status_code == 409
        ]
        keys = {".".join(one["key"]["elements"]) for some in conflicts for one in some}
        return [name for name, answer in found.items() if answer.status_code != 409], keys


Places = tuple[str, str]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Places:
    """Store and warehouse."""
    folder = tmp_path_factory.mktemp("reading")
    return f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"


@pytest.fixture(scope="module")
def server(places: Places) -> Iterator[Server]:
    """Namespaces db and calm, with Iceberg tables b and y."""
    with running_server(*places) as uri:
        made = Server(uri)
        for name, table in (("db", "b"), ("calm", "y")):
            made.http.post("/iceberg/v1/main/namespaces", json={"namespace": [name]}).raise_for_status()
            made.http.post(f"/iceberg/v1/main/namespaces/{name}/tables", json={"name": table, "schema": SCHEMA})
        yield made


def touch(server: Server, place: str) -> None:
    """Change a table."""
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"p": place}}]}
    server.http.post(f"/iceberg/v1/main/namespaces/{place}", json=change).raise_for_status()


def test_no_way_to_read_a_table_escapes(server: Server) -> None:
    assert server.escapes(VALUE, lambda: touch(server, "db/tables/b")) == ([], {"db.b"})


def test_no_way_to_miss_one_escapes(server: Server) -> None:
    """The ways that look for a namespace or a view learn as well that there is none."""
    assert server.escapes(ABSENT, lambda: server.api.commit(put("db.new", namespace("db", "new")))) == ([], {"db.new"})
    server.api.commit(delete("db.new"))


def test_others_may_change_what_was_not_read(server: Server) -> None:
    ways = [
        way
        for way in VALUE
        if "b" in way.path and "diff" not in way.path and "entries?content=true&filter" not in way.path
    ]
    ways = [way for way in ways if way.path != "/api/v2/trees/{ref}/entries?content=true"]
    escaped, _ = server.escapes(ways, lambda: touch(server, "calm/tables/y"))
    assert len(escaped) == len(ways)


def test_a_listing_tells_of_which_content_a_table_is(server: Server) -> None:
    """What is dropped and created again, as a view or with another id, is not what was listed."""
    ways = [Way("/api/v2/trees/{ref}/entries"), Way(ICE + "/tables"), Way(ICE + "/views")]
    server.api.add_table("db.t")
    again = lambda: server.api.commit(delete("db.t"), put("db.t", view(1)))  # noqa: E731
    assert server.escapes(ways, again) == ([], {"db.t"})
    assert server.escapes(ways, lambda: server.api.commit(delete("db.t"), put("db.t", view(2)))) == ([], {"db.t"})
    id = server.api.content("db.t")["id"]
    assert len(server.escapes(ways, lambda: server.api.commit(put("db.t", view(3, id))))[0]) == len(ways)


def test_a_comparison_of_two_transactions_reads_both(server: Server) -> None:
    one, two = server.begin(), server.begin()
    server.api.commit(put("calm.two"), ref=two["branch"])
    branches = [each["branch"].replace("/", "%2F") for each in (one, two)]
    server.api.get(f"trees/{branches[0]}/diff/{branches[1]}")
    touch(server, "db/tables/b")
    assert [server.try_commit(each).status_code for each in (one, two)] == [409, 409]


def test_what_others_read_is_not_the_transactions(places: Places, server: Server) -> None:
    """A thread that has read for a transaction goes on to read the same commit of main, of which nothing is cached."""
    with running_server(*places) as uri:
        fresh = Server(uri)
        begun = fresh.begin()
        fresh.api.content("calm.y", begun["branch"])
        fresh.api.content("db.b")
        touch(server, "db/tables/b")
        assert fresh.try_commit(begun).status_code == 200


def test_what_a_keyed_request_reads_is_not_its_answer(server: Server) -> None:
    """The database transaction that records a read, or moves the branch, has nothing to say of what was asked for."""
    strict, loose = server.begin(), server.api.post("transactions", {"isolation": "READ_COMMITTED"})
    keyed = [{"Idempotency-Key": f"017f22e2-79b0-7cc3-98c4-dc0c0c07398{n}"} for n in range(2)]
    touch(server, "calm/tables/y")
    missing, table = (ICE.format(ref=each["branch"].replace("/", "%2F")) for each in (strict, loose))
    for _ in range(2):
        assert server.http.delete(f"{missing}/tables/none", headers=keyed[0]).status_code == 404
        change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"p": "q"}}]}
        answer = server.http.post(f"{table}/tables/b", json=change, headers=keyed[1])
        assert answer.status_code == 200 and answer.json()["metadata"]["properties"]["p"] == "q"
    assert server.try_commit(loose).status_code == 200


def test_a_process_that_would_not_record_is_refused(places: Places, server: Server) -> None:
    branch = server.begin()["branch"]
    with closing(VersionStore.open(places[0])) as versions:
        for read in (versions.resolve, versions.get_reference):
            with pytest.raises(BadRequest, match="use a server"):
                read(branch)
