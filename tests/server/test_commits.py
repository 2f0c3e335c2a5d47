"""Commits and their log over HTTP: rules of content ids, conflicts by value, meta, paging."""

from __future__ import annotations

from typing import Any

import pytest

from nessie_ops.server import listings
from tests.server.helpers import (
    UNKNOWN,
    Api,
    Z,
    conflict_types,
    delete,
    key,
    namespace,
    put,
    table,
    unchanged,
    view,
)

FOREIGN = "7a3d4a9e-5b0f-4a3c-9d6e-3f1f0d6a2b11"


def test_only_new_contents_are_listed_with_their_ids(api: Api) -> None:
    answer = api.commit(put("t"), put("u"))
    assert [row["key"] for row in answer["addedContents"]] == [key("t"), key("u")]
    assert answer["targetBranch"] == {"type": "BRANCH", "name": "main", "hash": api.head()}
    id = api.content("t")["id"]
    assert api.commit(put("t", table(2, id)))["addedContents"] is None
    assert api.commit(delete("t"), put("renamed", table(2, id)))["addedContents"] is None
    assert api.content("renamed")["id"] == id


def test_content_ids_are_rules_not_conflicts(api: Api) -> None:
    id = api.add_table("t")
    for content in (table(2), table(2, FOREIGN)):
        assert api.try_commit(put("t", content), status=400)["errorCode"] == "BAD_REQUEST"
    assert api.try_commit(put("new", table(1, FOREIGN)), status=400)["message"] == (
        "New value for key 'new' must not have a content ID"
    )
    assert "Invalid UUID string" in api.try_commit(put("new", table(1, "x")), status=400)["message"]
    assert api.content("t")["id"] == id


def test_only_keys_that_changed_in_value_conflict(api: Api) -> None:
    before = api.head()
    api.add_table("a")
    api.commit(put("b"), at=before)
    assert api.log()[0]["parentCommitHash"] != before, "the parent is the head, not the expected commit"
    id, stale = api.content("a")["id"], api.head()
    api.commit(put("a", table(2, id)))
    api.commit(put("a", table(1, id)))
    api.commit(put("a", table(3, id)), at=stale)
    error = api.try_commit(put("a", table(4, id)), at=stale)
    assert conflict_types(error) == {"VALUE_DIFFERS"}


def test_all_conflicts_come_at_once(api: Api) -> None:
    ids = {name: api.add_table(name) for name in ("a", "b", "c")}
    stale = api.head()
    api.commit(put("a", table(9, ids["a"])), delete("b"), put("d"))
    error = api.try_commit(put("a", table(2, ids["a"])), put("b", table(2, ids["b"])), put("d"), at=stale)
    assert conflict_types(error) == {"VALUE_DIFFERS", "KEY_DOES_NOT_EXIST", "KEY_EXISTS"}
    assert error["message"].startswith("There are multiple conflicts")
    assert {tuple(c["key"]["elements"]) for c in error["errorDetails"]["conflicts"]} == {("a",), ("b",), ("d",)}
    assert len(api.log()) == 4, "nothing was written"


def test_details_go_only_to_clients_that_can_read_them(api: Api) -> None:
    api.add_table("t")
    for spec, shown in (("1", False), ("", False), ("x", False), ("2", True), ("2.1", True), ("3", True)):
        error = api.try_commit(put("t"), at=Z, headers={"Nessie-Client-Spec": spec})
        assert ("errorDetails" in error) is shown, spec
    assert error["serverStackTrace"] is None and error["reason"] == "Conflict"


def test_drop_and_create_is_delete_then_put_without_id(api: Api) -> None:
    id = api.add_table("t")
    assert "Duplicate key" in api.try_commit(put("t"), delete("t"), status=400)["message"]
    assert "Duplicate key" in api.try_commit(delete("t"), put("t", table(2, id)), status=400)["message"]
    for pair in ((delete("t"), delete("t")), (put("t", table(2, id)), unchanged("t"))):
        assert "Duplicate key" in api.try_commit(*pair, status=400)["message"]
    answer = api.commit(delete("t"), put("t", table(2)))
    assert answer["addedContents"][0]["contentId"] != id
    assert [row["type"] for row in api.log(fetch="ALL")[0]["operations"]] == ["PUT"]


def test_a_type_changes_only_by_drop_and_create(api: Api) -> None:
    id, head = api.add_table("t"), api.head()
    assert api.try_commit(put("t", view(1, id)), status=400)["errorCode"] == "BAD_REQUEST"
    assert api.head() == head, "a refused commit moves nothing"
    api.commit(delete("t"), put("t", view()))
    assert api.content("t")["type"] == "ICEBERG_VIEW" and api.content("t")["id"] != id
    assert conflict_types(api.try_commit(put("t", table(2, id)), at=head)) == {"PAYLOAD_DIFFERS"}


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("main", "Expected hash must be provided."),
        ("main@", "Expected hash must be provided."),
        ("main~1", "Expected hash must contain a starting commit ID."),
        ("-~1", "Expected hash must contain a starting commit ID."),
        ("main*2021-01-01T00:00:00Z", "Expected hash must contain a starting commit ID."),
        (f"@{Z}", "Reference to commit into must be a branch."),
        (f"t@{Z}", "Reference to commit into must be a branch."),
    ],
)
def test_the_path_of_a_write_is_a_branch_at_a_hash(api: Api, ref: str, message: str) -> None:
    api.branch("t", kind="TAG")
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    assert api.post(f"trees/{ref}/history/commit", body, 400)["message"] == message


def test_relative_parts_may_follow_an_absolute_hash(api: Api) -> None:
    api.add_table("a")
    api.commit(put("b"), at=f"{api.head()}~1")
    error = api.try_commit(put("c"), at=UNKNOWN, status=404)
    assert error["errorCode"] == "REFERENCE_NOT_FOUND"
    api.branch("x", Z)
    api.add_table("elsewhere", "x")
    error = api.try_commit(put("c"), at=api.head("x"), status=404)
    assert error["message"] == f"Could not find commit '{api.head('x')}' in reference 'main'."
    api.commit(put("c"), at=Z)


def test_unchanged_asks_for_the_value_at_the_expected_commit(api: Api) -> None:
    id = api.add_table("t")
    stale = api.head()
    api.commit(unchanged("nope"))
    assert api.log(fetch="ALL")[0]["operations"] == [], "an empty commit"
    assert conflict_types(api.try_commit(unchanged("nope"), at=stale)) == {"KEY_DOES_NOT_EXIST"}
    api.commit(put("t", table(2, id)))
    assert conflict_types(api.try_commit(unchanged("t"), put("u"), at=stale)) == {"VALUE_DIFFERS"}
    assert conflict_types(api.try_commit(delete("nope"))) == {"KEY_DOES_NOT_EXIST"}
    assert conflict_types(api.try_commit(delete("t"), at=Z)) == {"PAYLOAD_DIFFERS"}


def test_namespaces_must_exist_and_be_empty_to_go(api: Api) -> None:
    error = api.try_commit(put("a.b.t"))
    assert [c["key"] for c in error["errorDetails"]["conflicts"]] == [key("a.b"), key("a")]
    assert conflict_types(error) == {"NAMESPACE_ABSENT"}
    api.commit(put("n", namespace("n", owner="me")), put("t"))
    stale = api.head()
    assert api.content("n")["properties"] == {"owner": "me"}
    assert conflict_types(api.try_commit(put("t.x"))) == {"NOT_A_NAMESPACE"}
    api.commit(put("n.t"))
    assert conflict_types(api.try_commit(delete("n"))) == {"NAMESPACE_NOT_EMPTY"}
    api.commit(delete("n"), delete("n.t"))
    assert conflict_types(api.try_commit(put("n.u"), at=stale)) == {"NAMESPACE_ABSENT"}, "the head is checked"


def test_meta_takes_both_spellings_and_the_plural_wins(api: Api) -> None:
    meta: dict[str, Any] = {"message": "m", "author": "a", "signedOffBy": "s", "properties": {"k": "v", "l": "w"}}
    api.try_commit(put("t"), status=200)
    path = "trees/main@{}/history/commit"
    api.post(path.format(api.head()), {"commitMeta": meta, "operations": [put("a")]})
    found = api.log()[0]["commitMeta"]
    assert (found["authors"], found["allSignedOffBy"]) == (["a"], ["s"])
    assert found["allProperties"] == {"k": ["v"], "l": ["w"]}
    meta |= {"authors": ["b", "c"], "allSignedOffBy": ["d"], "allProperties": {"k": ["x", "y"], "l": []}}
    meta |= {"authorTime": "2021-04-07T14:42:25.123456789Z", "hash": None, "committer": None, "parentCommitHashes": []}
    api.post(path.format(api.head()), {"commitMeta": meta, "operations": [put("b")], "whatever": 1})
    found = api.log()[0]["commitMeta"]
    assert (found["authors"], found["allSignedOffBy"]) == (["b", "c"], ["d"])
    assert found["allProperties"] == {"k": ["x", "y"]}
    assert found["authorTime"].startswith("2021-04-07T14:42:25.12345")
    assert found["committer"] == "" and found["commitTime"] > "2022"


def test_meta_in_headers(api: Api) -> None:
    headers = [
        ("Nessie-Commit-Message", "from header"),
        ("Nessie-Commit-Authors", "b, c"),
        ("Nessie-Commit-SignedOffBy", "d"),
        ("Nessie-Commit-Property-Run-Id", "7"),
    ]
    body = {"commitMeta": {"message": "m", "authors": ["a"], "properties": {"run-id": "6"}}, "operations": [put("t")]}
    api.post(f"trees/main@{Z}/history/commit", body, headers=headers)
    found = api.log()[0]["commitMeta"]
    assert found["message"] == "from header" and found["authors"] == ["a", "b", "c"]
    assert found["allSignedOffBy"] == ["d"] and found["allProperties"] == {"run-id": ["7"]}
    api.post(f"trees/main@{api.head()}/history/commit", {"operations": [put("u")]}, headers=headers)
    blank = {"Nessie-Commit-Message": ""}
    api.post(f"trees/main@{api.head()}/history/commit", body | {"operations": [put("v")]}, headers=blank)
    assert api.log()[0]["commitMeta"]["message"] == "m"


@pytest.mark.parametrize(
    ("meta", "field"),
    [
        ({"message": "m", "unknown": 1}, "unknown"),
        ({"message": "m", "committer": "me"}, "committer"),
        ({"message": "m", "commitTime": "2021-04-07T14:42:25Z"}, "commitTime"),
        ({"message": "m", "hash": Z}, "hash"),
        ({"message": "m", "parentCommitHashes": [Z]}, "parentCommitHashes"),
        ({}, "message"),
        ({"message": 1}, "message"),
        ({"message": "m", "authors": "a"}, "authors"),
        ({"message": "m", "authorTime": "yesterday"}, "authorTime"),
        ({"message": "m", "authorTime": "2021-04-07T14:42:25"}, "authorTime"),
        ({"message": "m", "properties": {"k": None}}, "properties"),
    ],
)
def test_wrong_meta_is_named(api: Api, meta: dict[str, Any], field: str) -> None:
    error = api.post(f"trees/main@{Z}/history/commit", {"commitMeta": meta, "operations": [put("t")]}, 400)
    assert error["errorCode"] == "BAD_REQUEST" and field in error["message"]


def test_an_empty_message_is_a_message(api: Api) -> None:
    api.post(f"trees/main@{Z}/history/commit", {"commitMeta": {"message": ""}, "operations": [put("t")]})
    assert api.log()[0]["commitMeta"]["message"] == ""
    assert api.log()[0]["commitMeta"]["authors"] == [""]


def test_log_operations_are_deletes_then_puts_by_key(api: Api) -> None:
    ids = {name: api.add_table(name) for name in "abcd"}
    api.commit(put("d", table(2, ids["d"])), delete("c"), put("a", table(2, ids["a"])), delete("b"), unchanged("a.x"))
    operations = api.log(fetch="ALL")[0]["operations"]
    assert [(row["type"], row["key"]["elements"]) for row in operations] == [
        ("DELETE", ["b"]),
        ("DELETE", ["c"]),
        ("PUT", ["a"]),
        ("PUT", ["d"]),
    ]
    assert operations[2]["content"] == table(2, ids["a"]) and operations[2]["documentation"] is None
    assert api.log()[0]["operations"] is None


def test_the_limit_hash_is_the_last_one_shown(api: Api) -> None:
    heads = [Z]
    for n in range(5):
        api.add_table(f"t{n}")
        heads.append(api.head())

    def shown(**params: Any) -> list[str]:
        return [row["commitMeta"]["hash"] for row in api.log(**params)]

    assert shown() == heads[:0:-1]
    assert shown(**{"limit-hash": heads[5]}) == [heads[5]]
    assert shown(**{"limit-hash": heads[3]}) == heads[5:2:-1]
    assert shown(**{"limit-hash": f"{heads[5]}~2"}) == heads[5:2:-1]
    assert shown(**{"limit-hash": UNKNOWN}) == heads[:0:-1]
    assert api.get("trees/main/history", 400, **{"limit-hash": "x"})["message"].startswith("limit-hash")


def test_log_pages_start_where_the_last_one_ended_whatever_moves(api: Api) -> None:
    for n in range(5):
        api.add_table(f"t{n}")
    whole = api.log()
    page = api.get("trees/main/history", **{"max-records": 2})
    api.add_table("later")
    found = page["logEntries"]
    while page["hasMore"]:
        page = api.get("trees/main/history", **{"max-records": 2, "page-token": page["token"]})
        found += page["logEntries"]
    assert found == whole and page["token"] is None


def test_a_log_page_is_never_longer_than_250(api: Api) -> None:
    head = Z
    for n in range(252):
        body = {"commitMeta": {"message": str(n)}, "operations": [unchanged("x")]}
        head = api.post(f"trees/main@{head}/history/commit", body)["targetBranch"]["hash"]
    for limit in (1000, 0, -5):
        page = api.get("trees/main/history", **{"max-records": limit})
        assert len(page["logEntries"]) == 250 and page["hasMore"] is True
    assert len(api.log(**{"page-token": page["token"]})) == 2


def test_a_log_page_with_operations_is_bounded_by_them(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "MAX_LOG_OPERATIONS", 10)
    sizes = [1, 4, 4, 1, 30, 1, 12, 3]
    for n, size in enumerate(sizes):
        api.commit(*(put(f"t{n}_{i}") for i in range(size)))
    whole = api.log()
    for params in ({"fetch": "ALL"}, {"fetch": "ALL", "filter": "true"}):
        token, pages = "", []
        while token is not None:
            page = api.get("trees/main/history", **params, **{"page-token": token})
            pages.append(page["logEntries"])
            token = page["token"]
        counts = [[len(row["operations"]) for row in rows] for rows in pages]
        assert counts == [[3, 12], [1, 30], [1, 4, 4, 1]]
        assert [row["commitMeta"] for rows in pages for row in rows] == [row["commitMeta"] for row in whole]
    stop = api.get("trees/main/history", fetch="ALL", **{"limit-hash": whole[1]["commitMeta"]["hash"]})
    assert len(stop["logEntries"]) == 2 and stop["hasMore"] is False


@pytest.mark.parametrize(
    "operations",
    [
        [],
        [{"type": "PUT", "key": key("t")}],
        [{"type": "MERGE", "key": key("t")}],
        [{"key": key("t")}],
        [put("t", {"type": "ICEBERG_TABLE", "metadataLocation": "m"})],
        [put("t", {"type": "NO_SUCH_TYPE"})],
        [put("t", table() | {"metadataLocation": "  "})],
        [put("t", table() | {"snapshotId": 2**63})],
        [put("t", table() | {"schemaId": 2**31})],
        [{"type": "DELETE", "key": {"elements": []}}],
        [{"type": "DELETE", "key": {"elements": [""]}}],
        [{"type": "DELETE", "key": {"elements": [None]}}],
        [{"type": "DELETE", "key": {"elements": ["\u0001"]}}],
        [{"type": "DELETE", "key": {"elements": ["a"] * 21}}],
        [{"type": "DELETE", "key": {"elements": ["a" * 501]}}],
        [{"type": "DELETE", "key": None}],
        [None],
        "t",
    ],
)
def test_wrong_operations_are_refused_before_anything_is_written(api: Api, operations: Any) -> None:
    body = {"commitMeta": {"message": "m"}, "operations": operations}
    error = api.post(f"trees/main@{Z}/history/commit", body, 400)
    assert error["errorCode"] == "BAD_REQUEST" and len(error["message"]) > 10
    assert api.head() == Z


def test_every_type_of_content_comes_back_as_it_was_sent(api: Api) -> None:
    contents: dict[str, dict[str, Any]] = {
        "table": table(7),
        "view": view(7) | {"sqlText": "select 1", "dialect": "spark"},
        "namespace": namespace("a", "b", k="v"),
        "udf": {"type": "UDF", "metadataLocation": "m", "versionId": "1", "signatureId": "2"},
        "delta": {
            "type": "DELTA_LAKE_TABLE",
            "metadataLocationHistory": ["a"],
            "checkpointLocationHistory": [],
            "lastCheckpoint": None,
        },
    }
    nulls = {"id": None, "metadata": None, "properties": None, "expectedContent": {"type": "x"}}
    api.commit(*(put(name, {**nulls, **content}) for name, content in contents.items()))
    for name, content in contents.items():
        found = api.content(name)
        assert found.pop("id")
        assert found == content


def test_no_properties_have_one_spelling(api: Api) -> None:
    api.commit(put("n", namespace("n") | {"properties": {}}))
    written = api.content("n")
    assert "properties" not in written
    assert "allProperties" not in api.log()[0]["commitMeta"]
    api.branch("f")
    api.commit(put("n", written | {"properties": {"a": "b"}}), ref="f")
    mode = {"key": key("n"), "expectedTargetContent": written | {"properties": {}}, "resolvedContent": written}
    assert api.merge("f", keyMergeModes=[mode])["wasSuccessful"] is True
