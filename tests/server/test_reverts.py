"""Reverts over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.helpers import UNKNOWN, Api, Z, conflict_types, delete, key, put, table


@pytest.fixture
def filled(api: Api) -> Api:
    """A table that was created and changed, and another one."""
    id = api.add_table("t")
    api.add_table("u")
    api.commit(put("t", table(2, id)))
    return api


def revert(api: Api, status: int = 200, ref: str = "main", **body: Any) -> Any:
    return api.post(f"trees/{ref}@{api.head(ref)}/history/revert", body, status)


def test_a_commit_is_undone(filled: Api) -> None:
    before, id = filled.head(), filled.content("t")["id"]
    dry = revert(filled, commitHash=before, isDryRun=True)
    assert (dry["wasApplied"], dry["wasSuccessful"], dry["resultantTargetHash"]) == (False, True, None)
    assert filled.head() == before
    result = revert(filled, commitHash=before, commitMeta={"message": "undo", "authors": ["ann"]})
    assert result["wasApplied"] is True and result["resultantTargetHash"] == filled.head()
    assert result["commonAncestor"] is None and result["targetBranch"] == "main"
    assert result["effectiveTargetHash"] == result["expectedHash"] == before
    assert result["details"] == [{"key": key("t"), "mergeBehavior": "NORMAL"}]
    assert filled.content("t") == table(1, id)
    meta = filled.log()[0]["commitMeta"]
    assert (meta["message"], meta["authors"]) == ("undo", ["ann"])
    error = revert(filled, 409, commitHash=before)
    assert conflict_types(error) == {"VALUE_DIFFERS"}
    result = revert(filled, commitHash=before, returnConflictAsResult=True)
    assert (result["wasApplied"], result["wasSuccessful"]) == (False, False)


def test_keys_go_back(filled: Api) -> None:
    id = filled.content("t")["id"]
    filled.branch("old", f"{filled.head()}~1")
    filled.commit(delete("t"), put("new"))
    result = revert(filled, keys=[key("t")], sourceRef="main~1")
    assert result["wasApplied"] is True and filled.content("t") == table(2, id)
    assert filled.log()[0]["commitMeta"]["message"].startswith("Reverted 't' to the state at ")
    revert(filled, keys=[key("t")], sourceRef="old")
    assert filled.content("t") == table(1, id)
    assert "new" in revert(filled, 400, keys=[key("new")], sourceRef="old")["message"]
    revert(filled, keys=[key("new")], sourceRef="old", allowDeletes=True, message="gone")
    assert filled.log()[0]["commitMeta"]["message"] == "gone"
    filled.get("trees/main/contents/new", 404)


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({}, 400, "commitHash"),
        ({"commitHash": None, "keys": None}, 400, "commitHash"),
        ({"commitHash": Z, "keys": [key("t")]}, 400, "commitHash"),
        ({"commitHash": ""}, 400, "Hash to revert must be provided."),
        ({"commitHash": "~1"}, 400, "Hash to revert must contain a starting commit ID."),
        ({"commitHash": "x"}, 400, "commitHash"),
        ({"commitHash": 1}, 400, "commitHash"),
        ({"commitHash": UNKNOWN}, 404, UNKNOWN),
        ({"commitHash": Z}, 404, Z),
        ({"keys": [], "sourceRef": "main"}, 400, "commitHash"),
        ({"keys": [key("t")]}, 400, "sourceRef"),
        ({"keys": [key("t")], "sourceRef": "~1"}, 400, "sourceRef"),
        ({"keys": [key("t")], "sourceRef": "nope"}, 404, "nope"),
        ({"keys": [{"elements": [""]}], "sourceRef": "main"}, 400, "empty element"),
        ({"keys": [key("t")], "sourceRef": "main", "allowDeletes": "yes"}, 400, "allowDeletes"),
    ],
)
def test_wrong_requests_are_named(filled: Api, body: dict[str, Any], status: int, text: str) -> None:
    before = filled.head()
    assert text in revert(filled, status, **body)["message"]
    assert filled.head() == before


def test_the_target_is_a_branch_at_a_hash(filled: Api) -> None:
    filled.branch("tag", kind="TAG")
    body = {"commitHash": filled.head()}
    for ref in (f"tag@{filled.head()}", f"@{filled.head()}"):
        error = filled.post(f"trees/{ref}/history/revert", body, 400)
        assert error["message"] == "Reference to revert into must be a branch."
    assert "Expected hash" in filled.post("trees/main/history/revert", body, 400)["message"]
