"""Loading a month from this process, without a daemon: the same job, re-based and quarantined as the daemon would.

How a job is executed here, and what becomes of a run whose process is killed, is in driving.py.
"""

from __future__ import annotations

import getpass
from contextlib import suppress

import dagster as dg
import msgspec
from dagster._core.definitions.reconstruct import ReconstructableJob
from dagster._core.execution.api import create_execution_plan
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
from nessie_ops.driving import DRIVER_TAG, OnEvent, driving, end_abandoned, execute, get_job, without_console
from nessie_ops.errors import BadRequest, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import CommitHash
from resources.catalog import CatalogResource
from schedules.endings import get_reason, quarantine_run
from schedules.jobs import load_month


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
    with driving(instance) as lock:
        tags = {PARTITION_NAME_TAG: month, DRIVER_TAG: lock, **_user()}
        run = instance.create_run_for_job(_job().get_definition(), run_config=without_console(config), tags=tags)
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
    with driving(instance) as lock:
        run = _again(instance, parent, lock, all_steps=all_steps or _is_rebase(instance, parent))
        return _drive(instance, run, on_event)


def count_steps() -> int:
    """How many steps a month takes."""
    return len(_job().get_definition().nodes)


def _drive(instance: dg.DagsterInstance, run: dg.DagsterRun, on_event: OnEvent) -> MonthRun:
    """Execute `run`, and again all its steps as long as it asks to be re-based."""
    attempts = 1
    try:
        execute(instance, _job(), run, on_event)
        while _is_rebase(instance, run) and attempts <= MAX_REBASES:
            run = _again(instance, run, run.tags[DRIVER_TAG], all_steps=True)
            attempts += 1
            execute(instance, _job(), run, on_event)
    finally:
        # Without a catalog the branch stays as it is, unpublished; the job reap_branches quarantines it later.
        with suppress(StoreUnavailable, OutcomeUnknown):
            quarantine_run(instance, CatalogResource().client, run.run_id)
    return _result(instance, run, attempts)


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
    return get_job(load_month.name)


def _user() -> dict[str, str]:
    """Whose commits they are; a user without a name, as in containers, leaves that to the job."""
    try:
        return {USER_TAG: getpass.getuser()}
    except (KeyError, OSError):
        return {}
