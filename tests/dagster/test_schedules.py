"""What happens to branches when runs end badly, and when months are loaded by the clock; no Spark is needed."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest
from dagster._core.definitions.run_status_sensor_definition import RunStatusSensorDefinition
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

from assets.run_branches import branch_name, open_branch, quarantine
from assets.tables import months
from assets.transforms.tables import NAMESPACES, TABLES
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    QUARANTINED,
    ContentKey,
    IcebergTable,
    NewCommit,
    NewMergeRequest,
    Put,
    ReferenceType,
)
from resources.catalog import CatalogResource
from schedules.endings import is_live, quarantine_run
from schedules.schedules import load_next_month
from schedules.sensors import quarantine_cancelled, quarantine_failed
from schedules.times import check_names, get_cron

MONTHLY = tuple(table.name for table in TABLES.values() if table.monthly)
ORIGIN = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("nessie_ops"), "repository"), "load_month")


def start_run(
    instance: dg.DagsterInstance, client: NessieClient, parent: dg.DagsterRun | None = None, *, launched: bool = False
) -> dg.DagsterRun:
    """A run of load_month that has opened its branch; `launched` through the web server or the daemon."""
    tags = {"dagster/partition": "2013-01"}
    if parent:
        root = parent.root_run_id or parent.run_id
        tags |= {"dagster/parent_run_id": parent.run_id, "dagster/root_run_id": root}
    run = instance.create_run_for_job(
        build().resolve_job_def("load_month"),
        tags=tags,
        parent_run_id=parent.run_id if parent else None,
        root_run_id=(parent.root_run_id or parent.run_id) if parent else None,
        remote_job_origin=ORIGIN if launched else None,
    )
    open_branch(client, "main", branch_name(run.root_run_id or run.run_id), NAMESPACES)
    return run


def reload(instance: dg.DagsterInstance, run: dg.DagsterRun) -> dg.DagsterRun:
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    return found


def end(instance: dg.DagsterInstance, run: dg.DagsterRun, status: dg.DagsterRunStatus) -> dg.DagsterEvent:
    """End the run; the event that says so."""
    if status == dg.DagsterRunStatus.FAILURE:
        instance.report_run_failed(run, "for a test")
    else:
        instance.report_run_canceled(run)
    name = {"FAILURE": dg.DagsterEventType.RUN_FAILURE, "CANCELED": dg.DagsterEventType.RUN_CANCELED}[status.value]
    [record] = instance.get_records_for_run(run.run_id, of_type=name).records
    assert record.event_log_entry.dagster_event is not None
    return record.event_log_entry.dagster_event


def reason_of(client: NessieClient, run: dg.DagsterRun) -> str | None:
    return client.get_reference(branch_name(run.root_run_id or run.run_id)).properties.get(QUARANTINED)


@pytest.mark.parametrize(
    ("sensor", "status", "reason"),
    [
        (quarantine_failed, dg.DagsterRunStatus.FAILURE, "the run failed: its process ended"),
        (quarantine_cancelled, dg.DagsterRunStatus.CANCELED, "the run was cancelled"),
    ],
    ids=["failed", "cancelled"],
)
def test_a_sensor_quarantines_the_branch(
    instance: dg.DagsterInstance,
    client: NessieClient,
    sensor: RunStatusSensorDefinition,
    status: dg.DagsterRunStatus,
    reason: str,
) -> None:
    run = start_run(instance, client, launched=True)
    event = end(instance, run, status)
    context = dg.build_run_status_sensor_context(
        sensor.name, event, instance, reload(instance, run), resources={"catalog": CatalogResource()}
    )
    sensor(context.for_run_failure() if status == dg.DagsterRunStatus.FAILURE else context)
    assert reason_of(client, run) == reason


def test_sensors_watch_without_being_switched_on() -> None:
    repository = build().get_repository_def()
    ours = [sensor for sensor in repository.sensor_defs if sensor.name.startswith("quarantine_")]
    assert len(ours) == 2
    assert all(sensor.default_status == dg.DefaultSensorStatus.RUNNING for sensor in ours)


def test_a_run_that_works_or_will_be_retried_keeps_its_branch(
    instance: dg.DagsterInstance, client: NessieClient
) -> None:
    working = start_run(instance, client)
    assert quarantine_run(instance, client, working.run_id) is None
    assert is_live(instance, working.run_id)

    retried = start_run(instance, client, launched=True)
    instance.add_run_tags(retried.run_id, {"dagster/max_retries": "3"})
    end(instance, retried, dg.DagsterRunStatus.FAILURE)
    assert reload(instance, retried).tags["dagster/will_retry"] == "true"
    assert quarantine_run(instance, client, retried.run_id) is None
    assert is_live(instance, retried.run_id)

    # A daemon cannot launch again what a process of its own executed, whatever the tag says.
    driven = start_run(instance, client)
    instance.add_run_tags(driven.run_id, {"dagster/max_retries": "3"})
    end(instance, driven, dg.DagsterRunStatus.FAILURE)
    assert quarantine_run(instance, client, driven.run_id)
    assert not is_live(instance, driven.run_id)


def test_a_branch_that_another_run_has_taken_over_is_left_to_it(
    instance: dg.DagsterInstance, client: NessieClient
) -> None:
    first = start_run(instance, client)
    end(instance, first, dg.DagsterRunStatus.FAILURE)
    second = start_run(instance, client, first)
    assert quarantine_run(instance, client, first.run_id) is None
    assert is_live(instance, first.run_id)
    end(instance, second, dg.DagsterRunStatus.FAILURE)
    assert quarantine_run(instance, client, first.run_id) is None
    assert quarantine_run(instance, client, second.run_id) == reason_of(client, first)


def test_a_branch_whose_retries_have_failed_too_is_reaped(
    instance: dg.DagsterInstance, client: NessieClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start_run(instance, client, launched=True)
    instance.add_run_tags(first.run_id, {"dagster/max_retries": "1"})
    end(instance, first, dg.DagsterRunStatus.FAILURE)
    assert is_live(instance, first.run_id)
    retry = start_run(instance, client, first, launched=True)
    assert is_live(instance, first.run_id)
    end(instance, retry, dg.DagsterRunStatus.FAILURE)
    assert reload(instance, first).tags["dagster/will_retry"] == "true"  # of the first it is never taken back
    assert not is_live(instance, first.run_id)

    assert quarantine_run(instance, client, retry.run_id)
    monkeypatch.setenv("NESSIE_OPS_QUARANTINE_DAYS", "0")
    assert build().resolve_job_def("reap_branches").execute_in_process(instance=instance).success
    assert branch_name(first.run_id) not in {branch.name for branch in client.list_references(prefix="run/")}


def test_an_unknown_run_is_neither_live_nor_ended(instance: dg.DagsterInstance) -> None:
    assert is_live(instance, "unknown") is None


def test_the_reaper_deletes_what_was_quarantined_long_enough(
    instance: dg.DagsterInstance, client: NessieClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, working = start_run(instance, client), start_run(instance, client)
    end(instance, ended, dg.DagsterRunStatus.FAILURE)
    job = build().resolve_job_def("reap_branches")
    names = {branch_name(ended.run_id), branch_name(working.run_id)}

    def left() -> set[str]:
        return names & {branch.name for branch in client.list_references(prefix="run/")}

    assert job.execute_in_process(instance=instance).success
    assert left() == names
    assert "without publishing" in str(reason_of(client, ended))
    monkeypatch.setenv("NESSIE_OPS_QUARANTINE_DAYS", "0")
    assert job.execute_in_process(instance=instance).success
    assert left() == {branch_name(working.run_id)}


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e9"])
def test_a_time_of_quarantine_that_is_none_stops_the_reaper(
    instance: dg.DagsterInstance, client: NessieClient, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    run = start_run(instance, client)
    quarantine(client, branch_name(run.run_id), "for a test")
    monkeypatch.setenv("NESSIE_OPS_QUARANTINE_DAYS", text)
    with pytest.raises(BadRequest, match=f"NESSIE_OPS_QUARANTINE_DAYS: '{text}'"):
        build().resolve_job_def("reap_branches").execute_in_process(instance=instance)
    assert reason_of(client, run) == "for a test"


def merge_change(client: NessieClient, month: str, name: str, tables: tuple[str, ...]) -> None:
    """What merging a change of some tables leaves on main."""
    content = IcebergTable(metadata_location="file:///m.json", snapshot_id=1, schema_id=0, spec_id=0, sort_order_id=0)
    properties = {"nessie_ops.partition": (month,), "nessie_ops.assets": tables, "nessie_ops.run_id": (name,)}
    meta = NewCommit(message=f"Merge ci/{name}", properties=properties)
    client.commit("main", client.get_reference("main").hash, meta, [Put(ContentKey.of(name), content)])


def test_the_clock_loads_the_first_month_that_nobody_has_published_or_is_at(client: NessieClient) -> None:
    with dg.instance_for_test() as instance:

        def evaluate() -> dg.RunRequest | dg.SkipReason:
            context = dg.build_schedule_context(
                instance, datetime(2026, 1, 2, 4, tzinfo=UTC), resources={"catalog": CatalogResource()}
            )
            found = load_next_month(context)
            assert isinstance(found, dg.RunRequest | dg.SkipReason)
            return found

        def publish(month: str) -> None:
            instance.report_runless_asset_event(dg.AssetMaterialization("publish", partition=month))

        first = evaluate()
        assert isinstance(first, dg.RunRequest) and first.partition_key == "2013-01"
        publish("2013-01"), publish("2013-03")
        second = evaluate()
        assert isinstance(second, dg.RunRequest) and second.partition_key == "2013-02"

        run = instance.create_run_for_job(build().resolve_job_def("load_month"), tags={"dagster/partition": "2013-02"})
        third = evaluate()
        assert isinstance(third, dg.RunRequest) and third.partition_key == "2013-04", "a run is at February"
        end(instance, run, dg.DagsterRunStatus.FAILURE)
        client.create_reference(ReferenceType.BRANCH, "run/february", client.get_reference("main").hash)
        properties = {"nessie_ops.partition": ("2013-02",)}
        asked = client.create_merge_request(
            NewMergeRequest(source="run/february", needs_approval=True, properties=properties)
        )
        fourth = evaluate()
        assert isinstance(fourth, dg.RunRequest) and fourth.partition_key == "2013-04", "a request waits with February"
        client.close_merge_request(asked.number, "for a test")
        again = evaluate()
        assert isinstance(again, dg.RunRequest) and again.partition_key == "2013-02"
        *before, november, december = months.get_partition_keys()
        for month in before:
            publish(month)
        merge_change(client, november, "one", MONTHLY[:1])
        fifth = evaluate()
        assert isinstance(fifth, dg.RunRequest) and fifth.partition_key == november, "one table is not the month"
        merge_change(client, november, "others", MONTHLY[1:])
        sixth = evaluate()
        assert isinstance(sixth, dg.RunRequest) and sixth.partition_key == december, "main has it"
        publish(december)
        assert isinstance(evaluate(), dg.SkipReason)


def test_schedules_say_when() -> None:
    schedules = {schedule.name: schedule for schedule in build().get_repository_def().schedule_defs}
    assert schedules["nightly_reaping"].cron_schedule == "0 3 * * *"
    assert schedules["nightly_reaping"].default_status == dg.DefaultScheduleStatus.RUNNING
    assert schedules["load_next_month"].default_status == dg.DefaultScheduleStatus.STOPPED


def test_the_environment_gives_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NESSIE_OPS_SCHEDULES", raising=False)
    assert get_cron("nightly_reaping", "0 3 * * *") == "0 3 * * *"
    monkeypatch.setenv("NESSIE_OPS_SCHEDULES", '{"nightly_reaping": "*/5 * * * *"}')
    assert get_cron("nightly_reaping", "0 3 * * *") == "*/5 * * * *"
    assert get_cron("nightly_search", "0 1 * * *") == "0 1 * * *"
    check_names({"nightly_reaping", "nightly_search"})
    with pytest.raises(BadRequest, match=r"NESSIE_OPS_SCHEDULES: nightly_reaping: there are only nightly_search\."):
        check_names({"nightly_search"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "must be a JSON object"),
        ('{"nightly_search": 5}', "nightly_search: '5' is not a cron expression"),
        ('{"nightly_search": "61 * * * *"}', "nightly_search: '61 .* is not a cron expression"),
    ],
)
def test_times_that_are_none(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_SCHEDULES", text)
    with pytest.raises(BadRequest, match=f"NESSIE_OPS_SCHEDULES.*{message}"):
        get_cron("nightly_search", "0 1 * * *")
