"""The sensor that follows merge requests meets people, dead processes and what it was not made for; without Spark."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan

from assets.merge_requests import ask_to_merge
from assets.publish import PublishConfig
from assets.run_branches import CONFLICTS, REBASES, branch_name, quarantine
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import CheckResult, MergeRequest, MergeRequestState, NewCommit, NewMergeRequest, ReferenceType
from resources.catalog import CatalogResource
from schedules import merging
from schedules.merging import follow_merge_requests
from schedules.observing import observe_commits
from tests.dagster.test_merge_requests import again, ask, client, launch, materializations, tick, write

__all__ = ["client"]  # a fixture
OPEN, CONFLICT, MERGED, CLOSED = MergeRequestState
STATUS = dg.DagsterRunStatus


def result(instance: dg.DagsterInstance, cursor: str = "") -> dg.SensorResult:
    context = dg.build_sensor_context(
        instance=instance, definitions=build(), resources={"catalog": CatalogResource()}, cursor=cursor or None
    )
    found = follow_merge_requests(context)
    assert isinstance(found, dg.SensorResult)
    return found


def start(instance: dg.DagsterInstance, wanted: dg.RunRequest, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run as the daemon makes it, which has got as far as `status`."""
    assert wanted.job_name
    tags = {**wanted.tags, **({"dagster/partition": wanted.partition_key} if wanted.partition_key else {})}
    return instance.create_run_for_job(
        build().resolve_job_def(wanted.job_name), run_config=wanted.run_config, tags=tags, status=status
    )


def in_conflict(client: NessieClient, instance: dg.DagsterInstance, path: str) -> MergeRequest:
    """A request that a person tried to merge, without success."""
    asked = ask(client, instance, path)
    write(client, "main", path)
    refused = client.merge_merge_request(asked.number, by="ann")
    assert refused.state is CONFLICT
    return refused


def test_a_cancelled_merge_waits_for_a_person(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "aa")
    run = start(instance, tick(instance)[0], STATUS.CANCELED)
    found = result(instance)
    assert not found.run_requests and f"run {run.run_id} was cancelled" in str(found.skip_reason)
    client.retry_merge_request(asked.number, by="ann")
    [wanted] = tick(instance)
    assert launch(instance, wanted).success


def test_keys_of_runs_are_never_used_again(client: NessieClient, instance: dg.DagsterInstance) -> None:
    ask(client, instance, "ab")
    keys, runs = [], []
    for _ in range(3):
        [wanted] = tick(instance)
        keys.append(wanted.run_key)
        runs.append(start(instance, wanted, STATUS.FAILURE))
    instance.delete_run(runs[0].run_id)
    [wanted] = tick(instance)
    assert wanted.run_key not in keys, "Dagster would launch nothing, and say so to nobody"


def test_a_run_that_the_daemon_starts_again_is_waited_for(client: NessieClient, instance: dg.DagsterInstance) -> None:
    ask(client, instance, "ac")
    [wanted] = tick(instance)
    run = start(instance, wanted, STATUS.FAILURE)
    instance.add_run_tags(run.run_id, {"dagster/will_retry": "true"})
    assert tick(instance) == []
    tags = {**wanted.tags, "dagster/parent_run_id": run.run_id}
    replacement = start(instance, wanted._replace(tags=tags), STATUS.STARTED)
    assert tick(instance) == []
    instance.report_run_failed(replacement, "its process died")
    assert len(tick(instance)) == 1


def test_a_pipeline_runs_again_once_for_a_conflict(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = in_conflict(client, instance, "ad")
    [wanted] = tick(instance)
    assert wanted.job_name == "load_month"
    assert client.get_reference(asked.source).properties[CONFLICTS] == "ad", "the person's merge did not say so"
    assert wanted.run_config["ops"]["publish"]["config"]["publish"] == "sensor"
    run = start(instance, wanted, STATUS.FAILURE)
    found = result(instance)
    assert not found.run_requests and run.run_id in str(found.skip_reason)


def test_a_new_commit_of_a_run_names_that_run(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = in_conflict(client, instance, "ae")
    [wanted] = tick(instance)
    run = start(instance, wanted, STATUS.STARTED)
    client.assign_reference(asked.source, None, client.get_reference("main").hash)
    client.update_properties(asked.source, {}, [CONFLICTS])
    moved = again(client, run, "ae")
    assert (moved.number, moved.state) == (asked.number, OPEN)
    [merge] = tick(instance)
    assert launch(instance, merge).success
    meta = client.get_commit(client.get_reference("main").hash)
    assert meta.all_properties["nessie_ops.run_id"] == (run.run_id,)


def test_one_bad_request_does_not_stop_the_others(client: NessieClient, instance: dg.DagsterInstance) -> None:
    write(client, "main", "ae")  # without which branches have no commit in common with it
    foreign = branch_name("of-another-instance")
    main = client.get_reference("main").hash
    for name, properties in ((foreign, {"base_hash": main, REBASES: "0"}), ("run/odd", {"base_hash": main})):
        client.create_reference(ReferenceType.BRANCH, name, main, properties=properties)
        write(client, name, "af")
    write(client, "main", "af")
    for name in (foreign, "run/odd"):
        number = client.create_merge_request(NewMergeRequest(source=name)).number
        assert client.merge_merge_request(number).state is CONFLICT
    good = ask(client, instance, "ag")
    found = result(instance)
    assert [run.tags["nessie/merge_request"] for run in found.run_requests or ()] == [str(good.number)]
    assert client.get_merge_request(good.number).state is OPEN


def test_a_branch_that_is_gone_closes_its_conflict(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = in_conflict(client, instance, "ah")
    client.delete_reference(asked.source, None)
    assert tick(instance) == []
    closed = client.get_merge_request(asked.number)
    assert closed.state is CLOSED and "is gone" in closed.outcome


def test_all_are_looked_at_in_turn(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {str(ask(client, instance, f"ai{n}").number) for n in range(5)}
    monkeypatch.setattr(merging, "MAX_LOOKED_AT", 2)
    seen, cursor = [], ""
    for _ in range(3):
        found = result(instance, cursor)
        seen += [run.tags["nessie/merge_request"] for run in found.run_requests or ()]
        cursor = found.cursor or ""
    assert set(seen) == asked and len(seen) == 6, "and then from the first again"


def test_what_was_told_long_ago_is_not_told_again(client: NessieClient, instance: dg.DagsterInstance) -> None:
    ask(client, instance, "aj")
    [first] = tick(instance)
    assert launch(instance, first).success
    ask(client, instance, "ak")
    assert launch(instance, tick(instance)[0]).success
    told = materializations(instance)
    assert launch(instance, first).success, "as a process does that died before it said that it was done"
    assert materializations(instance) == told


def test_a_run_executed_again_asks_for_its_quarantined_branch(
    client: NessieClient, instance: dg.DagsterInstance
) -> None:
    asked = ask(client, instance, "al")
    client.close_merge_request(asked.number, "the test wants a new one")
    quarantine(client, asked.source, "the run failed")
    found = [CheckResult(name="rows", passed=True)]
    new = ask_to_merge(client, "main", asked.source, NewCommit(message="Load"), found, ["rows"], release=True)
    [wanted] = tick(instance)
    assert wanted.tags["nessie/merge_request"] == str(new.number)
    assert launch(instance, wanted).success


def test_approval_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NESSIE_OPS_PUBLISH", raising=False)
    assert PublishConfig(needs_approval=True).waits() and not PublishConfig().waits()
    with pytest.raises(BadRequest, match="needs_approval"):
        PublishConfig(publish="merge", needs_approval=True).waits()


def test_a_word_for_how_runs_end_that_is_none_is_told_before_any_run(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = build().resolve_job_def("load_month")
    config = {"ops": {"publish": {"config": {"publish": "sensors"}}}}
    with pytest.raises(dg.DagsterInvalidConfigError, match=r"merge.*sensor"):
        create_execution_plan(job, config)
    monkeypatch.setenv("NESSIE_OPS_PUBLISH", "sensors")
    with pytest.raises(BadRequest, match=r"^NESSIE_OPS_PUBLISH: 'sensors' is neither merge nor sensor"):
        build()


def test_an_approval_says_whose(client: NessieClient, instance: dg.DagsterInstance) -> None:
    asked = ask(client, instance, "am", needs_approval=True)
    job = build().resolve_job_def("approve_request")
    with pytest.raises(dg.DagsterInvalidConfigError):
        job.execute_in_process(run_config={"ops": {"approve": {"config": {"number": asked.number}}}}, instance=instance)


def test_what_a_person_merges_elsewhere_is_told_once(client: NessieClient, instance: dg.DagsterInstance) -> None:
    def observe(cursor: str | None) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=instance, definitions=build(), resources={"catalog": CatalogResource()}, cursor=cursor
        )
        found = observe_commits(context)
        assert isinstance(found, dg.SensorResult)
        return found

    start_of_log = observe(None).cursor
    before = materializations(instance)
    merged = client.merge_merge_request(ask(client, instance, "el").number, by="ann")
    assert merged.state is MERGED
    found = observe(start_of_log)
    assert not found.asset_events
    [wanted] = found.run_requests or ()
    assert wanted.run_key == f"tell {merged.number}"
    assert launch(instance, wanted).success
    assert [commit for commit in materializations(instance) if commit not in before] == [merged.merge_hash]
    assert not observe(start_of_log).run_requests, "a tick that is repeated launches none"
