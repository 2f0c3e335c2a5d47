"""Merge requests in Dagster: what the sensor launches and closes, and what the job that merges does; without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg
import pytest

from assets.merge_requests import MAX_FAILURES, ask_to_merge
from assets.publish import publish
from assets.run_branches import BASE, CONFLICTS, MAX_REBASES, REBASES, branch_name, open_branch, quarantine, validate
from assets.runs import REQUEST_TAG, branch_of, root_of
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.model import CheckResult, CommitHash, MergeRequest, MergeRequestState, NewCommit, Put
from resources.catalog import CatalogResource
from schedules.merging import ATTEMPT_TAG, follow_merge_requests
from tests.versioning.helpers import key, table

CHECKS = ("silver.flights:keys_unique", "gold.carrier_delays:keys_unique")
OPEN, CONFLICT, MERGED, CLOSED = MergeRequestState
N = iter(range(1, 1000))


def write(client: NessieClient, branch: str, path: str) -> CommitHash:
    """Set a table to a new state; the branch's new head."""
    at = client.get_reference(branch).hash
    known = client.get_contents(at, [key(path)]).get(key(path))
    meta = NewCommit(message="m")
    content = table(next(N), str(known.id) if known else None)
    return client.commit(branch, at, meta, [Put(key(path), content)]).target_branch.hash


def ask(
    client: NessieClient, instance: dg.DagsterInstance, path: str, *, red: bool = False, needs_approval: bool = False
) -> MergeRequest:
    """The merge request of a run that has written one table."""
    run = instance.create_run_for_job(build().resolve_job_def("load_month"), tags={"dagster/partition": "2013-01"})
    name = branch_name(run.run_id)
    open_branch(client, "main", name, ["bronze", "silver"])
    return again(client, run, path, red=red, needs_approval=needs_approval)


def again(
    client: NessieClient, run: dg.DagsterRun, path: str, *, red: bool = False, needs_approval: bool = False
) -> MergeRequest:
    """What a run does at its end."""
    write(client, branch_of(run), path)
    validate(client, branch_of(run), [])
    meta = NewCommit(
        message="Load", properties={"nessie_ops.run_id": (run.run_id,), "nessie_ops.partition": ("2013-01",)}
    )
    results = [CheckResult(name=name, passed=not (red and name == CHECKS[0])) for name in CHECKS]
    return ask_to_merge(
        client, "main", branch_of(run), meta, results, CHECKS, author="load_month", needs_approval=needs_approval
    )


@pytest.fixture
def client(home: Any) -> Iterator[NessieClient]:
    client = CatalogResource().client
    yield client
    for request in client.list_merge_requests():
        if request.state in (OPEN, CONFLICT):
            client.close_merge_request(request.number, "the test has ended")


def tick(instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """What one evaluation of the sensor launches."""
    definitions = build()
    context = dg.build_sensor_context(
        instance=instance, definitions=definitions, resources={"catalog": CatalogResource()}
    )
    found = follow_merge_requests(context)
    assert isinstance(found, dg.SensorResult)
    return list(found.run_requests or [])


def launch(instance: dg.DagsterInstance, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    assert request.job_name
    job = build().resolve_job_def(request.job_name)
    return job.execute_in_process(
        run_config=request.run_config, tags=request.tags, instance=instance, raise_on_error=False
    )


def materializations(instance: dg.DagsterInstance) -> list[str]:
    records = instance.fetch_materializations(publish.key, limit=100).records
    return [str(record.asset_materialization.metadata["nessie/commit"].value) for record in records]  # type: ignore[union-attr]


def test_green_ones_are_merged_once(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "a")
    assert asked.is_green and asked.required_checks == CHECKS
    [run] = tick(instance)
    assert run == tick(instance)[0], "a tick that is repeated launches the same run, which Dagster knows by its key"
    assert (run.job_name, run.tags[REQUEST_TAG]) == ("merge_one_request", str(asked.number))
    assert materializations(instance) == [], "nothing is told of main before its commit is there"
    assert launch(instance, run).success
    head = client.get_reference("main").hash
    assert materializations(instance) == [head]
    assert client.get_merge_request(asked.number).merge_hash == head
    assert client.list_references(prefix=asked.source) == []
    assert launch(instance, run).success, "run again, it finds what was done"
    assert client.get_reference("main").hash == head and materializations(instance) == [head]
    assert tick(instance) == []


def test_red_stale_and_quarantined_ones_are_closed(client: NessieClient, instance: dg.DagsterInstance) -> None:
    before = client.get_reference("main").hash
    red, stale, bad = ask(client, instance, "b", red=True), ask(client, instance, "c"), ask(client, instance, "d")
    write(client, stale.source, "c")
    quarantine(client, bad.source, "broken delivery")
    assert tick(instance) == []
    found = [client.get_merge_request(request.number) for request in (red, stale, bad)]
    assert [request.state for request in found] == [CLOSED] * 3
    assert found[0].outcome == f"checks failed: {CHECKS[0]}"
    assert "moved on" in found[1].outcome and "broken delivery" in found[2].outcome
    assert client.get_reference("main").hash == before


def test_one_that_waits_for_a_person(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "e", needs_approval=True)
    assert tick(instance) == []
    job = build().resolve_job_def("approve_request")
    config = {"ops": {"approve": {"config": {"number": asked.number, "by": "ann", "commit": asked.source_hash}}}}
    assert job.execute_in_process(run_config=config, instance=instance).success
    [run] = tick(instance)
    assert launch(instance, run).success
    assert client.get_merge_request(asked.number).state is MERGED


def test_a_conflict_runs_the_pipeline_again_on_the_new_main(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "f")
    write(client, "main", "f")
    [run] = tick(instance)
    assert not launch(instance, run).success
    refused = client.get_merge_request(asked.number)
    assert refused.state is CONFLICT and client.get_reference(asked.source).properties[CONFLICTS] == "f"
    [rebase] = tick(instance)
    root = asked.source.removeprefix("run/")
    assert (rebase.job_name, rebase.partition_key) == ("load_month", "2013-01")
    assert (rebase.tags["dagster/root_run_id"], rebase.tags["dagster/parent_run_id"]) == (root, root)

    # What that run does, but for Spark.
    run_again = instance.create_run_for_job(
        build().resolve_job_def("load_month"), tags={"dagster/partition": "2013-01", **rebase.tags}
    )
    assert (root_of(run_again), branch_of(run_again)) == (root, asked.source)
    assert tick(instance) == [], "it is under way"
    opened = open_branch(client, "main", asked.source, ["bronze", "silver"])
    assert (opened.base, opened.rebases) == (client.get_reference("main").hash, 1)
    moved = again(client, run_again, "f")
    assert (moved.number, moved.attempt, moved.state) == (asked.number, 2, OPEN)
    [run] = tick(instance)
    assert launch(instance, run).success
    assert client.get_merge_request(asked.number).merge_hash == client.get_reference("main").hash


def test_a_conflict_that_comes_too_often_waits_for_a_person(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "g")
    write(client, "main", "g")
    assert not launch(instance, tick(instance)[0]).success
    client.update_properties(asked.source, {REBASES: str(MAX_REBASES)})
    assert tick(instance) == []
    client.update_properties(asked.source, {}, [BASE])
    assert tick(instance) == [], "nor is there a run to execute again for a branch that no run opened"


def test_runs_that_fail_are_bounded(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "h")
    keys = []
    for _ in range(MAX_FAILURES):
        [wanted] = tick(instance)
        keys.append(wanted.run_key)
        run = instance.create_run_for_job(
            build().resolve_job_def("merge_one_request"), run_config=wanted.run_config, tags=dict(wanted.tags)
        )
        assert tick(instance) == []
        instance.report_run_failed(run, "the catalog's server was down")
    assert len(set(keys)) == MAX_FAILURES and wanted.tags[ATTEMPT_TAG] == "1 OPEN"
    assert tick(instance) == [] and client.get_merge_request(asked.number).state is OPEN
    job = build().resolve_job_def("retry_request")
    config = {"ops": {"retry": {"config": {"number": asked.number}}}}
    assert job.execute_in_process(run_config=config, instance=instance).success
    [run] = tick(instance)
    assert launch(instance, run).success, "a person asked for more"


def test_a_person_closes_one(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "i")
    job = build().resolve_job_def("close_request")
    config = {"ops": {"close": {"config": {"number": asked.number, "reason": "not wanted"}}}}
    assert job.execute_in_process(run_config=config, instance=instance).success
    assert tick(instance) == []
    assert client.get_merge_request(asked.number).outcome == "not wanted"


def test_branches_that_wait_are_not_reaped(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "j", needs_approval=True)
    run = instance.get_run_by_id(asked.source.removeprefix("run/"))
    assert run
    instance.report_run_failed(run, "ended")
    result = build().resolve_job_def("reap_branches").execute_in_process(instance=instance)
    assert result.success and "quarantined" not in client.get_reference(asked.source).properties
