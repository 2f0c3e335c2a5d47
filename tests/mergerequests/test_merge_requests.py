"""A merge request is merged once, at exactly the commit that its checks vouch for, or says why not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MergeRequestNotFound, MergeRequestNotReady, ReferenceNotFound
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.model import (
    NO_ANCESTOR,
    QUARANTINED,
    CheckResult,
    CommitHash,
    MergeRequest,
    MergeRequestState,
    NewMergeRequest,
    ReferenceType,
)
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import head, key, update

Requests = MergeRequests | NessieClient
OPEN, CONFLICT, MERGED, CLOSED = MergeRequestState
GREEN = [CheckResult(name="rows", passed=True), CheckResult(name="keys", passed=True, summary="7 rows")]


def branch(versions: VersionStore, name: str = "run/1", path: str = "a") -> CommitHash:
    """A branch of main, which is not empty, with one more table; its head."""
    if head(versions) == NO_ANCESTOR:
        update(versions, "first", 1)
    versions.create_reference(ReferenceType.BRANCH, name, head(versions))
    return update(versions, path, 1, name)


def ask(requests: Requests, source: str = "run/1", **values: object) -> MergeRequest:
    return requests.create_merge_request(
        NewMergeRequest(source=source, required_checks=("rows", "keys"), author="ann", **values)  # type: ignore[arg-type]
    )


def vouch(requests: Requests, request: MergeRequest) -> MergeRequest:
    return requests.report_checks(request.number, request.source_hash, GREEN, by="dagster")


def test_it_is_merged_once_all_checks_passed(versions: VersionStore, requests: Requests) -> None:
    at = branch(versions)
    request = ask(requests, title="Load May", reason="New month", delete_source=True, properties={"run": ("7",)})
    assert (request.number, request.source_hash, request.target, request.state) == (1, at, "main", OPEN)
    assert request.waits_for == ("rows", "keys") and not request.is_green
    with pytest.raises(MergeRequestNotReady, match="waits for: rows, keys"):
        requests.merge_merge_request(1)
    assert requests.report_checks(1, at, GREEN[:1]).waits_for == ("keys",)
    green = vouch(requests, request)
    assert green.is_green and green.checks == tuple(GREEN)
    done = requests.merge_merge_request(1, by="bob")
    assert done.state is MERGED and done.merge_hash == head(versions)
    entry = versions.list_log(head(versions), limit=1)[0].commit_meta
    assert entry.message == "Load May\n\nNew month" and entry.authors == ("ann",)
    assert entry.all_properties == {"run": ("7",), "nessie_ops.merge_request": ("1",)}
    assert entry.parent_commit_hashes[1] == at
    with pytest.raises(ReferenceNotFound):
        versions.get_reference("run/1")
    assert requests.merge_merge_request(1) == done == requests.get_merge_request(1), "once"
    assert ask(requests, source_hash=at) == done, "asked again, it is the one that was merged"
    assert [step.what.split()[0] for step in done.steps] == ["opened", "checks", "checks", "merged"]


def test_asking_again_is_the_same_request(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    first = ask(requests)
    assert ask(requests) == first
    vouch(requests, first)
    at = update(versions, "a", 2, "run/1")
    assert requests.get_merge_request(1).is_stale
    moved = ask(requests)
    assert (moved.number, moved.source_hash, moved.attempt) == (1, at, 2)
    assert moved.waits_for == ("rows", "keys"), "what was said of another commit no longer counts"
    with pytest.raises(MergeRequestNotReady, match="is about commit"):
        requests.report_checks(1, first.source_hash, GREEN)
    with pytest.raises(MergeRequestNotReady, match="someone wrote to it"):
        ask(requests, source_hash=first.source_hash)


def test_red_stale_and_quarantined_ones_are_closed_with_the_reason(versions: VersionStore, requests: Requests) -> None:
    before = update(versions, "first", 1)
    for name in ("run/red", "run/stale", "run/bad", "run/gone"):
        branch(versions, name, name.replace("/", "_"))
        vouch(requests, ask(requests, name))
    requests.report_checks(1, requests.get_merge_request(1).source_hash, [CheckResult(name="keys", passed=False)])
    update(versions, "x", 1, "run/stale")
    versions.update_properties("run/bad", {QUARANTINED: "broken delivery"})
    versions.delete_reference("run/gone", None)
    closed = [requests.merge_merge_request(number) for number in range(1, 5)]
    assert [row.state for row in closed] == [CLOSED] * 4
    outcomes = [row.outcome for row in closed]
    assert outcomes[0] == "checks failed: keys"
    assert "moved on" in outcomes[1] and "broken delivery" in outcomes[2] and "is gone" in outcomes[3]
    assert head(versions) == before
    with pytest.raises(MergeRequestNotReady, match="is CLOSED"):
        requests.merge_merge_request(1)
    again = requests.retry_merge_request(2)
    assert (again.state, again.attempt, again.outcome) == (OPEN, 2, "") and again.waits_for == ("rows", "keys")
    with pytest.raises(ReferenceNotFound):
        requests.retry_merge_request(4)
    assert [row.number for row in requests.list_merge_requests(state=CLOSED)] == [4, 3, 1]


def test_a_conflict_names_the_tables_and_a_new_commit_opens_it_again(
    versions: VersionStore, requests: Requests
) -> None:
    update(versions, "a", 1)
    versions.create_reference(ReferenceType.BRANCH, "run/1", head(versions))
    update(versions, "a", 2, "run/1")
    update(versions, "a", 3)
    vouch(requests, ask(requests))
    before = head(versions)
    refused = requests.merge_merge_request(1)
    assert refused.state is CONFLICT and [row.key for row in refused.conflicts] == [key("a")]
    assert refused.outcome == "'main' changed 'a' as well" and head(versions) == before
    with pytest.raises(MergeRequestNotReady, match="is CONFLICT"):
        requests.merge_merge_request(1)
    versions.assign_reference("run/1", None, head(versions))
    update(versions, "a", 4, "run/1")
    moved = ask(requests)
    assert (moved.number, moved.state, moved.conflicts) == (1, OPEN, ())
    vouch(requests, moved)
    assert requests.merge_merge_request(1).state is MERGED


def test_approval_is_for_one_commit(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    request = vouch(requests, ask(requests, needs_approval=True))
    assert request.waits_for == ("approval",)
    with pytest.raises(BadRequest, match="by"):
        requests.approve_merge_request(1, request.source_hash, by=" ")
    assert requests.approve_merge_request(1, request.source_hash, by="bob").is_green
    update(versions, "a", 2, "run/1")
    moved = vouch(requests, ask(requests))
    assert moved.waits_for == ("approval",)
    with pytest.raises(MergeRequestNotReady):
        requests.approve_merge_request(1, request.source_hash, by="bob")
    assert requests.approve_merge_request(1, moved.source_hash, by="bob").approved_by == "bob"
    assert requests.merge_merge_request(1).state is MERGED


def test_a_person_closes_one(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    ask(requests)
    with pytest.raises(BadRequest, match="reason"):
        requests.close_merge_request(1, "")
    closed = requests.close_merge_request(1, "not needed", by="ann")
    assert (closed.state, closed.outcome) == (CLOSED, "not needed")
    assert requests.close_merge_request(1, "again") == closed
    with pytest.raises(MergeRequestNotReady, match="cannot be reported on"):
        vouch(requests, closed)
    assert ask(requests).number == 2, "a closed one is not taken up by asking"


def test_many_at_once_are_all_merged_each_once(versions: VersionStore, requests: Requests) -> None:
    names = [f"run/{n}" for n in range(8)]
    for name in names:
        branch(versions, name, name.replace("/", "_"))
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda name: ask(requests, name), names))
        assert sorted(row.number for row in asked) == list(range(1, 9))
        list(pool.map(lambda row: vouch(requests, row), asked))
        done = list(pool.map(lambda row: requests.merge_merge_request(row.number), asked * 3))
    assert {row.state for row in done} == {MERGED}
    merged = [entry.commit_meta for entry in versions.list_log(head(versions))][:-1]
    assert sorted(int(entry.all_properties["nessie_ops.merge_request"][0]) for entry in merged) == list(range(1, 9))
    assert {row.merge_hash for row in done} == {entry.hash for entry in merged}


def test_listings_page_and_filter(versions: VersionStore, requests: Requests) -> None:
    for n in range(5):
        branch(versions, f"run/{n}", f"t{n}")
        ask(requests, f"run/{n}")
    versions.create_reference(ReferenceType.BRANCH, "dev", head(versions))
    ask(requests, "run/3", target="dev")
    numbers = [row.number for row in requests.list_merge_requests()]
    assert numbers == [6, 5, 4, 3, 2, 1]
    assert [row.number for row in requests.list_merge_requests(limit=2, before=5)] == [4, 3]
    assert [row.number for row in requests.list_merge_requests(source="run/3")] == [6, 4]
    assert [row.number for row in requests.list_merge_requests(target="dev", state=OPEN)] == [6]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"source": "a b"}, "source"),
        ({"source": "main"}, "source"),
        ({"target": ".."}, "target"),
        ({"source_hash": "xyz"}, "sourceHash"),
        ({"title": "x" * 501}, "title"),
        ({"reason": "x" * 4001}, "reason"),
        ({"required_checks": ("a", "a")}, "requiredChecks"),
        ({"required_checks": ("",)}, "requiredChecks"),
        ({"properties": {"a": ("x" * 17_000,)}}, "properties"),
    ],
)
def test_bad_input_names_the_field(
    versions: VersionStore, requests: Requests, values: dict[str, object], field: str
) -> None:
    with pytest.raises(BadRequest, match=f"^{field}"):
        requests.create_merge_request(NewMergeRequest(**({"source": "run/1"} | values)))  # type: ignore[arg-type]


def test_what_is_not_there(versions: VersionStore, requests: Requests) -> None:
    with pytest.raises(MergeRequestNotFound, match="9"):
        requests.get_merge_request(9)
    with pytest.raises(MergeRequestNotFound):
        requests.merge_merge_request(9)
    with pytest.raises(ReferenceNotFound, match="run/1"):
        ask(requests)
    branch(versions)
    with pytest.raises(ReferenceNotFound, match="dev"):
        ask(requests, target="dev")
