"""The REST API v1: its own paths and shapes over the same repository."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.server.helpers import UNKNOWN, Api, Z, conflict_types, delete, key, namespace, put, table


class V1(Api):
    """The same short ways, by the paths of v1."""

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, f"/api/v1/{path}", **options)

    def head(self, ref: str = "main") -> str:
        return str(self.get(f"trees/tree/{quote(ref, safe='')}")["hash"])

    def branch(self, name: str, at: str | None = None, kind: str = "BRANCH") -> str:
        body = {"type": kind, "name": name, "hash": at or self.head()}
        return str(self.post("trees/tree", body, params={"sourceRefName": "main"})["hash"])

    def try_commit(
        self, *operations: dict[str, Any], ref: str = "main", at: str | None = None, status: int = 409, **meta: Any
    ) -> Any:
        body = {"commitMeta": {"message": "m", **meta}, "operations": list(operations)}
        params = {"expectedHash": at or self.head(ref)}
        return self.post(f"trees/branch/{quote(ref, safe='')}/commit", body, status, params=params)

    def apply(self, verb: str, body: dict[str, Any], status: int = 200, ref: str = "main", **params: str) -> Any:
        """Merge or transplant."""
        params.setdefault("expectedHash", self.head(ref))
        return self.post(f"trees/branch/{ref}/{verb}", body, status, params=params)

    def move(self, method: str, path: str, status: int = 204, body: Any = None, **params: str) -> httpx.Response:
        answer = self.call(method, path, params=params, json=body)
        assert answer.status_code == status, answer.text
        assert (answer.content == b"") == (status == 204)
        return answer


@pytest.fixture
def v1(base_uri: str) -> V1:
    return V1(base_uri)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [".".join(row["name"]["elements"]) for row in rows]


def test_config_is_that_of_version_1(v1: V1) -> None:
    assert v1.get("config") == {"defaultBranch": "main", "maxSupportedApiVersion": 2}


def test_references(v1: V1, api: Api) -> None:
    assert v1.get("trees/tree") == {"type": "BRANCH", "name": "main", "hash": Z}
    v1.commit(put("t"))
    head = v1.head()
    assert head == api.head()
    v1.branch("feature/x")
    v1.branch("v1", kind="TAG")
    assert v1.get("trees/tree/feature%2Fx") == {"type": "BRANCH", "name": "feature/x", "hash": head}
    listed = v1.get("trees", maxRecords=2)
    assert [row["name"] for row in listed["references"]] == ["feature/x", "main"]
    assert [row["name"] for row in v1.get("trees", pageToken=listed["token"])["references"]] == ["v1"]
    assert [row["name"] for row in v1.get("trees", filter="refType == 'TAG'")["references"]] == ["v1"]
    assert v1.get("trees/tree/nope", 404)["errorCode"] == "REFERENCE_NOT_FOUND"
    assert v1.get("trees/tree/main@", 400)["errorCode"] == "BAD_REQUEST"


def test_metadata_has_the_shape_of_version_1(v1: V1) -> None:
    v1.try_commit(put("t"), status=200, author="ann")
    v1.branch("x")
    v1.commit(put("u"), ref="x")
    metadata = v1.get("trees/tree/x", fetch="ALL")["metadata"]
    assert (metadata["numCommitsAhead"], metadata["numTotalCommits"]) == (1, 2)
    assert "authors" not in metadata["commitMetaOfHEAD"]
    rows = v1.get("trees", fetch="ALL")["references"]
    assert [row["metadata"]["commitMetaOfHEAD"]["author"] for row in rows] == ["ann", ""]


def test_references_are_created_with_a_hash_only(v1: V1) -> None:
    assert "Target hash" in v1.post("trees/tree", {"type": "BRANCH", "name": "x"}, 400)["message"]
    assert "name" in v1.post("trees/tree", {"type": "BRANCH", "hash": Z}, 400)["message"]
    assert "type" in v1.post("trees/tree", {"name": "x", "hash": Z}, 400)["message"]
    assert v1.post("trees/tree", {"type": "TAG", "name": "main", "hash": Z}, 409)["errorCode"].endswith("EXISTS")
    missing = v1.post("trees/tree", {"type": "TAG", "name": "x", "hash": Z}, 404, params={"sourceRefName": "no"})
    assert missing["errorCode"] == "REFERENCE_NOT_FOUND"


def test_assign_and_delete_answer_nothing(v1: V1) -> None:
    old = v1.branch("x")
    v1.branch("tag", kind="TAG")
    v1.commit(put("t"))
    target = {"type": "BRANCH", "name": "main", "hash": v1.head()}
    v1.move("PUT", "trees/branch/x", body=target, expectedHash=old)
    assert v1.head("x") == v1.head()
    stale = v1.move("PUT", "trees/branch/x", 409, target, expectedHash=old)
    assert conflict_types(stale.json()) == {"UNEXPECTED_HASH"}
    v1.move("PUT", "trees/tag/tag", body=target, expectedHash=old)
    assert "type" in v1.move("PUT", "trees/tag/x", 400, target, expectedHash=v1.head()).json()["message"]
    assert "Expected hash" in v1.move("DELETE", "trees/branch/x", 400).json()["message"]
    v1.move("DELETE", "trees/branch/tag", 400, expectedHash=v1.head())
    v1.move("DELETE", "trees/tag/tag", expectedHash=v1.head())
    v1.move("DELETE", "trees/branch/x", expectedHash=v1.head())
    v1.move("DELETE", "trees/branch/main", 400, expectedHash=v1.head())
    assert v1.call("PUT", "trees/nope/x").status_code == 404


def test_commits_and_log(v1: V1) -> None:
    with_expected = put("t") | {"expectedContent": None, "metadata": {}}
    answer = v1.commit(with_expected)
    assert answer == {"type": "BRANCH", "name": "main", "hash": v1.head()}
    first = v1.head()
    v1.try_commit(put("u"), status=200, author="ann", signedOffBy="bob", properties={"k": "v"})
    plural = {"authors": ["a", "b"], "author": "c", "allProperties": {"k": ["1", "2"]}}
    v1.try_commit(put("v"), status=200, **plural)
    rows = v1.get("trees/tree/main/log", fetch="ALL")["logEntries"]
    assert set(rows[0]["commitMeta"]) == {
        *("hash", "committer", "author", "signedOffBy", "message", "commitTime", "authorTime", "properties")
    }
    shown = [(row["commitMeta"]["author"], row["commitMeta"]["signedOffBy"]) for row in rows]
    assert shown == [("a", None), ("ann", "bob"), ("", None)]
    assert [row["commitMeta"]["properties"] for row in rows] == [{"k": "1"}, {"k": "v"}, {}]
    logged = {"type": "PUT", "key": key("u"), "content": rows[1]["operations"][0]["content"]}
    assert rows[1]["operations"][0] == logged | {"expectedContent": None}
    assert "unknown" in v1.try_commit(put("w"), status=400, nope=1)["message"]
    assert v1.try_commit(put("t"), at=first, status=400)["errorCode"] == "BAD_REQUEST"
    assert conflict_types(v1.try_commit(put("u"), at=first)) == {"KEY_EXISTS"}
    assert v1.post("trees/branch/main/commit", {"operations": []}, 400)["message"].startswith("Expected hash")


def test_log_goes_from_end_hash_back_to_start_hash(v1: V1) -> None:
    hashes = [v1.commit(put(f"t{n}"))["hash"] for n in range(5)]

    def log(**params: Any) -> list[str]:
        page = v1.get("trees/tree/main/log", **params)
        assert all(row["operations"] is None for row in page["logEntries"])
        return [row["commitMeta"]["hash"] for row in page["logEntries"]]

    assert log(startHash=hashes[1], endHash=hashes[3]) == hashes[3:0:-1]
    assert log(endHash=hashes[1]) == [hashes[1], hashes[0]]
    assert log(endHash="~3") == [hashes[1], hashes[0]]
    assert log(startHash="~1") == [hashes[4], hashes[3]]
    assert log(filter=f"commit.hash != '{hashes[3]}'", startHash=hashes[3]) == [hashes[4]]
    page = v1.get("trees/tree/main/log", maxRecords=3)
    assert log(pageToken=page["token"]) == [hashes[1], hashes[0]]
    detached = v1.get("trees/tree/DETACHED/log", hashOnRef=hashes[1])
    assert len(detached["logEntries"]) == 2
    assert v1.get("trees/tree/DETACHED/log", 400)["errorCode"] == "BAD_REQUEST"


def test_entries(v1: V1) -> None:
    v1.commit(put("a", namespace("a")), put("a.b", namespace("a", "b")), put("a.b.t"), put("a.b.u"), put("a.t"))
    first = v1.head()
    v1.commit(put("t"))
    entries = "trees/tree/main/entries"
    assert v1.get(entries)["entries"][2] == {"type": "ICEBERG_TABLE", "name": {"elements": ["a", "b", "t"]}}
    page = v1.get(entries, maxRecords=4)
    assert set(page) == {"entries", "hasMore", "token"}
    assert names(v1.get(entries, pageToken=page["token"])["entries"]) == ["a.t", "t"]
    assert names(v1.get(entries, hashOnRef=first)["entries"]) == ["a", "a.b", "a.b.t", "a.b.u", "a.t"]
    deep = v1.get(entries, namespaceDepth=2)["entries"]
    assert [(row["type"], *row["name"]["elements"]) for row in deep] == [
        ("NAMESPACE", "a", "b"),
        ("ICEBERG_TABLE", "a", "t"),
    ]
    tables = "entry.contentType == 'ICEBERG_TABLE'"
    top = v1.get(entries, namespaceDepth=1, filter=tables)["entries"]
    assert [(row["type"], *row["name"]["elements"]) for row in top] == [("NAMESPACE", "a"), ("ICEBERG_TABLE", "t")]


def test_contents(v1: V1) -> None:
    v1.commit(put("a", namespace("a")), put("a.t", table(7)))
    content = v1.get("contents/a.t")
    assert content == table(7, content["id"])
    assert v1.get("contents/a.t", ref="main", hashOnRef=v1.head()) == content
    v1.commit(delete("a.t"))
    missing = v1.get("contents/a.t", 404)
    assert missing["errorCode"] == "CONTENT_NOT_FOUND"
    assert missing["errorDetails"] == {"type": "CONTENT_KEY", "contentKey": key("a.t")}
    assert v1.get("contents/a.t", hashOnRef="~1") == content
    asked = {"requestedKeys": [key("a.t"), key("nope")]}
    found = v1.post("contents", asked, params={"ref": "main", "hashOnRef": "~1"})
    assert found == {"contents": [{"key": key("a.t"), "content": content}]}
    assert v1.get("contents/a..b", 404) is None


def test_diffs(v1: V1) -> None:
    v1.commit(put("t"))
    old = v1.head()
    v1.branch("x.1")
    v1.commit(put("u"), delete("t"), ref="x.1")
    rows = v1.get("diffs/main...x.1")["diffs"]
    assert [(row["key"]["elements"], row["from"] is None, row["to"] is None) for row in rows] == [
        (["t"], False, True),
        (["u"], True, False),
    ]
    assert v1.get(f"diffs/x.1*{old}...main*{old}") == {"diffs": [], "hasMore": False, "token": None}
    assert len(v1.get(f"diffs/main*{old}...DETACHED*{v1.head('x.1')}")["diffs"]) == 2
    assert v1.get(f"diffs/main...main*{UNKNOWN}", 404)["errorCode"] == "REFERENCE_NOT_FOUND"
    assert "from...to" in v1.get("diffs/main", 400)["message"]


def test_namespaces(v1: V1) -> None:
    path = "namespaces/namespace/main"
    made = v1.call("PUT", f"{path}/a", json=namespace("ignored", k="v")).json()
    assert made == {"type": "NAMESPACE", "id": made["id"], "elements": ["a"], "properties": {"k": "v"}}
    assert v1.move("PUT", f"{path}/a.b", 200).json()["elements"] == ["a", "b"]
    assert v1.move("PUT", f"{path}/a.b", 409).json()["errorCode"] == "NAMESPACE_ALREADY_EXISTS"
    assert v1.move("PUT", f"{path}/x.y", 404).json()["errorCode"] == "REFERENCE_NOT_FOUND"
    assert v1.get(f"{path}/a") == made
    v1.commit(put("t"))
    taken = v1.move("PUT", f"{path}/t", 409).json()
    assert taken["message"] == "Another content object with name 't' already exists"
    assert v1.get(f"{path}/t", 404)["errorCode"] == "NAMESPACE_NOT_FOUND"
    assert [row["elements"] for row in v1.get("namespaces/main")["namespaces"]] == [["a"], ["a", "b"]]
    assert [row["elements"] for row in v1.get("namespaces/main", name="a.b")["namespaces"]] == [["a", "b"]]

    v1.move("POST", f"{path}/a", body={"propertyUpdates": {"x": "y"}, "propertyRemovals": ["k", "x", "never"]})
    assert v1.get(f"{path}/a") == made | {"properties": {"x": "y"}}
    assert v1.get(f"{path}/a", hashOnRef="~1") == made
    assert v1.move("POST", f"{path}/nope", 404, {}).json()["errorCode"] == "NAMESPACE_NOT_FOUND"

    full = v1.move("DELETE", f"{path}/a", 409).json()
    assert full["errorCode"] == "NAMESPACE_NOT_EMPTY"
    assert full["errorDetails"]["contentKey"] == key("a")
    v1.move("DELETE", f"{path}/a.b")
    v1.move("DELETE", f"{path}/a")
    assert v1.move("DELETE", f"{path}/a", 404).json()["errorCode"] == "NAMESPACE_NOT_FOUND"
    assert v1.get("namespaces/main")["namespaces"] == []
    messages = [row["commitMeta"]["message"] for row in v1.get("trees/tree/main/log")["logEntries"]]
    assert messages[:3] == ["delete namespace 'a'", "delete namespace 'a.b'", "update properties for namespace 'a'"]


def test_namespaces_live_on_branches(v1: V1) -> None:
    v1.move("PUT", "namespaces/namespace/main/a", 200)
    v1.branch("tag", kind="TAG")
    v1.move("DELETE", "namespaces/namespace/main/a")
    assert v1.get("namespaces/tag")["namespaces"][0]["elements"] == ["a"]
    v1.move("PUT", "namespaces/namespace/tag/b", 400)
    v1.move("PUT", "namespaces/namespace/nope/b", 404)
    v1.move("PUT", "namespaces/namespace/DETACHED/b", 400, hashOnRef=v1.head())
    stale = v1.move("DELETE", "namespaces/namespace/main/a", 404, hashOnRef="~1").json()
    assert stale["errorCode"] == "NAMESPACE_NOT_FOUND"


def test_merges(v1: V1) -> None:
    v1.commit(put("t"))
    base = v1.branch("x")
    v1.commit(put("u"), ref="x")
    source = {"fromRefName": "x", "fromHash": v1.head("x")}
    dry = v1.apply("merge", source | {"isDryRun": True})
    assert (dry["wasApplied"], v1.head()) == (False, base)
    answer = v1.apply("merge", source, expectedHash=base)
    assert answer["resultantTargetHash"] == v1.head()
    assert (answer["sourceCommits"], answer["targetCommits"]) == ([], None)
    row = {"key": key("u"), "mergeBehavior": "NORMAL", "conflictType": "NONE", "sourceCommits": [], "targetCommits": []}
    assert answer["details"] == [row]
    assert "keepIndividualCommits" in v1.apply("merge", source | {"keepIndividualCommits": True}, 400)["message"]
    assert v1.apply("merge", {"fromRefName": "x"}, 400)["message"].startswith("Source hash")
    missing = v1.post("trees/branch/main/merge", source, 400)
    assert missing["message"].startswith("Expected hash")

    v1.commit(put("c"), ref="x")
    v1.commit(put("c", table(2)))
    conflicting = {"fromRefName": "x", "fromHash": v1.head("x")}
    assert conflict_types(v1.apply("merge", conflicting, 409)) == {"KEY_EXISTS"}
    told = v1.apply("merge", conflicting | {"isReturnConflictAsResult": True})
    assert [row["conflictType"] for row in told["details"] if row["key"] == key("c")] == ["UNRESOLVABLE"]


def test_transplants(v1: V1) -> None:
    v1.commit(put("t"))
    v1.branch("x")
    hashes = [v1.commit(put(name), ref="x")["hash"] for name in "ab"]
    source = {"fromRefName": "x", "hashesToTransplant": hashes, "keepIndividualCommits": True}
    assert "keepIndividual" in v1.apply("transplant", source | {"keepIndividualCommits": False}, 400)["message"]
    answer = v1.apply("transplant", source)
    assert answer["resultantTargetHash"] == v1.head()
    assert names(v1.get("trees/tree/main/entries")["entries"]) == ["a", "b", "t"]
    one = {"fromRefName": "x", "hashesToTransplant": [v1.commit(put("c"), ref="x")["hash"]]}
    v1.apply("transplant", one, message="picked")
    assert [row["commitMeta"]["message"] for row in v1.get("trees/tree/main/log")["logEntries"]][:3] == [
        *("picked", "m", "m")
    ]
