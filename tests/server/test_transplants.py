"""Transplants over HTTP: flags, results, conflicts, meta, wrong requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.helpers import UNKNOWN, Api, Z, conflict_types, key, put, table


@pytest.fixture
def forked(api: Api) -> Api:
    """`f` is ahead of main by two commits: a changed table, and a new one."""
    id = api.add_table("t")
    api.branch("f")
    api.commit(put("t", table(2, id)), ref="f")
    api.commit(put("new"), ref="f")
    return api


def hashes(api: Api, *back: str) -> list[str]:
    return [api.head("f") + steps for steps in back]


def transplant(api: Api, *wanted: Any, target: str = "main", status: int = 200, **fields: Any) -> Any:
    headers = fields.pop("headers", None)
    body = {"fromRefName": "f", "hashesToTransplant": list(wanted), **fields}
    return api.post(f"trees/{target}@{api.head(target)}/history/transplant", body, status, headers=headers)


def test_one_commit_each_on_top_of_the_head(forked: Api) -> None:
    before = forked.head()
    result = transplant(forked, *hashes(forked, "~1", ""), message="left out")
    assert (result["wasApplied"], result["wasSuccessful"]) == (True, True)
    assert result["resultantTargetHash"] == forked.head() and result["commonAncestor"] is None
    assert result["effectiveTargetHash"] == result["expectedHash"] == before and result["targetBranch"] == "main"
    assert [(row["key"], row["mergeBehavior"], row.get("conflict")) for row in result["details"]] == [
        (key("new"), "NORMAL", None),
        (key("t"), "NORMAL", None),
    ]
    log = [row["commitMeta"] for row in forked.log()]
    assert [meta["message"] for meta in log] == ["m"] * 3
    assert [len(meta["parentCommitHashes"]) for meta in log] == [1] * 3


def test_message_and_headers(forked: Api) -> None:
    headers = {"Nessie-Commit-Authors": "a, b", "Nessie-Commit-Property-Run": "7"}
    transplant(forked, *hashes(forked, "~1"), message="one", headers=headers)
    meta = forked.log()[0]["commitMeta"]
    assert (meta["message"], meta["authors"], meta["allProperties"]) == ("one", ["", "a", "b"], {"run": ["7"]})
    transplant(forked, *hashes(forked, ""), headers={"Nessie-Commit-Message": "from header"})
    assert forked.log()[0]["commitMeta"]["message"] == "from header"


@pytest.mark.parametrize("flag", ["isDryRun", "dryRun"])
def test_a_dry_run_writes_nothing(forked: Api, flag: str) -> None:
    before = forked.head()
    result = transplant(forked, *hashes(forked, ""), **{flag: True})
    assert (result["wasApplied"], result["wasSuccessful"], result["resultantTargetHash"]) == (False, True, None)
    assert forked.head() == before


@pytest.mark.parametrize("flag", ["isReturnConflictAsResult", "returnConflictAsResult"])
def test_conflicts_as_error_or_as_result(forked: Api, flag: str) -> None:
    forked.commit(put("t", table(3, forked.content("t")["id"])))
    before, wanted = forked.head(), hashes(forked, "~1", "")
    error = transplant(forked, *wanted, status=409)
    assert conflict_types(error) == {"VALUE_DIFFERS"}
    assert error["message"] == "The following keys have been changed in conflict: 't'"
    result = transplant(forked, *wanted, **{flag: True})
    assert (result["wasApplied"], result["wasSuccessful"], result["resultantTargetHash"]) == (False, False, None)
    assert forked.head() == before
    modes = [{"key": key("t"), "mergeBehavior": "DROP"}, {"key": key("unused")}]
    transplant(forked, *wanted, keyMergeModes=modes)
    assert forked.content("t")["snapshotId"] == 3 and forked.content("new")


def test_detached_and_the_default_branch_by_dash(forked: Api) -> None:
    assert transplant(forked, *hashes(forked, ""), fromRefName="DETACHED")["wasApplied"] is True
    result = transplant(forked, forked.head(), target="f", fromRefName="-")
    assert result["wasApplied"] is False and result["wasSuccessful"] is True
    assert result["resultantTargetHash"] == forked.head("f")


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"hashesToTransplant": []}, 400, "hashesToTransplant"),
        ({"hashesToTransplant": None}, 400, "hashesToTransplant"),
        ({"hashesToTransplant": [None]}, 400, "hashesToTransplant"),
        ({"hashesToTransplant": [""]}, 400, "Hash to transplant must be provided."),
        ({"hashesToTransplant": ["~1"]}, 400, "Hash to transplant must contain a starting commit ID."),
        ({"hashesToTransplant": ["x"]}, 400, "hashesToTransplant"),
        ({"hashesToTransplant": [UNKNOWN] * 1001}, 400, "hashesToTransplant"),
        ({"hashesToTransplant": [UNKNOWN]}, 404, UNKNOWN),
        ({"hashesToTransplant": [Z]}, 404, Z),
        ({"fromRefName": "nope"}, 404, "nope"),
        ({"fromRefName": None}, 400, "fromRefName"),
        ({"message": ""}, 400, "message"),
        ({"isDryRun": "yes"}, 400, "isDryRun"),
        ({"defaultKeyMergeMode": "MINE"}, 400, "defaultKeyMergeMode"),
        ({"keyMergeModes": [{"key": key("t")}] * 2}, 400, "keyMergeModes"),
        ({"keyMergeModes": [{"key": {"elements": [""]}}]}, 400, "empty element"),
    ],
)
def test_wrong_requests_are_named(forked: Api, fields: dict[str, Any], status: int, text: str) -> None:
    before = forked.head()
    body = {"fromRefName": "f", "hashesToTransplant": [forked.head("f")], **fields}
    error = forked.post(f"trees/main@{before}/history/transplant", body, status)
    assert text in error["message"] and forked.head() == before


def test_the_target_is_a_branch_at_a_hash(forked: Api) -> None:
    body = {"fromRefName": "f", "hashesToTransplant": hashes(forked, "", "~1")}
    assert "not contiguous" in forked.post(f"trees/main@{Z}/history/transplant", body, 400)["message"]
    forked.branch("tag", kind="TAG")
    for ref in (f"tag@{Z}", f"@{Z}"):
        error = forked.post(f"trees/{ref}/history/transplant", body, 400)
        assert error["message"] == "Reference to transplant into must be a branch."
    error = forked.post("trees/main/history/transplant", body, 400)
    assert error["message"] == "Expected hash must be provided."
