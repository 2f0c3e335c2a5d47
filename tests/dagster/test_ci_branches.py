"""What branches of changes say, when others wrote what stands there, and who may touch them; without Spark."""

from __future__ import annotations

import dagster as dg
import pytest

from assets.ci_branches import drop_branch, merge_branch
from nessie_ops.ci.actions import list_all
from nessie_ops.ci.outcomes import Execution, Task, Tell
from nessie_ops.ci.trying import Wanted, try_change
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.mergerequests.leases import EXPIRES_AT, OWNED, OWNER
from nessie_ops.model import MergeRequestState, NewCommit, NewMergeRequest, Put
from tests.dagster.foreign import add_namespaces, fork, write
from tests.versioning.helpers import key, table


class Stopped(Exception):
    """Instead of a run."""


def up(client: NessieClient, name: str, **words: str) -> Task:
    """What `ci up` would run first."""
    tasks = []

    def stop(task: Task, tell: Tell) -> Execution:
        tasks.append(task)
        raise Stopped

    try:
        try_change(client, Wanted(name, **words), stop, lambda text: None)  # type: ignore[arg-type]
    except Stopped:
        return tasks[0]
    raise AssertionError("nothing was run")


def test_what_others_opened_stays_as_it_is(client: NessieClient, instance: dg.DagsterInstance) -> None:
    before = client.get_reference("main").hash
    fork(client, "ci/theirs")
    request = client.create_merge_request(NewMergeRequest(source="ci/theirs", required_checks=("rows",)))
    with pytest.raises(BadRequest, match="not opened by"):
        up(client, "theirs")
    with pytest.raises(BadRequest, match="not opened by"):
        drop_branch(client, "ci/theirs")
    assert client.get_merge_request(request.number).state is MergeRequestState.OPEN
    assert client.get_reference("main").hash == before, "not even namespaces were made"


def test_the_newest_month_is_one_that_can_be_loaded(client: NessieClient) -> None:
    add_namespaces(client, "bronze")
    at = client.get_reference(fork(client, "release")).hash
    for months in (("2013-02", "2013-01"), ("soon",), ("2031-01", ""), ("2013-2",)):
        meta = NewCommit(message="m", properties={"nessie_ops.partition": months})
        known = client.get_contents(at, [key("bronze.a")]).get(key("bronze.a"))
        put = Put(key("bronze.a"), table(len(months), str(known.id) if known else None))
        at = client.commit("release", at, meta, [put]).target_branch.hash
    assert up(client, "month", target="release").month == "2013-02"
    assert drop_branch(client, "ci/month") is not None


@pytest.mark.parametrize("until", ["soon", "2026-01-01T00:00:00", ""])
def test_a_lease_that_is_no_time_hides_no_other_branch(client: NessieClient, until: str) -> None:
    for name, text in (("ci/odd", until), ("ci/over", "2026-01-01T00:00:00Z")):
        client.update_properties(fork(client, name), {OWNER: OWNED, EXPIRES_AT: text})
    found = {row["name"]: row["expired"] for row in list_all().value}
    assert (found["ci/odd"], found["ci/over"]) == (None, True)
    for name in ("ci/odd", "ci/over"):
        client.delete_reference(name, None)


def test_only_the_request_into_its_target_is_merged(client: NessieClient) -> None:
    up(client, "two")
    head = write(client, "ci/two", "silver.flights")
    asked = NewMergeRequest(source="ci/two", target="main", required_checks=("rows",), needs_approval=True)
    wanted = client.create_merge_request(asked)
    elsewhere = client.create_merge_request(NewMergeRequest(source="ci/two", target=fork(client, "elsewhere")))
    done = merge_branch(client, "ci/two", by="ann")
    assert (done.number, done.commit) == (wanted.number, None) and "checks have not run: rows" in done.reason
    assert client.get_merge_request(elsewhere.number).state is MergeRequestState.OPEN
    assert head not in {client.get_reference(name).hash for name in ("main", "elsewhere")}
