"""Merge requests at the corners: what is asked again, what vanishes, what cannot be merged, what is too much."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MergeRequestNotReady
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.model import CheckResult, MergeRequestState, NewMergeRequest, ReferenceType
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from tests.mergerequests.test_merge_requests import GREEN, Requests, ask, branch, vouch
from tests.versioning.helpers import head, update

OPEN, CONFLICT, MERGED, CLOSED = MergeRequestState


def test_asking_for_a_new_commit_says_anew_what_it_is(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    ask(requests, title="first", properties={"run": ("1",), "kept": ("x",)})
    update(versions, "a", 2, "run/1")
    moved = requests.create_merge_request(
        NewMergeRequest(
            source="run/1",
            title="second",
            author="bob",
            required_checks=("rows", "new"),
            needs_approval=True,
            delete_source=True,
            properties={"run": ("2",)},
        )
    )
    assert (moved.number, moved.title, moved.steps[-1].by) == (1, "second", "bob")
    assert moved.properties == {"run": ("2",), "kept": ("x",)}
    assert moved.required_checks == ("rows", "keys", "new"), "asking again does not loosen what was required"
    assert moved.needs_approval and moved.delete_source
    update(versions, "a", 3, "run/1")
    again = requests.create_merge_request(NewMergeRequest(source="run/1"))
    assert (again.title, again.properties) == ("second", moved.properties)
    assert again.required_checks == moved.required_checks and again.needs_approval


def test_asking_for_the_same_commit_may_ask_for_more(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    vouch(requests, ask(requests))
    more = ask(requests, needs_approval=True)
    assert (more.number, more.attempt, more.waits_for) == (1, 1, ("approval",))
    assert [check.name for check in more.checks] == ["rows", "keys"], "what was found stays"
    assert ask(requests) == ask(requests, needs_approval=True) == more


def test_a_retry_asks_for_failed_checks_again(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    request = vouch(requests, ask(requests))
    requests.report_checks(1, request.source_hash, [CheckResult(name="keys", passed=False)])
    assert requests.merge_merge_request(1).state is CLOSED
    again = requests.retry_merge_request(1)
    assert (again.state, again.failed, again.waits_for) == (OPEN, (), ("keys",))


def test_an_older_one_is_not_opened_beside_a_newer(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    ask(requests)
    requests.close_merge_request(1, "no")
    ask(requests)
    with pytest.raises(MergeRequestNotReady, match="2"):
        requests.retry_merge_request(1)
    requests.close_merge_request(2, "no")
    assert requests.retry_merge_request(1).state is OPEN
    assert ask(requests).number == 1, "and it is the one that is asked for again"


def test_it_is_closed_only_as_it_was_seen(versions: VersionStore, requests: Requests) -> None:
    at = branch(versions)
    ask(requests)
    update(versions, "a", 2, "run/1")
    ask(requests)
    with pytest.raises(MergeRequestNotReady, match="is about commit"):
        requests.close_merge_request(1, "moved on", commit=at)
    assert requests.get_merge_request(1).state is OPEN


def test_what_can_never_be_merged_is_closed_with_the_reason(versions: VersionStore, requests: Requests) -> None:
    branch(versions, "run/1", "a")
    branch(versions, "run/2", "b")
    versions.create_reference(ReferenceType.BRANCH, "dev", head(versions))
    for number, source in ((1, "run/1"), (2, "run/2")):
        vouch(requests, ask(requests, source, target="dev"))
        assert requests.get_merge_request(number).is_green
    versions.delete_reference("dev", None)
    assert requests.merge_merge_request(1).state is CLOSED
    versions.create_reference(ReferenceType.TAG, "dev", head(versions))
    closed = requests.merge_merge_request(2)
    assert closed.state is CLOSED and "branch" in closed.outcome


def test_the_default_branch_is_not_deleted_with_a_merge(versions: VersionStore, requests: Requests) -> None:
    branch(versions)
    with pytest.raises(BadRequest, match=r"^deleteSource"):
        ask(requests, "main", target="run/1", delete_source=True)
    vouch(requests, ask(requests, "main", target="run/1"))
    assert requests.merge_merge_request(1).state is MERGED


def test_a_merge_of_nothing_says_so(versions: VersionStore, requests: Requests) -> None:
    before = update(versions, "first", 1)
    versions.create_reference(ReferenceType.BRANCH, "run/1", before)
    vouch(requests, ask(requests))
    done = requests.merge_merge_request(1)
    assert (done.state, done.merge_hash, head(versions)) == (MERGED, before, before)
    assert "has all of it" in done.steps[-1].what


def test_words_and_results_are_bounded(versions: VersionStore, requests: Requests) -> None:
    at = branch(versions)
    ask(requests)
    long = "x" * 501
    for call in (
        lambda: requests.report_checks(1, at, GREEN, by=long),
        lambda: requests.approve_merge_request(1, at, by=long),
        lambda: requests.merge_merge_request(1, by=long),
        lambda: requests.retry_merge_request(1, by=long),
        lambda: requests.close_merge_request(1, "no", by=long),
    ):
        with pytest.raises(BadRequest, match=r"^by"):
            call()
    for part in range(2):
        some = [CheckResult(name=f"{part} {n}", passed=True) for n in range(500)]
        requests.report_checks(1, at, some)
    with pytest.raises(BadRequest, match=r"^checks"):
        requests.report_checks(1, at, GREEN)
    with pytest.raises(BadRequest, match=r"^requiredChecks"):
        requests.create_merge_request(
            NewMergeRequest(source="run/1", required_checks=tuple(str(n) for n in range(999)))
        )
    with pytest.raises(BadRequest, match=r"^properties"):
        for n in range(3):
            ask(requests, properties={str(n): ("x" * 8_000,)})


@pytest.mark.parametrize("name", ["a\0b", "zürich", "x" * 2000, "🛫"])
def test_names_that_cannot_be_find_nothing(versions: VersionStore, requests: Requests, name: str) -> None:
    branch(versions)
    ask(requests)
    assert requests.list_merge_requests(source=name) == requests.list_merge_requests(target=name) == []


def test_text_of_all_kinds_is_kept(versions: VersionStore, requests: Requests) -> None:
    at = branch(versions)
    words = "a\0b 🛫 zürich \\ ' \" \n"
    asked = ask(requests, title=words, reason=words, properties={words: (words,)})
    assert (asked.title, asked.reason, asked.properties) == (words, words, {words: (words,)})
    vouch(requests, asked)
    done = requests.merge_merge_request(1, by=words)
    assert done.state is MERGED and requests.get_merge_request(1).title == words
    assert versions.list_log(head(versions), limit=1)[0].commit_meta.message == f"{words}\n\n{words}"
    assert requests.get_merge_request(1).source_hash == at


def test_two_processes_open_the_first_ones_at_once(versions: VersionStore, url: str) -> None:
    if url == "sqlite://":
        return  # of one process alone
    names = [f"run/{n}" for n in range(8)]
    for name in names:
        branch(versions, name, name.replace("/", "_"))
    stores = [VersionStore(Store.open(url)) for _ in names]
    try:
        with ThreadPoolExecutor(len(names)) as pool:
            asked = list(pool.map(lambda row: ask(MergeRequests(row[0]), row[1]), zip(stores, names, strict=True)))
    finally:
        for store in stores:
            store.close()
    assert sorted(row.number for row in asked) == list(range(1, 9))


def test_pages_from_bad_tokens_are_refused(requests: Requests) -> None:
    if isinstance(requests, NessieClient):
        for before in (10**30, -(10**30)):
            with pytest.raises(BadRequest, match="page-token"):
                requests.list_merge_requests(before=before)
        assert requests.list_merge_requests(before=-5) == []
