"""Trying a change in this process: the job runs here, on real Spark, and is recorded in the home's instance."""

from __future__ import annotations

import time

import dagster as dg

from assets.runs import READ_AT, evaluations
from assets.said import run_url
from nessie_ops.ci.outcomes import CheckOutcome, Execute, Execution, Task, Tell
from nessie_ops.ci.selection import table_of
from nessie_ops.ci.steps import Steps
from nessie_ops.driving import DRIVER_TAG, create_part, driving, end_abandoned, execute, get_job, without_console
from schedules.endings import get_reason
from schedules.jobs import load_on_branch


def run_here(instance: dg.DagsterInstance) -> Execute:
    """Runs in this process, recorded in `instance`."""

    def run(task: Task, tell: Tell) -> Execution:
        end_abandoned(instance)
        job = get_job(load_on_branch.name)
        with driving(instance) as lock:
            tags = {**task.tags, DRIVER_TAG: lock}
            created = create_part(instance, job, task.assets, task.checks, without_console(task.config), tags)
            try:
                execute(instance, job, created, Teller(tell))
            except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
                tell("interrupted: the run is cancelled")
        return _result(instance, created, task.month)

    return run


class Teller:
    """Tells of each step of a run."""

    def __init__(self, tell: Tell) -> None:
        self._steps = Steps(tell)

    def __call__(self, event: dg.DagsterEvent) -> None:
        step, now = event.step_key or "", time.monotonic()
        if event.event_type == dg.DagsterEventType.STEP_START:
            self._steps.begin(step, now)
        elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            rows = event.step_materialization_data.materialization.metadata.get("dagster/row_count")
            if rows and isinstance(rows.value, int):
                self._steps.add_rows(step, rows.value)
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            found = event.asset_check_evaluation_data
            self._steps.add_check(step, found.check_name, passed=found.passed)
        elif event.is_step_success or event.is_step_failure:
            self._steps.end(step, now, has_failed=event.is_step_failure)


def _result(instance: dg.DagsterInstance, run: dg.DagsterRun, month: str) -> Execution:
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None
    outcomes = tuple(_outcome(found, month, run.run_id) for found in evaluations(instance, ended).values())
    reason = "" if ended.status == dg.DagsterRunStatus.SUCCESS else get_reason(instance, ended)
    return Execution(run.run_id, month, ended.status.value, reason, run_url(run.run_id), outcomes)


def _outcome(found: dg.AssetCheckEvaluation, month: str, run_id: str) -> CheckOutcome:
    values = {name: value.value for name, value in found.metadata.items()}
    return CheckOutcome(
        table=table_of(found.asset_key),
        name=found.check_name,
        month=month,
        passed=found.passed,
        blocking=bool(found.blocking),
        at=str(values.get(READ_AT, "")),
        bad_rows=int(str(values.get("bad_rows", 0))),
        sample=str(values.get("sample", "")),
        description=found.description or "",
        run_id=run_id,
    )
