"""Runs that Dagster should have started again and did not: their failure is told once more, or given up with a word.

Dagster writes a failure into its event log first and into the run's record after that; its daemon, which comes in
between, takes the run for one that did not fail, and does not look at it again.  Until it is started again such a run
holds its branch, since what will be retried may still write.
"""

from datetime import timedelta

import dagster as dg
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, WILL_RETRY_TAG

from assets.run_branches import utc_now
from assets.runs import successor_of

TOLD_TAG = "nessie/failure_told"  # how often
_INTERVAL_S = 30
_PATIENCE = timedelta(seconds=60)  # the daemon looks each five seconds
_MAX_AGE = timedelta(days=1)
_MAX_TOLD = 3
_MAX_RUNS = 100


@dg.sensor(minimum_interval_seconds=_INTERVAL_S, default_status=dg.DefaultSensorStatus.RUNNING)
def mend_missed_retries(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    """Tell Dagster again of failed runs that it was going to retry a minute ago and has not."""
    found = list_missed(context.instance)
    for run in found:
        context.log.info(f"Run {run.run_id} is to be retried, and nothing has started it again.")
        _tell(context.instance, run)
    return dg.SkipReason(f"{len(found)} failed runs had not been retried: {', '.join(run.run_id for run in found)}"
                         if found else "every retry was begun")  # fmt: skip


def list_missed(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Failed runs of the last day that will be retried, by their tag, and have been left alone for a minute."""
    now = utc_now()
    records = instance.get_run_records(
        dg.RunsFilter(
            statuses=[dg.DagsterRunStatus.FAILURE],
            tags={WILL_RETRY_TAG: "true"},
            updated_after=now - _MAX_AGE,
            updated_before=now - _PATIENCE,
        ),
        limit=_MAX_RUNS,
    )
    runs = [record.dagster_run for record in records]
    return [
        run
        for run in runs
        if AUTO_RETRY_RUN_ID_TAG not in run.tags and run.remote_job_origin and not successor_of(instance, run)
    ]


def _tell(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    told = int(run.tags.get(TOLD_TAG, "0"))
    if told >= _MAX_TOLD:
        instance.add_run_tags(run.run_id, {WILL_RETRY_TAG: "false"})
        instance.report_engine_event(f"Not retried: Dagster was told {told} times; launch the run again.", run)
        return
    instance.add_run_tags(run.run_id, {TOLD_TAG: str(told + 1)})
    instance.report_run_failed(run, "The run had failed, and was to be retried: told again, as nothing started it.")
