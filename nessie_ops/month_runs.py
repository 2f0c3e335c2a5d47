"""Loading a month from this process, without a daemon: the same job, re-based and quarantined as the daemon would.

The run is recorded in the instance, where the web server shows it.  A process that is killed leaves its run open; the
next one to drive finds that and ends it.
"""

from __future__ import annotations

import fcntl
import getpass
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import dagster as dg
import msgspec
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository
from dagster._core.execution.api import create_execution_plan, execute_run_iterator
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.storage.tags import (
    PARENT_RUN_ID_TAG,
    PARTITION_NAME_TAG,
    RETRY_STRATEGY_TAG,
    ROOT_RUN_ID_TAG,
    USER_TAG,
)

from assets.run_branches import MAX_REBASES, find_published
from assets.runs import REQUEST_TAG, VALIDATED_TAG, Evaluations, branch_of, evaluations, remembered, root_of
from assets.transforms.months import Month
from nessie_ops.errors import BadRequest, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import CommitHash
from resources.catalog import CatalogResource
from schedules.endings import FINISHED, get_reason, quarantine_run
from schedules.jobs import load_month

DRIVER_TAG = "nessie/driver"  # on runs that a process executes by itself: the lock that it holds while it lives

OnEvent = Callable[[dg.DagsterEvent], None]


class MonthRun(msgspec.Struct, frozen=True):
    """How loading a month ended: `commit` is main's, None when nothing was published, and then `reason` says why.

    `merge_request` is the number of the request that the validated branch waits with, if it does.
    """

    month: str
    run_id: str
    branch: str
    attempts: int
    commit: CommitHash | None
    reason: str
    checks: Evaluations
    merge_request: int | None = None


def run_month(
    month: str, instance: dg.DagsterInstance, *, source_dir: str = "", on_event: OnEvent = lambda event: None
) -> MonthRun:
    """Load one month through the job `load_month` and return how it ended; bad months raise BadRequest.

    A run that meets a main which moved is executed again on top of it, at most MAX_REBASES times.
    """
    Month.parse(month)
    end_abandoned(instance)
    config = {"resources": {"deliveries": {"config": {"source_dir": source_dir}}}} if source_dir else {}
    with _driving(instance) as lock:
        tags = {PARTITION_NAME_TAG: month, DRIVER_TAG: lock, **_user()}
        run = instance.create_run_for_job(_job().get_definition(), run_config=_quiet(config), tags=tags)
        return _drive(instance, run, on_event)


def resume_run(
    run_id: str, instance: dg.DagsterInstance, *, all_steps: bool = False, on_event: OnEvent = lambda event: None
) -> MonthRun:
    """Execute a failed or cancelled run again on its own branch, from the step that failed or from the start."""
    end_abandoned(instance)
    parent = instance.get_run_by_id(run_id)
    if parent is None or parent.job_name != load_month.name:
        raise BadRequest(f"run: {run_id[:40]} is not a run of {load_month.name} in {instance.root_directory}.")
    if parent.status not in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        raise BadRequest(f"run: {run_id} is {parent.status.value}; only a failed or cancelled run can be resumed.")
    with _driving(instance) as lock:
        run = _again(instance, parent, lock, all_steps=all_steps or _is_rebase(instance, parent))
        return _drive(instance, run, on_event)


def count_steps() -> int:
    """How many steps a month takes."""
    return len(_job().get_definition().nodes)


def end_abandoned(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs whose driving process is gone and quarantine their branches; the ids of those runs."""
    open_statuses = [status for status in dg.DagsterRunStatus if status not in FINISHED]
    ended = []
    for run in instance.get_runs(dg.RunsFilter(job_name=load_month.name, statuses=open_statuses)):
        lock = run.tags.get(DRIVER_TAG)
        if lock is None or _is_held(_locks(instance) / lock):
            continue
        instance.report_run_failed(run, "The process that executed this run has ended.")
        # A step that waited for its turn to publish, or had it, would keep others from theirs.
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
        quarantine_run(instance, CatalogResource().client, run.run_id)
        (_locks(instance) / lock).unlink(missing_ok=True)
        ended.append(run.run_id)
    return ended


def _drive(instance: dg.DagsterInstance, run: dg.DagsterRun, on_event: OnEvent) -> MonthRun:
    """Execute `run`, and again all its steps as long as it asks to be re-based."""
    attempts = 1
    try:
        _execute(instance, run, on_event)
        while _is_rebase(instance, run) and attempts <= MAX_REBASES:
            run = _again(instance, run, run.tags[DRIVER_TAG], all_steps=True)
            attempts += 1
            _execute(instance, run, on_event)
    finally:
        # Without a catalog the branch stays as it is, unpublished; the job reap_branches quarantines it later.
        with suppress(StoreUnavailable, OutcomeUnknown):
            quarantine_run(instance, CatalogResource().client, run.run_id)
    return _result(instance, run, attempts)


def _execute(instance: dg.DagsterInstance, run: dg.DagsterRun, on_event: OnEvent) -> None:
    try:
        for event in execute_run_iterator(_job(), run, instance):
            on_event(event)
    finally:
        # A step that was interrupted keeps its turn to publish, and there need not be a daemon that takes it away.
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def _again(instance: dg.DagsterInstance, parent: dg.DagsterRun, lock: str, *, all_steps: bool) -> dg.DagsterRun:
    job, plan = _job(), None
    if not all_steps:
        keys, state = KnownExecutionState.build_resume_retry_reexecution(instance, parent)
        plan = create_execution_plan(
            job, parent.run_config, step_keys_to_execute=keys, known_state=state, tags=parent.tags
        )
    tags = {
        **_user(),
        PARTITION_NAME_TAG: parent.tags[PARTITION_NAME_TAG],
        ROOT_RUN_ID_TAG: root_of(parent),
        PARENT_RUN_ID_TAG: parent.run_id,
        DRIVER_TAG: lock,
    }
    return instance.create_run_for_job(
        job.get_definition(),
        execution_plan=plan,
        run_config=parent.run_config,
        tags=tags,
        root_run_id=root_of(parent),
        parent_run_id=parent.run_id,
    )


def _result(instance: dg.DagsterInstance, run: dg.DagsterRun, attempts: int) -> MonthRun:
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    commit, reason, request = None, "", None
    if ended.status == dg.DagsterRunStatus.SUCCESS:
        catalog, validated = CatalogResource(), remembered(instance, ended, VALIDATED_TAG)
        commit = find_published(catalog.client, catalog.main, branch_of(ended), validated or "")
        if commit is None and REQUEST_TAG in ended.tags:
            request = int(ended.tags[REQUEST_TAG])
            reason = f"it waits to be merged by merge request {request}"
    else:
        reason = get_reason(instance, ended)
    checks = evaluations(instance, ended)
    month = ended.tags[PARTITION_NAME_TAG]
    return MonthRun(month, ended.run_id, branch_of(ended), attempts, commit, reason, checks, request)


def _is_rebase(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run asked, as a daemon would read it, for all its steps to run again."""
    ended = instance.get_run_by_id(run.run_id)
    if ended is None or ended.status != dg.DagsterRunStatus.FAILURE:
        return False
    return ended.tags.get(RETRY_STRATEGY_TAG) == ReexecutionStrategy.ALL_STEPS.name


def _job() -> ReconstructableJob:
    repository = ReconstructableRepository.for_module("nessie_ops.definitions", "defs")
    return repository.get_reconstructable_job(load_month.name)


def _user() -> dict[str, str]:
    """Whose commits they are; a user without a name, as in containers, leaves that to the job."""
    try:
        return {USER_TAG: getpass.getuser()}
    except (KeyError, OSError):
        return {}


def _quiet(config: Mapping[str, object]) -> dict[str, object]:
    # The events are in the instance's log and shown by whoever drives; the console would repeat each of them.
    return {**config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def _locks(instance: dg.DagsterInstance) -> Path:
    folder = Path(instance.root_directory) / "drivers"
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def _driving(instance: dg.DagsterInstance) -> Iterator[str]:
    """Hold a lock of this process, which the system lets go when the process ends in whatever way."""
    name = uuid4().hex
    path = _locks(instance) / name
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield name
        finally:
            path.unlink()


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
