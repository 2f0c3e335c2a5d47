"""Branches and tags over HTTP."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.server.helpers import UNKNOWN, Api, Z, put


def test_config_tells_clients_how_to_talk(api: Api) -> None:
    config = api.get("config")
    assert config["defaultBranch"] == "main"
    assert config["actualApiVersion"] == 2
    assert config["minSupportedApiVersion"] <= 2 <= config["maxSupportedApiVersion"]
    assert config["specVersion"] == "2.2.0"
    assert config["noAncestorHash"] == Z
    assert config["repositoryCreationTimestamp"].endswith("Z")


def test_branches_come_first_then_tags_each_by_name(api: Api) -> None:
    for name, kind in (("z", "BRANCH"), ("a", "TAG"), ("b", "branch"), ("Y", "tag")):
        api.branch(name, kind=kind)
    listed = api.get("trees")
    found = [(ref["type"], ref["name"]) for ref in listed["references"]]
    assert found == [("BRANCH", "b"), ("BRANCH", "main"), ("BRANCH", "z"), ("TAG", "Y"), ("TAG", "a")]
    assert listed["hasMore"] is False and listed["token"] is None


def test_pages_of_references_meet_without_gap(api: Api) -> None:
    for n in range(7):
        api.branch(f"b{n}", kind="TAG" if n % 2 else "BRANCH")
    whole = api.get("trees")["references"]
    paged, token = [], ""
    while token is not None:
        page = api.get("trees", **{"max-records": 3, "page-token": token})
        assert len(page["references"]) <= 3
        assert page["hasMore"] is (page["token"] is not None)
        paged += page["references"]
        token = page["token"]
    assert paged == whole and len(whole) == 8


def test_references_by_prefix_of_their_name(api: Api) -> None:
    for name in ("run/1", "run/2", "runs"):
        api.branch(name)
    assert [ref["name"] for ref in api.get("trees", **{"name-prefix": "run/"})["references"]] == ["run/1", "run/2"]


def test_metadata_counts_commits_against_the_default_branch(api: Api) -> None:
    api.add_table("shared")
    fork = api.head()
    api.branch("x")
    api.branch("empty", Z)
    api.branch("t", kind="TAG")
    api.add_table("mine", "x")
    api.add_table("mine2", "x")
    api.add_table("theirs")
    found = {ref["name"]: ref.get("metadata") for ref in api.get("trees", fetch="ALL")["references"]}
    assert found["x"]["numCommitsAhead"] == 2 and found["x"]["numCommitsBehind"] == 1
    assert found["x"]["commonAncestorHash"] == fork and found["x"]["numTotalCommits"] == 3
    assert found["x"]["commitMetaOfHEAD"]["hash"] == api.head("x")
    assert found["empty"] is None, "an empty branch has no metadata"
    for name in ("main", "t"):
        assert found[name]["numCommitsAhead"] is None and found[name]["commonAncestorHash"] is None
    assert api.get("trees/x", fetch="ALL")["reference"]["metadata"] == found["x"]


def test_no_shared_history_has_the_empty_ancestor(api: Api) -> None:
    api.add_table("a")
    api.branch("alone", Z)
    api.add_table("b", "alone")
    metadata = api.get("trees/alone", fetch="ALL")["reference"]["metadata"]
    assert metadata["commonAncestorHash"] == Z and metadata["numCommitsAhead"] == 1


@pytest.mark.parametrize("path", ["feature%2Fx", "feature%2fx", "feature/x@"])
def test_a_slash_in_a_name_is_escaped_or_followed_by_at(api: Api, path: str) -> None:
    api.branch("feature/x")
    assert api.get(f"trees/{path}")["reference"]["name"] == "feature/x"
    assert api.get(f"trees/{path}/entries")["effectiveReference"]["name"] == "feature/x"
    assert api.get(f"trees/main/diff/{path}")["effectiveToReference"]["name"] == "feature/x"
    assert api.get(f"trees/{path}/diff/{path}")["effectiveFromReference"]["name"] == "feature/x"


def test_writes_reach_a_branch_with_a_raw_slash(api: Api) -> None:
    api.branch("a/b/c")
    api.post(
        f"trees/a/b/c@{api.head('a/b/c')}/history/commit", {"commitMeta": {"message": ""}, "operations": [put("t")]}
    )
    assert api.content("t", "a/b/c")["type"] == "ICEBERG_TABLE"
    assert api.call("GET", "trees/a/b/c/entries").status_code == 404
    assert api.call("DELETE", f"trees/a/b/c@{api.head('a/b/c')}").status_code == 200


@pytest.mark.parametrize("ref", ["-", "main", "main@", "-@"])
def test_the_head_has_several_names(api: Api, ref: str) -> None:
    assert api.get(f"trees/{ref}")["reference"]["name"] == "main"


@pytest.mark.parametrize("ref", [f"main@{Z}", "main~1", f"@{Z}", "main^1", "main*2021-01-01T00:00:00Z"])
def test_getting_a_reference_takes_no_hash(api: Api, ref: str) -> None:
    assert api.get(f"trees/{quote(ref)}", 400)["errorCode"] == "BAD_REQUEST"


@pytest.mark.parametrize("path", ["", f"@{UNKNOWN}", f"@{Z}", "~1", "~3"])
def test_reading_follows_specifications(api: Api, path: str) -> None:
    api.add_table("t")
    status = 404 if UNKNOWN in path else 200
    answer = api.get(f"trees/main{path}/entries", status)
    if status == 200:
        assert len(answer["entries"]) == (0 if path else 1), "before the first commit there is nothing"


def test_specifications_chain(api: Api) -> None:
    heads = [Z]
    for n in range(4):
        api.add_table(f"t{n}")
        heads.append(api.head())
    for spec, expected in (("main~1~2", 1), (f"@{heads[4]}~1", 3), (f"main@{heads[3]}~1^1", 1), ("-~9", 0)):
        effective = api.get(f"trees/{quote(spec)}/entries")["effectiveReference"]
        assert effective["hash"] == heads[expected], spec
    detached = api.get(f"trees/@{heads[2]}/entries")["effectiveReference"]
    assert detached == {"type": "DETACHED", "hash": heads[2]}


@pytest.mark.parametrize("spec", ["~1", "@~1", "@", "DETACHED", "main~0", "main^0", "main*soon", UNKNOWN, "a..b", "9x"])
def test_specifications_that_mean_nothing(api: Api, spec: str) -> None:
    assert api.get(f"trees/{quote(spec, safe='')}/entries", 400)["errorCode"] == "BAD_REQUEST"


def test_create_needs_a_hash(api: Api) -> None:
    for body in ({"type": "BRANCH", "name": "main"}, {}, {"name": "main", "hash": None}):
        error = api.post("trees", body, 400, params={"name": "x", "type": "BRANCH"})
        assert error["message"] == "Target hash must be provided."
    assert api.call("POST", "trees", params={"name": "x", "type": "BRANCH"}).json()["status"] == 400
    error = api.post("trees", {"name": "main", "hash": "~1"}, 400, params={"name": "x", "type": "BRANCH"})
    assert error["message"] == "Target hash must contain a starting commit ID."


def test_create_follows_relative_parts_and_any_commit(api: Api) -> None:
    api.add_table("t")
    body = {"type": "TAG", "name": "main", "hash": f"{api.head()}~1"}
    assert api.post("trees", body, params={"name": "x", "type": "TAG"})["reference"]["hash"] == Z


@pytest.mark.parametrize("name", ["-", "HEAD", "detached", "deadbeef", "a..b", "x.", "x/", "9", "a b", "ü"])
def test_names_that_are_refused(api: Api, name: str) -> None:
    error = api.post("trees", {"name": "main", "hash": Z}, 400, params={"name": name, "type": "BRANCH"})
    assert error["errorCode"] == "BAD_REQUEST" and "name" in error["message"]


@pytest.mark.parametrize("params", [{"name": "x", "type": "Tag"}, {"name": "x"}, {"type": "TAG"}])
def test_create_needs_name_and_type(api: Api, params: dict[str, str]) -> None:
    assert api.post("trees", {"name": "main", "hash": Z}, 400, params=params)["errorCode"] == "BAD_REQUEST"


def test_one_name_space_for_branches_and_tags(api: Api) -> None:
    api.branch("x")
    error = api.post("trees", {"name": "main", "hash": Z}, 409, params={"name": "x", "type": "TAG"})
    assert error["errorCode"] == "REFERENCE_ALREADY_EXISTS" and "errorDetails" not in error
    error = api.post("trees", {"name": "nope", "hash": Z}, 404, params={"name": "y", "type": "TAG"})
    assert error["message"] == "Named reference 'nope' not found"
    error = api.post("trees", {"name": "main", "hash": UNKNOWN}, 404, params={"name": "y", "type": "TAG"})
    assert error["errorCode"] == "REFERENCE_NOT_FOUND"


def test_assign_moves_a_reference_from_its_head(api: Api) -> None:
    api.add_table("t")
    head = api.head()
    api.branch("x", Z)
    api.branch("tag", Z, "TAG")
    for name in ("x", "tag"):
        answer = api.call("PUT", f"trees/{name}@{Z}", json={"type": "DETACHED", "hash": head})
        assert answer.json()["reference"]["hash"] == head
    stale = api.call("PUT", f"trees/x@{Z}", json={"type": "BRANCH", "name": "main", "hash": head})
    assert stale.status_code == 409
    (conflict,) = stale.json()["errorDetails"]["conflicts"]
    assert conflict["conflictType"] == "UNEXPECTED_HASH" and conflict["key"] is None
    assert api.call("PUT", f"trees/x@{head}", params={"type": "TAG"}, json={"hash": Z}).status_code == 400
    assert (
        api.call("PUT", f"trees/x@{head}", json={"name": "main"}).json()["message"] == "Target hash must be provided."
    )
    assert api.call("PUT", "trees/x", json={"hash": Z}).json()["message"] == "Expected hash must be provided."
    detached = api.call("PUT", f"trees/@{head}", json={"hash": Z})
    assert detached.json()["message"] == "Assignment target must be a branch or a tag."


def test_delete_answers_with_what_was_deleted(api: Api) -> None:
    api.add_table("t")
    head = api.branch("x")
    assert api.call("DELETE", "trees/x").json()["message"] == "Expected hash must be provided."
    assert api.call("DELETE", "trees/x~1").json()["message"] == "Expected hash must contain a starting commit ID."
    assert api.call("DELETE", f"trees/x@{UNKNOWN}").status_code == 409
    assert api.call("DELETE", f"trees/x@{head}", params={"type": "TAG"}).status_code == 400
    assert api.call("DELETE", f"trees/nope@{head}").status_code == 404
    refused = api.call("DELETE", f"trees/main@{head}")
    assert (refused.status_code, refused.json()["message"]) == (400, "Default branch 'main' cannot be deleted.")
    gone = api.call("DELETE", f"trees/x@{head}", params={"type": "BRANCH"})
    assert gone.status_code == 200 and gone.json() == {"reference": {"type": "BRANCH", "name": "x", "hash": head}}
    assert api.get("trees/x", 404)["message"] == "Named reference 'x' not found"


def test_properties_quarantine_a_branch(api: Api) -> None:
    api.branch("run/7")
    path = "trees/run%2F7/properties"
    marked = api.call("PUT", path, json={"updates": {"quarantined": "nulls", "a": "b"}}).json()["reference"]
    assert marked["properties"] == {"quarantined": "nulls", "a": "b"}
    asked = {"Nessie-Ops-Properties": "true"}
    for at in (
        "trees/run%2F7",
        "trees/run%2F7?fetch=ALL",
        "trees",
        "trees?fetch=ALL",
        "trees/run%2F7/entries",
    ):
        assert '"quarantined"' not in api.call("GET", at).text  # Nessie's clients refuse it
    assert api.call("GET", "trees/run%2F7", headers=asked).json()["reference"] == marked
    assert marked in api.call("GET", "trees", headers=asked).json()["references"]
    api.add_table("t", "run/7")
    refused = api.post(f"trees/main@{Z}/history/merge", {"fromRefName": "run/7", "fromHash": api.head("run/7")}, 403)
    assert refused["errorCode"] == "FORBIDDEN" and "nulls" in refused["message"]
    stale = api.call("PUT", f"trees/run%2F7@{Z}/properties", json={"removals": ["quarantined"]})
    assert stale.status_code == 409
    freed = api.call("PUT", f"trees/run%2F7@{api.head('run/7')}/properties", json={"removals": ["quarantined"]})
    assert freed.json()["reference"]["properties"] == {"a": "b"}
    assert api.call("PUT", path, json={"updates": {"a": None}}).status_code == 400
    assert api.call("PUT", f"trees/@{Z}/properties", json={}).status_code == 400


def test_a_new_reference_may_have_properties(api: Api) -> None:
    body = {"name": "main", "hash": Z, "newProperties": {"run": "7"}}
    made = api.post("trees", body, params={"name": "x", "type": "BRANCH"})["reference"]
    assert made["properties"] == {"run": "7"}


def test_the_reference_log_tells_every_move(api: Api) -> None:
    api.branch("x")
    api.add_table("t", "x")
    first = api.get("reference-log")
    assert [(move["name"], move["action"]) for move in first["moves"]] == [
        ("main", "CREATED"),
        ("x", "CREATED"),
        ("x", "COMMITTED"),
    ]
    assert first["moves"][0]["before"] is None and first["moves"][2]["after"] == api.head("x")
    api.call("DELETE", f"trees/x@{api.head('x')}")
    last = first["moves"][-1]["seq"]
    assert [move["action"] for move in api.get("reference-log", after=last)["moves"]] == ["DELETED"]
    page = api.get("reference-log", **{"max-records": 1, "name": "x", "newest-first": "true"})
    assert page["moves"][0]["action"] == "DELETED" and page["hasMore"] is True


def test_pages_of_the_reference_log_meet_in_both_directions(api: Api) -> None:
    for n in range(5):
        api.branch(f"b{n}")
    for params in ({}, {"newest-first": "true"}, {"after": 2}, {"after": 2, "newest-first": "true"}, {"name": "b3"}):
        whole = api.get("reference-log", **params)
        assert (whole["hasMore"], whole["token"]) == (False, None)
        paged, token = [], ""
        while token is not None:
            page = api.get("reference-log", **params, **{"max-records": 2, "page-token": token})
            assert page["hasMore"] is (page["token"] is not None)
            paged += page["moves"]
            token = page["token"]
            known = {move["seq"] for move in whole["moves"]}
        assert [move for move in paged if move["seq"] in known] == whole["moves"]
        api.get("reference-log", 400, **{"page-token": "x"})
