"""Sensors: quarantine the branch of a run that failed or was cancelled.

All jobs are watched, since assets can also be launched outside of load_month; a run without a branch is left alone.  A
sensor's first tick only sets its cursor; what it misses is found by the job reap_branches.
"""

import dagster as dg

from nessie_ops.errors import OutcomeUnknown, StoreUnavailable
from resources.catalog import CatalogResource
from schedules.endings import quarantine_run

_INTERVAL_S = 10


class CatalogUnreachable(dg.DagsterError):
    """Dagster moves its cursor past a run whose sensor fails, unless the error is of Dagster's own kind."""


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
    run_id = context.dagster_run.run_id
    try:
        reason = quarantine_run(context.instance, catalog.client, run_id)
    except (StoreUnavailable, OutcomeUnknown) as error:
        raise CatalogUnreachable(f"The next tick looks at run {run_id} again: {error.message}") from error
    return None if reason else dg.SkipReason(f"the branch of run {run_id} is left as it is")


all_sensors = [quarantine_failed, quarantine_cancelled]
