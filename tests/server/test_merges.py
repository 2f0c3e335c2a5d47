"""Merges over HTTP: flags, results, conflicts, messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.helpers import UNKNOWN, Api, Z, conflict_types, delete, key, namespace, put, table


@pytest.fixture
def forked(api: Api) -> Api:
    """`f` is ahead of main by one new table and one changed one."""
    id = api.add_table("t")
    api.branch("f")
    api.commit(put("t", table(2, id)), put("new"), ref="f")
    return api


def test_a_merge_is_one_commit_with_two_parents(forked: Api) -> None:
    before, source = forked.head(), forked.head("f")
    result = forked.merge("f")
    assert (result["wasApplied"], result["wasSuccessful"]) == (True, True)
    assert result["resultantTargetHash"] == forked.head()
    assert result["commonAncestor"] == result["effectiveTargetHash"] == result["expectedHash"] == before
    assert result["targetBranch"] == "main"
    assert [(row["key"], row["mergeBehavior"]) for row in result["details"]] == [
        (key("new"), "NORMAL"),
        (key("t"), "NORMAL"),
    ]
    (meta, *_) = (row["commitMeta"] for row in forked.log())
    assert meta["parentCommitHashes"] == [before, source]
    assert meta["authors"] == [""] and meta["message"] == f"Merged f at {source} into main at {before}"
    assert forked.content("t")["snapshotId"] == 2


@pytest.mark.parametrize("flag", ["isDryRun", "dryRun"])
def test_a_dry_run_writes_nothing(forked: Api, flag: str) -> None:
    before = forked.head()
    result = forked.merge("f", **{flag: True})
    assert (result["wasApplied"], result["wasSuccessful"], result["resultantTargetHash"]) == (False, True, None)
    assert forked.head() == before


@pytest.mark.parametrize("flag", ["isReturnConflictAsResult", "returnConflictAsResult"])
def test_conflicts_as_error_or_as_result(forked: Api, flag: str) -> None:
    forked.commit(put("t", table(3, forked.content("t")["id"])))
    before = forked.head()
    for fields in ({}, {"isDryRun": True}):
        error = forked.merge("f", status=409, **fields)
        assert conflict_types(error) == {"VALUE_DIFFERS"}
        assert error["message"] == "The following keys have been changed in conflict: 't'"
    result = forked.merge("f", **{flag: True})
    assert (result["wasApplied"], result["wasSuccessful"], result["resultantTargetHash"]) == (False, False, None)
    conflicts = {tuple(row["key"]["elements"]): row.get("conflict") for row in result["details"]}
    assert conflicts[("t",)]["conflictType"] == "VALUE_DIFFERS" and conflicts[("new",)] is None
    assert forked.head() == before


def test_key_behaviors_decide_conflicts(forked: Api) -> None:
    id = forked.content("t")["id"]
    forked.commit(put("t", table(3, id)))
    modes: list[dict[str, Any]] = [{"key": key("t"), "mergeBehavior": "DROP"}]
    forked.branch("a")
    forked.merge("f", "a", keyMergeModes=modes)
    assert forked.content("t", "a")["snapshotId"] == 3 and forked.content("new", "a")
    modes[0]["mergeBehavior"] = "FORCE"
    forked.branch("b")
    forked.merge("f", "b", keyMergeModes=modes)
    assert forked.content("t", "b")["snapshotId"] == 2
    resolved = {"key": key("t"), "expectedTargetContent": table(3, id), "resolvedContent": table(9, id)}
    forked.branch("c")
    forked.merge("f", "c", keyMergeModes=[resolved])
    assert forked.content("t", "c")["snapshotId"] == 9
    forked.branch("d")
    forked.merge("f", "d", defaultKeyMergeMode="FORCE")
    assert forked.content("t", "d")["snapshotId"] == 2


@pytest.mark.parametrize(
    "fields",
    [
        {"message": ""},
        {"defaultKeyMergeMode": "TAKE_MINE"},
        {"keyMergeModes": [{"key": {"elements": ["unused"]}}]},
        {"keyMergeModes": [{"key": {"elements": ["t"]}}, {"key": {"elements": ["t"]}}]},
        {"keyMergeModes": [{"key": {"elements": ["t"]}, "resolvedContent": table(1)}]},
        {"keyMergeModes": [{"key": {"elements": []}}]},
        {"keyMergeModes": [{"mergeBehavior": "DROP"}]},
        {"commitMeta": {"committer": "me"}},
        {"commitMeta": {"what": "me"}},
        {"fromRefName": None},
        {"fromHash": "x"},
        {"isDryRun": "yes"},
    ],
)
def test_wrong_merges_are_named(forked: Api, fields: dict[str, Any]) -> None:
    before = forked.head()
    assert forked.merge("f", status=400, **fields)["errorCode"] == "BAD_REQUEST"
    assert forked.head() == before


def test_merges_need_hashes_that_are_absolute(forked: Api) -> None:
    assert forked.merge("f", status=400, fromHash=None)["message"] == "Source hash must be provided."
    error = forked.merge("f", status=400, fromHash="~1")
    assert error["message"] == "Source hash must contain a starting commit ID."
    body = {"fromRefName": "f", "fromHash": forked.head("f")}
    error = forked.post("trees/main/history/merge", body, 400)
    assert error["message"] == "Expected hash must be provided."
    error = forked.post(f"trees/@{forked.head()}/history/merge", body, 400)
    assert error["message"] == "Reference to merge into must be a branch."
    forked.branch("tag", kind="TAG")
    assert forked.merge("f", "tag", 400)["message"] == "Reference to merge into must be a branch."
    assert forked.merge("f", status=404, at=UNKNOWN)["errorCode"] == "REFERENCE_NOT_FOUND"
    assert forked.merge("f", status=404, fromHash=UNKNOWN)["errorCode"] == "REFERENCE_NOT_FOUND"
    error = forked.post(f"trees/main@{forked.head()}/history/merge", body | {"fromRefName": "nope"}, 404)
    assert error["message"] == "Named reference 'nope' not found"


def test_a_detached_source_and_the_default_branch_by_dash(forked: Api) -> None:
    source = forked.head("f")
    body = {"fromRefName": "DETACHED", "fromHash": source}
    assert forked.post(f"trees/-@{forked.head()}/history/merge", body)["wasApplied"] is True
    body = {"fromRefName": "-", "fromHash": f"{forked.head()}~1"}
    result = forked.post(f"trees/f@{source}/history/merge", body)
    assert result["wasApplied"] is False and result["wasSuccessful"] is True and result["details"] == []
    assert result["resultantTargetHash"] == source


def test_a_second_merge_starts_where_the_first_ended(forked: Api) -> None:
    forked.merge("f")
    first = forked.head("f")
    forked.add_table("main_only")
    forked.add_table("more", "f")
    result = forked.merge("f")
    assert result["commonAncestor"] == first
    assert [row["key"] for row in result["details"]] == [key("more")]


def test_equal_changes_on_both_sides(api: Api) -> None:
    ids = {name: api.add_table(name) for name in ("updated", "deleted")}
    api.branch("f")
    for ref in ("f", "main"):
        api.commit(put("updated", table(5, ids["updated"])), delete("deleted"), ref=ref)
        api.commit(put("n", namespace("n", of=ref)), ref=ref)
    error = api.merge("f", status=409)
    assert conflict_types(error) == {"VALUE_DIFFERS", "KEY_DOES_NOT_EXIST"}
    modes = [{"key": key(name), "mergeBehavior": "DROP"} for name in ("updated", "deleted")]
    result = api.merge("f", keyMergeModes=modes)
    assert api.content("n")["properties"] == {"of": "f"}, "the source's namespace replaces the target's"
    assert [row["key"] for row in result["details"]] == [key("deleted"), key("updated")]


def test_namespaces_are_guarded_even_with_conflicts_as_result(api: Api) -> None:
    api.commit(put("n", namespace("n")))
    api.branch("f")
    api.commit(put("n.t"), ref="f")
    api.commit(delete("n"))
    error = api.merge("f", status=409, isReturnConflictAsResult=True)
    assert conflict_types(error) == {"NAMESPACE_ABSENT"}


def test_unrelated_histories_have_no_base(api: Api) -> None:
    api.add_table("t")
    api.branch("empty", Z)
    error = api.merge("main", "empty", 404)
    assert error["errorCode"] == "REFERENCE_NOT_FOUND" and "No common ancestor" in error["message"]
    result = api.merge("empty", "main")
    assert result["wasApplied"] is False and result["wasSuccessful"] is True, "nothing is no order to delete"


def test_meta_of_a_merge_is_the_callers(forked: Api) -> None:
    meta = {"message": "", "authors": ["a"], "allProperties": {"run": ["7"]}, "authorTime": "2021-01-01T00:00:00Z"}
    forked.branch("x", forked.head())
    forked.merge("f", commitMeta=meta, message="fallback")
    found = forked.log()[0]["commitMeta"]
    assert found["message"] == "fallback" and found["authors"] == ["a"]
    assert found["allProperties"] == {"run": ["7"]} and found["authorTime"] == "2021-01-01T00:00:00Z"
    forked.merge("f", "x", commitMeta=meta | {"message": "own"}, message="fallback")
    assert forked.log("x")[0]["commitMeta"]["message"] == "own"
