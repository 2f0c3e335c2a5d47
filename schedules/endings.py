"""How runs end: one that failed or was cancelled, and is not retried, leaves its branch quarantined with the reason."""

from __future__ import annotations

import dagster as dg
from dagster._core.storage.tags import ROOT_RUN_ID_TAG, WILL_RETRY_TAG

from assets.run_branches import PREFIX, quarantine
from assets.runs import BRANCH_TAG, branch_of, evaluations, parent_of, successor_of
from nessie_ops.client import NessieClient

FINISHED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
_MAX_ERRORS = 3  # steps named in a reason


def quarantine_run(instance: dg.DagsterInstance, client: NessieClient, run_id: str) -> str | None:
    """Quarantine the branch of a run that ended without publishing; the reason, or None when the branch is left alone.

    It is left alone while the run is not finished, when it will be retried, and when another run has taken it over.
    """
    run = instance.get_run_by_id(run_id)  # read again: the daemon's decision to retry is written after the failure
    if run is None or run.status not in (dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED):
        return None
    if _will_be_retried(run) or successor_of(instance, run):
        return None
    reason = get_reason(instance, run)
    return reason if quarantine(client, branch_of(run), reason) else None


def get_reason(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Why the run did not publish, in one line: the failed checks, else the errors of the failed steps."""
    if run.status == dg.DagsterRunStatus.CANCELED:
        return "the run was cancelled"
    failed = [
        f"{label} ({evaluation.metadata['bad_rows'].value} rows)" if "bad_rows" in evaluation.metadata else label
        for label, evaluation in evaluations(instance, run).items()
        if not evaluation.passed and evaluation.blocking
    ]
    if failed:
        return f"checks failed: {', '.join(sorted(failed))}"
    return f"the run failed: {'; '.join(_errors(instance, run)) or 'its process ended'}"


def is_live(instance: dg.DagsterInstance, root_run_id: str) -> bool | None:
    """Whether a run with this root may still write to its branch; None when the instance knows no such run."""
    runs = list_group(instance, root_run_id)
    return _may_write(runs) if runs else None


def is_in_use(instance: dg.DagsterInstance, branch: str) -> bool:
    """Whether a run that may still write works on a branch: its own, or one that its tag names."""
    if branch.startswith(PREFIX) and is_live(instance, branch.removeprefix(PREFIX)):
        return True
    return _may_write(list(instance.get_runs(dg.RunsFilter(tags={BRANCH_TAG: branch}))))


def _may_write(runs: list[dg.DagsterRun]) -> bool:
    retried = {parent_of(run) for run in runs}  # their tag still says that they will be
    waiting = [run for run in runs if run.run_id not in retried and _will_be_retried(run)]
    return bool(waiting) or any(run.status not in FINISHED for run in runs)


def list_group(instance: dg.DagsterInstance, root_run_id: str) -> list[dg.DagsterRun]:
    """A run and its re-executions, in no order; empty when the instance knows none of them."""
    root = instance.get_run_by_id(root_run_id)
    again = instance.get_runs(dg.RunsFilter(tags={ROOT_RUN_ID_TAG: root_run_id}))
    return ([root] if root else []) + list(again)


def _will_be_retried(run: dg.DagsterRun) -> bool:
    # The daemon can launch again only what was launched through it; a driver in a process of its own decides itself.
    return run.tags.get(WILL_RETRY_TAG) == "true" and run.remote_job_origin is not None


def _errors(instance: dg.DagsterInstance, run: dg.DagsterRun) -> list[str]:
    page = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE, limit=_MAX_ERRORS)
    found = []
    for record in page.records:
        event = record.event_log_entry.dagster_event
        assert event is not None  # of_type gives no others
        error = event.step_failure_data.error
        cause = error.cause or error if error else None
        found.append(f"{event.step_key}: {cause.message.strip().splitlines()[0] if cause else 'no message'}")
    return found
