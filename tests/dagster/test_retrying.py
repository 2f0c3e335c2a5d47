"""Failed runs that Dagster's own daemon passes by, as it does when it looks between two writes of one failure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, MAX_RETRIES_TAG, WILL_RETRY_TAG
from dagster._core.test_utils import create_test_daemon_workspace_context
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import PythonFileTarget
from dagster._daemon.auto_run_reexecution.event_log_consumer import EventLogConsumerDaemon

from schedules import retrying
from schedules.retrying import TOLD_TAG, mend_missed_retries

JOB = """
import dagster as dg

@dg.op
def work(): ...

@dg.job
def nightly():
    work()

defs = dg.Definitions(jobs=[nightly])
"""
FAILED = "the process of the run is gone"


@pytest.fixture(scope="module")
def workspace(
    instance: dg.DagsterInstance, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkspaceProcessContext]:
    path = tmp_path_factory.mktemp("code") / "code.py"
    path.write_text(JOB)
    target = PythonFileTarget(str(path), attribute="defs", working_directory=str(path.parent), location_name="code")
    with create_test_daemon_workspace_context(target, instance) as context:
        list(EventLogConsumerDaemon().run_iteration(context))  # the first sets its cursors
        yield context


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two minutes have passed whenever the sensor looks."""
    monkeypatch.setattr(retrying, "utc_now", lambda: datetime.now(UTC) + timedelta(minutes=2))


def start(workspace: WorkspaceProcessContext) -> dg.DagsterRun:
    location = workspace.create_request_context().get_code_location("code")
    job = location.get_repository("__repository__").get_full_job("nightly")
    return workspace.instance.create_run_for_job(
        _job(),
        tags={MAX_RETRIES_TAG: "1"},
        status=dg.DagsterRunStatus.STARTED,
        remote_job_origin=job.get_remote_origin(),
        job_code_origin=job.get_python_origin(),
    )


def _job() -> dg.JobDefinition:
    scope: dict[str, object] = {}
    exec(JOB, scope)
    job = scope["nightly"]
    assert isinstance(job, dg.JobDefinition)
    return job


def fail(workspace: WorkspaceProcessContext, *, seen_too_early: bool) -> dg.DagsterRun:
    """A run that failed; the daemon looks when both writes are done, or between them, too."""
    instance, run = workspace.instance, start(workspace)
    if not seen_too_early:
        instance.report_run_failed(run, FAILED)
        daemon_looks(workspace)
        return run
    event = DagsterEvent(DagsterEventType.RUN_FAILURE.value, run.job_name, message=FAILED)
    instance.event_log_storage.store_event(
        EventLogEntry(None, 40, FAILED, run.run_id, time.time(), dagster_event=event)
    )
    daemon_looks(workspace)
    instance.run_storage.handle_run_event(run.run_id, event, datetime.now(UTC))
    instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "true"})
    daemon_looks(workspace)
    return run


def daemon_looks(workspace: WorkspaceProcessContext) -> None:
    list(EventLogConsumerDaemon().run_iteration(workspace))


def look(instance: dg.DagsterInstance) -> str:
    found = mend_missed_retries(dg.build_sensor_context(instance=instance))
    assert isinstance(found, dg.SkipReason) and found.skip_message
    return found.skip_message


def retries(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    return [each.run_id for each in instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run.run_id}))]


def test_a_failure_that_the_daemon_saw_too_early_is_retried_once(workspace: WorkspaceProcessContext) -> None:
    instance = workspace.instance
    run = fail(workspace, seen_too_early=True)
    assert retries(instance, run) == []  # what the sensor is for
    assert run.run_id in look(instance)
    daemon_looks(workspace)
    [again] = retries(instance, run)
    assert look(instance) == "every retry was begun"
    daemon_looks(workspace)
    assert retries(instance, run) == [again]


def test_what_the_daemon_retries_is_left_alone(workspace: WorkspaceProcessContext) -> None:
    run = fail(workspace, seen_too_early=False)
    assert len(retries(workspace.instance, run)) == 1
    assert look(workspace.instance) == "every retry was begun"


def test_it_waits_a_minute(workspace: WorkspaceProcessContext, monkeypatch: pytest.MonkeyPatch) -> None:
    run = fail(workspace, seen_too_early=True)
    monkeypatch.setattr(retrying, "utc_now", lambda: datetime.now(UTC) + timedelta(seconds=30))
    assert look(workspace.instance) == "every retry was begun"
    workspace.instance.add_run_tags(run.run_id, {AUTO_RETRY_RUN_ID_TAG: "another"})


def test_what_is_never_retried_is_given_up(workspace: WorkspaceProcessContext) -> None:
    instance, run = workspace.instance, fail(workspace, seen_too_early=True)
    for told in range(1, 4):
        assert run.run_id in look(instance)
        found = instance.get_run_by_id(run.run_id)
        assert found and found.tags[TOLD_TAG] == str(told) and found.tags[WILL_RETRY_TAG] == "true"
    assert run.run_id in look(instance)
    found = instance.get_run_by_id(run.run_id)
    assert found and found.tags[WILL_RETRY_TAG] == "false"  # so its branch is quarantined
    assert look(instance) == "every retry was begun"
    daemon_looks(workspace)
    assert retries(instance, run) == []


def test_a_run_that_only_its_own_process_can_repeat_is_left_alone(instance: dg.DagsterInstance, home: Path) -> None:
    run = instance.create_run_for_job(_job(), status=dg.DagsterRunStatus.STARTED, tags={MAX_RETRIES_TAG: "1"})
    instance.report_run_failed(run, FAILED)
    found = instance.get_run_by_id(run.run_id)
    assert found and found.tags[WILL_RETRY_TAG] == "true"
    assert look(instance) == "every retry was begun"
