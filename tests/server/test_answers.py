"""Answers in the detail that foreign clients' tests look at: which error comes first, fields that are left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.helpers import Api, Z, delete, key, namespace, put, table


def test_what_is_written_to_must_exist_before_a_hash_is_missed(api: Api) -> None:
    api.branch("tag", kind="TAG")
    for ref in ("nope", "nope~1"):
        answers = [api.call("DELETE", f"trees/{ref}"), api.call("PUT", f"trees/{ref}", json={"hash": Z})]
        answers += [
            api.call("POST", f"trees/{ref}/history/{verb}", json={}) for verb in ("commit", "merge", "transplant")
        ]
        assert {(answer.status_code, answer.json()["errorCode"]) for answer in answers} == {
            (404, "REFERENCE_NOT_FOUND")
        }
    for ref in ("tag", "tag~1"):
        for verb in ("commit", "merge", "transplant"):
            error = api.post(f"trees/{ref}/history/{verb}", {}, 400)
            assert error["message"] == f"Reference to {verb} into must be a branch."


def test_sources_in_bodies(api: Api) -> None:
    named: dict[str, Any] = {"type": "BRANCH", "name": "nope"}
    for hash in (None, "~1", Z):
        api.post("trees", named | {"hash": hash}, 404, params={"name": "x", "type": "BRANCH"})
        answer = api.call("PUT", f"trees/main@{Z}", json=named | {"hash": hash})
        assert answer.json()["errorCode"] == "REFERENCE_NOT_FOUND"
        path, body = f"trees/main@{Z}/history", {"fromRefName": "nope", "fromHash": hash}
        api.post(f"{path}/merge", body, 404)
        api.post(f"{path}/transplant", {"fromRefName": "nope", "hashesToTransplant": [hash or "~1"]}, 404)
    for name in ("HEAD", "detached"):
        api.post(f"trees/main@{Z}/history/merge", {"fromRefName": name, "fromHash": Z}, 404)
    for name in ("", "a..b"):
        error = api.post(f"trees/main@{Z}/history/merge", {"fromRefName": name, "fromHash": Z}, 400)
        assert error["message"].startswith("fromRefName: ")
        api.post("trees", {"type": "BRANCH", "name": name, "hash": Z}, 400, params={"name": "x", "type": "BRANCH"})
    for kind in ("FOO", "branch"):
        error = api.post("trees", {"type": kind, "hash": Z}, 400, params={"name": "x", "type": "BRANCH"})
        assert error["message"].startswith("type: ")
    detached = {"type": "DETACHED", "name": "nope", "hash": Z}
    api.post("trees", detached, params={"name": "x", "type": "BRANCH"})


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("trees/{}/entries", "Expected hash"),
        ("trees/{}/contents/t", "Expected hash"),
        ("trees/{}/history", "Youngest hash"),
        ("trees/{}/diff/main", '"From" hash'),
        ("trees/main/diff/{}", '"To" hash'),
    ],
)
def test_relative_parts_of_nothing(api: Api, path: str, what: str) -> None:
    for ref in ("~1", "@~1", "@*2050-01-01T00:00:00Z"):
        assert api.get(path.format(ref), 400)["message"] == f"{what} must contain a starting commit ID."


def test_a_relative_limit_needs_a_named_reference(api: Api) -> None:
    api.add_table("t")
    error = api.get(f"trees/@{api.head()}/history", 400, **{"limit-hash": "~1"})
    assert error["message"] == "Oldest hash must contain a starting commit ID."
    assert len(api.get("trees/main/history", **{"limit-hash": "~1"})["logEntries"]) == 1
    assert len(api.get(f"trees/@{api.head()}/history", **{"limit-hash": api.head()})["logEntries"]) == 1


def test_keys_in_a_query_for_contents(api: Api) -> None:
    for text in ("a..b", ".a*q", "a\x7f"):
        assert api.get("trees/main/contents", 400, key=text)["errorCode"] == "BAD_REQUEST"


def test_details_of_a_transplant_that_changes_nothing(api: Api) -> None:
    api.add_table("t")
    body = {"fromRefName": "main", "hashesToTransplant": [api.head()]}
    path = f"trees/main@{api.head()}/history/transplant"
    for dry, after in ((False, api.head()), (True, None)):
        result = api.post(path, body | {"isDryRun": dry})
        assert (result["wasApplied"], result["resultantTargetHash"], result["details"]) == (False, after, [])


def test_dry_runs_tell_no_hash_unless_there_is_nothing_to_merge(api: Api) -> None:
    api.add_table("t")
    api.branch("f")
    assert api.merge("f", isDryRun=True)["resultantTargetHash"] == api.head()
    api.add_table("u", "f")
    result = api.merge("f", isDryRun=True, defaultKeyMergeMode="DROP")
    assert result["resultantTargetHash"] is None
    assert result["details"] == [{"key": key("u"), "mergeBehavior": "DROP"}]


def test_ids_and_namespaces_that_no_content_has(api: Api) -> None:
    assert api.try_commit(put("t", table() | {"id": ""}), status=400)["message"] == "Invalid UUID string: "
    for elements in ([""], ["a\n"], ["a"] * 21):
        assert "elements" in api.try_commit(put("n", namespace(*elements)), status=400)["message"]
    api.commit(put("n", namespace("n")), put("n.t"))
    assert api.try_commit(delete("n"))["message"] == "Namespace 'n' is not empty."
