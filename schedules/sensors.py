"""Sensors: quarantine the branch of a run that failed or was cancelled.

All jobs are watched, since assets can also be launched outside of load_month; a run without a branch is left alone.  A
sensor's first tick only sets its cursor; what it misses is found by the job reap_branches.
"""

import dagster as dg

from resources.catalog import CatalogResource
from schedules.endings import quarantine_run

_INTERVAL_S = 10


@dg.run_failure_sensor(
    minimum_interval_seconds=_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def quarantine_failed(context: dg.RunFailureSensorContext, catalog: CatalogResource) -> dg.SkipReason | None:
    """Quarantine the branch of a failed run, unless the run will be or has been retried."""
    return _quarantine(context, catalog)


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.CANCELED,
    minimum_interval_seconds=_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def quarantine_cancelled(context: dg.RunStatusSensorContext, catalog: CatalogResource) -> dg.SkipReason | None:
    """Quarantine the branch of a cancelled run."""
    return _quarantine(context, catalog)


def _quarantine(context: dg.RunStatusSensorContext, catalog: CatalogResource) -> dg.SkipReason | None:
    reason = quarantine_run(context.instance, catalog.client, context.dagster_run.run_id)
    return None if reason else dg.SkipReason(f"the branch of run {context.dagster_run.run_id} is left as it is")


all_sensors = [quarantine_failed, quarantine_cancelled]
