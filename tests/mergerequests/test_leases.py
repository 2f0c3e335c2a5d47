"""Branches whose time is over go, unless somebody needs them; requests that nobody took up are closed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import MergeRequestNotReady
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.mergerequests.leases import EXPIRES_AT, OWNED, OWNER, close_old_requests, reap_expired
from nessie_ops.model import CommitHash, MergeRequest, MergeRequestState, NewMergeRequest, Reference, ReferenceType
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import head, update

Requests = MergeRequests | NessieClient
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PAST, FUTURE = NOW - timedelta(seconds=1), NOW + timedelta(seconds=1)


def lend(versions: VersionStore, name: str, until: str, **more: str) -> None:
    properties = {OWNER: OWNED, EXPIRES_AT: until} | more
    versions.create_reference(ReferenceType.BRANCH, name, head(versions), properties=properties)


def names(versions: VersionStore) -> set[str]:
    return {found.name for found in versions.list_references()}


def test_what_is_over_is_deleted_whatever_its_name(versions: VersionStore, requests: Requests) -> None:
    references = requests if isinstance(requests, NessieClient) else versions
    update(versions, "a", 1)
    lend(versions, "ci/1", PAST.isoformat())
    lend(versions, "try-me", NOW.isoformat().replace("+00:00", "Z"), quarantined="bad rows")
    lend(versions, "ci/2", FUTURE.isoformat())
    lend(versions, "ci/theirs", PAST.isoformat(), owner="ann")
    versions.create_reference(ReferenceType.BRANCH, "ci/free", head(versions), properties={OWNER: OWNED})
    versions.create_reference(
        ReferenceType.TAG, "ci/tag", head(versions), properties={OWNER: OWNED, EXPIRES_AT: PAST.isoformat()}
    )
    versions.update_properties("main", {OWNER: OWNED, EXPIRES_AT: PAST.isoformat()})
    before = names(versions)
    assert reap_expired(references, requests, NOW, dry_run=True).deleted == ["ci/1", "try-me"]
    assert names(versions) == before
    found = reap_expired(references, requests, NOW)
    assert (found.deleted, found.kept, found.unreadable) == (["ci/1", "try-me"], {}, {})
    assert names(versions) == before - {"ci/1", "try-me"}
    assert reap_expired(references, requests, NOW).deleted == []


def test_a_time_that_is_none_is_named_and_stops_nothing(versions: VersionStore, requests: Requests) -> None:
    references = requests if isinstance(requests, NessieClient) else versions
    odd = ("tomorrow", "", "2026-04-01", "2026-04-01T00:00:00", "9" * 40)
    texts = {f"ci/{number}": text for number, text in enumerate(odd)}
    for name, text in texts.items():
        lend(versions, name, text)
    lend(versions, "ci/z", PAST.isoformat())
    found = reap_expired(references, requests, NOW)
    assert (found.deleted, found.unreadable) == (["ci/z"], texts)
    assert texts.keys() <= names(versions)


def test_what_somebody_needs_stays(versions: VersionStore, requests: Requests) -> None:
    references = requests if isinstance(requests, NessieClient) else versions
    update(versions, "a", 1)
    for name in ("ci/asked", "ci/target", "ci/runs"):
        lend(versions, name, PAST.isoformat())
    update(versions, "b", 1, "ci/asked")
    request = requests.create_merge_request(NewMergeRequest(source="ci/asked", target="ci/target"))
    found = reap_expired(references, requests, NOW, lambda name: name == "ci/runs")
    open_one = "merge request 1 is open"
    assert found.kept == {"ci/asked": open_one, "ci/target": open_one, "ci/runs": "a run works on it"}
    assert found.deleted == []
    requests.close_merge_request(request.number, "no")
    assert reap_expired(references, requests, NOW).deleted == ["ci/asked", "ci/runs", "ci/target"]


def test_a_change_that_nobody_approved_goes_with_its_branch(versions: VersionStore, requests: Requests) -> None:
    references = requests if isinstance(requests, NessieClient) else versions
    update(versions, "a", 1)
    for name in ("ci/forgotten", "ci/approved"):
        lend(versions, name, PAST.isoformat())
        update(versions, name, 1, name)
        requests.create_merge_request(NewMergeRequest(source=name, needs_approval=True))
    requests.approve_merge_request(2, versions.get_reference("ci/approved").hash, by="ann")
    versions.create_reference(ReferenceType.BRANCH, "release", head(versions))
    for target, checks in (("main", ()), ("release", ("rows",))):  # into two targets, and one waits for a check, too
        requests.create_merge_request(
            NewMergeRequest(source="ci/forgotten", target=target, needs_approval=True, required_checks=checks)
        )
    for dry_run in (True, False):
        found = reap_expired(references, requests, NOW, dry_run=dry_run)
        assert (found.deleted, sorted(found.closed)) == (["ci/forgotten"], [1, 3])
        assert found.kept == {"ci/approved": "merge request 2 is open"}
    for number in (1, 3):
        closed = requests.get_merge_request(number)
        assert closed.state == MergeRequestState.CLOSED
        assert closed.outcome.startswith("the time of its branch was over at")


class Busy:
    """References that somebody changes after they were listed: a commit, or a longer time."""

    def __init__(self, versions: VersionStore) -> None:
        self._versions = versions
        self.default_branch = versions.default_branch

    def list_references(self, **options: object) -> list[Reference]:
        found = self._versions.list_references(**options)  # type: ignore[arg-type]
        update(self._versions, "new", 1, "ci/a")
        self._versions.update_properties("ci/b", {EXPIRES_AT: FUTURE.isoformat()})
        self._versions.delete_reference("ci/c", None)
        return found

    def get_reference(self, name: str) -> Reference:
        return self._versions.get_reference(name)

    def delete_reference(self, name: str, expected: CommitHash | None) -> Reference:
        return self._versions.delete_reference(name, expected)


def test_what_is_changed_meanwhile_stays(versions: VersionStore, requests: Requests) -> None:
    update(versions, "a", 1)
    for name in ("ci/a", "ci/b", "ci/c"):
        lend(versions, name, PAST.isoformat())
    found = reap_expired(Busy(versions), requests, NOW)
    assert found.kept == dict.fromkeys(("ci/a", "ci/b"), "somebody changed it meanwhile")
    assert found.deleted == ["ci/c"] and {"ci/a", "ci/b"} <= names(versions)


def test_requests_that_wait_for_too_long_are_closed(versions: VersionStore, requests: Requests) -> None:
    update(versions, "a", 1)
    found: list[MergeRequest] = []
    for number in range(3):
        versions.create_reference(ReferenceType.BRANCH, f"run/{number}", head(versions))
        found.append(requests.create_merge_request(NewMergeRequest(source=f"run/{number}")))
    requests.close_merge_request(1, "no")
    wait, last = timedelta(days=30), found[2].updated_at
    assert close_old_requests(requests, wait, last + wait - timedelta(minutes=1)) == []
    assert close_old_requests(requests, wait, last + wait, dry_run=True) == [2, 3]
    assert requests.get_merge_request(2).state is MergeRequestState.OPEN
    assert close_old_requests(requests, wait, last + wait, by="dagster") == [2, 3]
    for number in (2, 3):
        closed = requests.get_merge_request(number)
        assert closed.state is MergeRequestState.CLOSED
        assert "nothing was done about it since" in closed.outcome and "30 days" in closed.outcome
    assert requests.get_merge_request(1).outcome == "no"
    assert close_old_requests(requests, wait, last + wait) == []


class Merging:
    """Requests that are merged after they were listed."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self.list_merge_requests = requests.list_merge_requests

    def close_merge_request(self, number: int, reason: str, *, by: str = "") -> MergeRequest:
        self._requests.merge_merge_request(number)
        with pytest.raises(MergeRequestNotReady):
            self._requests.close_merge_request(number, reason, by=by)
        raise MergeRequestNotReady("it is merged")


def test_one_that_is_merged_meanwhile_is_not_closed(versions: VersionStore, requests: Requests) -> None:
    update(versions, "a", 1)
    versions.create_reference(ReferenceType.BRANCH, "run/1", head(versions))
    update(versions, "b", 1, "run/1")
    at = requests.create_merge_request(NewMergeRequest(source="run/1")).updated_at
    assert close_old_requests(Merging(requests), timedelta(0), at) == []
    assert requests.get_merge_request(1).state is MergeRequestState.MERGED
