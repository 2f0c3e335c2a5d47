"""What is easily taken for granted of Nessie's API, and how it really is; where Nessie errs, how it is meant.

One function per assumption, each on an empty repository of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.server.helpers import Api, Z, conflict_types, delete, key, namespace, put, table, unchanged, view

FOREIGN = "7a3d4a9e-5b0f-4a3c-9d6e-3f1f0d6a2b11"
Check = Callable[[Api], None]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


@pytest.mark.parametrize("function", CHECKS, ids=lambda function: function.__name__)
def test_every_assumption(api: Api, function: Check) -> None:
    function(api)


def ahead(api: Api) -> tuple[str, str]:
    """A table on main, and a branch `f` that changed it; (main's head, the table's id)."""
    id = api.add_table("t")
    api.branch("f")
    api.commit(put("t", table(2, id)), ref="f")
    return api.head(), id


@check
def dry_run_in_both_spellings(api: Api) -> None:
    before, _ = ahead(api)
    for flag in ("dryRun", "isDryRun"):
        assert api.merge("f", **{flag: True})["wasApplied"] is False
    assert api.head() == before


@check
def details_only_for_clients_that_announce_themselves(api: Api) -> None:
    api.add_table("t")
    for headers, shown in (({}, True), ({"Nessie-Client-Spec": ""}, False), ({"Nessie-Client-Spec": "1"}, False)):
        assert ("errorDetails" in api.try_commit(put("t"), at=Z, headers=headers)) is shown


@check
def wrong_content_ids_are_bad_requests(api: Api) -> None:
    api.add_table("t")
    for content in (table(2), table(2, FOREIGN)):
        assert api.try_commit(put("t", content), status=400)["errorCode"] == "BAD_REQUEST"


@check
def a_stale_expected_hash_is_no_conflict(api: Api) -> None:
    api.add_table("a")
    head = api.head()
    api.commit(put("b"), at=f"{head}~1")
    assert api.log()[0]["parentCommitHash"] == head


@check
def conflicts_are_by_value(api: Api) -> None:
    id = api.add_table("t")
    stale = api.head()
    api.commit(put("t", table(2, id)))
    api.commit(put("t", table(1, id)))
    api.commit(put("t", table(3, id)), at=stale)
    assert api.content("t")["snapshotId"] == 3


@check
def drop_and_create_is_delete_then_put_without_id(api: Api) -> None:
    id = api.add_table("t")
    api.try_commit(put("t"), delete("t"), status=400)
    api.try_commit(delete("t"), put("t", table(2, FOREIGN)), status=400)
    assert api.commit(delete("t"), put("t"))["addedContents"][0]["contentId"] not in (id, FOREIGN)


@check
def no_hash_does_not_mean_the_head(api: Api) -> None:
    api.branch("b")
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    answers = [
        api.post("trees/b/history/commit", body, 400),
        api.call("DELETE", "trees/b").json(),
        api.call("PUT", "trees/b", json={"hash": Z}).json(),
        api.post("trees", {"name": "main"}, 400, params={"name": "x", "type": "BRANCH"}),
        api.post("trees/b/history/merge", {"fromRefName": "main", "fromHash": Z}, 400),
        api.post("trees/b/history/transplant", {"fromRefName": "main", "hashesToTransplant": [Z]}, 400),
    ]
    assert {answer["status"] for answer in answers} == {400}
    assert all(answer["message"].endswith("hash must be provided.") for answer in answers)


@check
def writes_take_relative_parts_after_a_hash_alone(api: Api) -> None:
    api.add_table("a")
    body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
    for ref in ("main~1", "main%5E1", "main*2050-01-01T00:00:00Z"):
        error = api.post(f"trees/{ref}/history/commit", body, 400)
        assert error["message"] == "Expected hash must contain a starting commit ID."
    api.post(f"trees/main@{api.head()}~1/history/commit", body)


@check
def a_rename_adds_nothing(api: Api) -> None:
    id = api.add_table("a")
    for operations in ((put("b", table(1, id)), delete("a")), (delete("b"), put("c", table(2, id)))):
        assert api.commit(*operations)["addedContents"] is None
    assert api.content("c")["id"] == id


@check
def unchanged_of_a_missing_key(api: Api) -> None:
    stale = api.head()
    api.add_table("t")
    api.commit(unchanged("nope"))
    assert conflict_types(api.try_commit(unchanged("nope"), at=stale)) == {"KEY_DOES_NOT_EXIST"}


@check
def unchanged_alone_is_a_commit(api: Api) -> None:
    api.add_table("t")
    before = api.head()
    api.commit(unchanged("t"))
    (entry, *_) = api.log(fetch="ALL")
    assert (entry["operations"], entry["parentCommitHash"]) == ([], before)


@check
def every_missing_namespace_is_told(api: Api) -> None:
    error = api.try_commit(put("a.b.t"))
    found = [(row["conflictType"], row["key"]) for row in error["errorDetails"]["conflicts"]]
    assert found == [("NAMESPACE_ABSENT", key("a.b")), ("NAMESPACE_ABSENT", key("a"))]


@check
def namespaces_are_judged_at_the_head(api: Api) -> None:
    api.commit(put("n", namespace("n")))
    stale = api.head()
    api.commit(delete("n"))
    assert conflict_types(api.try_commit(put("n.t"), at=stale)) == {"NAMESPACE_ABSENT"}


@check
def a_type_changes_by_a_new_content_alone(api: Api) -> None:
    id = api.add_table("t")
    before = api.head()
    api.try_commit(put("t", view(1, id)), status=400)
    assert api.head() == before
    api.commit(delete("t"), put("t", view()))
    api.commit(put("n", namespace("n")))
    api.commit(delete("n"), put("n", table()))
    rows = api.get("trees/main/entries", content="true")["entries"]
    assert [(row["type"], row["content"]["type"]) for row in rows] == [("ICEBERG_TABLE",) * 2, ("ICEBERG_VIEW",) * 2]
    assert len(api.log(fetch="ALL")) == 4


@check
def no_merge_is_a_fast_forward(api: Api) -> None:
    before, _ = ahead(api)
    api.merge("f")
    assert api.log()[0]["commitMeta"]["parentCommitHashes"] == [before, api.head("f")]


@check
def a_merge_takes_no_words_from_its_source(api: Api) -> None:
    before, _ = ahead(api)
    meta = {"message": "theirs", "authors": ["ann"], "properties": {"k": "v"}}
    path = f"trees/f@{api.head('f')}/history/commit"
    api.post(path, {"commitMeta": meta, "operations": [put("u")]})
    api.merge("f")
    found = api.log()[0]["commitMeta"]
    assert found["message"] == f"Merged f at {api.head('f')} into main at {before}"
    assert found["authors"] == [""] and "allProperties" not in found


@check
def a_second_merge_begins_where_the_first_ended(api: Api) -> None:
    ahead(api)
    api.merge("f")
    merged = api.head("f")
    api.add_table("u", "f")
    assert api.merge("f")["commonAncestor"] == merged


@check
def equal_changes_conflict(api: Api) -> None:
    ids = {name: api.add_table(name) for name in ("t", "u")}
    api.branch("f")
    for ref in ("main", "f"):
        api.commit(put("t", table(2, ids["t"])), delete("u"), ref=ref)
    assert conflict_types(api.merge("f", status=409)) == {"VALUE_DIFFERS", "KEY_DOES_NOT_EXIST"}


@check
def a_namespace_of_both_sides_is_the_sources(api: Api) -> None:
    api.add_table("t")
    api.branch("f")
    for ref in ("main", "f"):
        api.commit(put("n", namespace("n", of=ref)), ref=ref)
    assert api.merge("f")["details"] == []
    assert api.content("n") == api.content("n", "f")


@check
def conflicts_of_namespaces_are_never_a_result(api: Api) -> None:
    api.commit(put("n", namespace("n")))
    api.branch("f")
    api.commit(put("n.t"), ref="f")
    api.commit(delete("n"))
    for source in ("merge", "transplant"):
        body = {"fromRefName": "f", "fromHash": api.head("f"), "hashesToTransplant": [api.head("f")]}
        path = f"trees/main@{api.head()}/history/{source}"
        error = api.post(path, body | {"isReturnConflictAsResult": True}, 409)
        assert conflict_types(error) == {"NAMESPACE_ABSENT"}


@check
def unrelated_histories_are_not_found(api: Api) -> None:
    ahead(api)
    api.branch("empty", Z)
    assert api.merge("f", "empty", 404)["message"].startswith("No common ancestor in parents of ")


@check
def a_message_for_one_transplanted_commit(api: Api) -> None:
    ahead(api)
    api.add_table("u", "f")
    head = api.head("f")
    for hashes, message in (([f"{head}~1"], "mine"), ([f"{head}~1", head], "m")):
        api.branch(message, f"{head}~2")
        body = {"fromRefName": "f", "hashesToTransplant": hashes, "message": "mine"}
        api.post(f"trees/{message}@{api.head(message)}/history/transplant", body)
        assert {row["commitMeta"]["message"] for row in api.log(message)[: len(hashes)]} == {message}


@check
def the_limit_hash_is_shown(api: Api) -> None:
    api.add_table("a")
    api.add_table("b")
    page = api.get("trees/main/history", **{"limit-hash": api.head()})
    assert len(page["logEntries"]) == 1 and page["hasMore"] is False
    rejecting = {"filter": "commit.message != 'm'", "limit-hash": api.head()}
    assert api.get("trees/main/history", **rejecting)["logEntries"] == []


@check
def path_specifications_chain_and_reads_take_any_commit(api: Api) -> None:
    ahead(api)
    for n in range(3):
        api.add_table(f"f{n}", "f")
    api.merge("f")
    assert api.get("trees/main%5E2~1/entries")["effectiveReference"]["hash"] == api.log("f")[1]["commitMeta"]["hash"]
    api.branch("x", Z)
    api.add_table("far", "x")
    effective = api.get(f"trees/main@{api.head('x')}/entries")["effectiveReference"]
    assert effective == {"type": "BRANCH", "name": "main", "hash": api.head("x")}
    assert api.get("trees/main%5E3/entries")["entries"] == []


@check
def some_errors_have_no_body(api: Api) -> None:
    api.add_table("a")
    for path in (
        "trees?max-records=x",
        "trees?fetch=all",
        "trees/main/contents/a..b",
        "trees/main/entries?min-key=a..b",
    ):
        answer = api.call("GET", path)
        assert (answer.status_code, answer.content) == (404, b"")


@check
def deleting_answers_with_what_was_deleted(api: Api) -> None:
    head = api.branch("x")
    answer = api.call("DELETE", f"trees/x@{head}")
    assert (answer.status_code, answer.json()["reference"]["name"]) == (200, "x")


@check
def nothing_is_put_into_a_namespace_that_goes(api: Api) -> None:
    api.commit(put("n", namespace("n")))
    assert conflict_types(api.try_commit(delete("n"), put("n.t"))) == {"NAMESPACE_NOT_EMPTY"}


@check
def slashes_in_references_and_dots_in_keys(api: Api) -> None:
    api.branch("feature/x")
    dotted: dict[str, Any] = put("a") | {"key": {"elements": ["a.b"]}}
    api.commit(dotted, put("c", namespace("c")), put("c.d"), ref="feature/x")
    for ref in ("feature%2Fx", "feature/x@", f"feature/x@{api.head('feature/x')}"):
        for path in ("a%1Db", ".a*.b", "a%00b", "c.d", ".c.d"):
            assert api.get(f"trees/{ref}/contents/{path}")["content"]["type"] == "ICEBERG_TABLE"
    assert api.call("GET", "trees/feature/x/entries").status_code == 404


@check
def unknown_fields_matter_in_commit_meta_alone(api: Api) -> None:
    operations = [put("t") | {"what": 1, "documentation": None, "metadata": {}, "expectedContent": None}]
    body = {"commitMeta": {"message": "m"}, "operations": operations, "what": 1}
    strange = body | {"commitMeta": {"message": "m", "what": 1}}
    assert "what" in api.post(f"trees/main@{Z}/history/commit", strange, 400)["message"]
    api.post(f"trees/main@{Z}/history/commit", body)
    api.post("trees", {"name": "main", "hash": Z, "what": 1}, params={"name": "x", "type": "BRANCH"})
    assert api.merge("x", what=1)["wasSuccessful"] is True


@check
def the_name_of_metadata_in_filters(api: Api) -> None:
    for text in ("metadata.numTotalCommits > 0", "ref.type == 'BRANCH'", "ref.name"):
        assert api.get("trees", 400, filter=text, fetch="ALL")["errorCode"] == "BAD_REQUEST"
    assert api.get("trees", filter="refType == 'BRANCH'")["references"]


@check
def conflicts_have_no_filler(api: Api) -> None:
    _, id = ahead(api)
    api.add_table("u", "f")
    api.commit(put("t", table(3, id)))
    (conflict,) = api.merge("f", status=409)["errorDetails"]["conflicts"]
    assert (conflict["conflictType"], conflict["key"]) == ("VALUE_DIFFERS", key("t"))


@check
def only_branches_take_commits(api: Api) -> None:
    api.branch("tag", kind="TAG")
    assert api.try_commit(put("t"), ref="tag", status=400)["message"] == "Reference to commit into must be a branch."


@check
def a_message_may_come_by_header_alone(api: Api) -> None:
    path = f"trees/main@{Z}/history/commit"
    api.post(path, {"operations": [put("t")]}, headers={"Nessie-Commit-Message": "from header"})
    assert api.log()[0]["commitMeta"]["message"] == "from header"


@check
def the_expected_hash_of_nothing_expects_nothing(api: Api) -> None:
    api.add_table("t")
    assert conflict_types(api.try_commit(put("t"), at=Z)) == {"KEY_EXISTS"}
    assert conflict_types(api.try_commit(delete("t"), at=Z)) == {"PAYLOAD_DIFFERS"}
    api.commit(put("u"), at=Z)


@check
def nulls_mean_that_a_field_is_absent(api: Api) -> None:
    operations = [put("t", table() | {"id": None})]
    meta = {"message": "m", "author": None, "properties": None, "authorTime": None, "parentCommitHashes": None}
    api.post(f"trees/main@{Z}/history/commit", {"commitMeta": meta, "operations": operations})
    api.branch("x")
    api.add_table("u", "x")
    nulls = dict.fromkeys(("message", "commitMeta", "keyMergeModes", "defaultKeyMergeMode", "isDryRun", "dryRun"))
    assert api.merge("x", **nulls)["wasApplied"] is True


@check
def empty_and_null_fields_are_written_as_clients_know_them(api: Api) -> None:
    api.add_table("t")
    page = api.get("trees/main/history", **{"max-records": 1})
    assert page["token"] is None and page["logEntries"][0]["operations"] is None
    full = api.log(fetch="ALL")[0]
    assert full["operations"][0]["documentation"] is None and "allProperties" not in full["commitMeta"]
    assert api.get("trees/main/entries")["entries"][0]["content"] is None
    assert api.get(f"trees/@{Z}/diff/main")["diffs"][0]["from"] is None
    assert api.commit(unchanged("t"))["addedContents"] is None
    assert "metadata" not in api.get("trees/main")["reference"]
