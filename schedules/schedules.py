"""Schedules: the nightly tidying, and a loader of the next month that waits to be switched on."""

import dagster as dg

from assets.publish import publish
from assets.tables import months
from schedules.jobs import load_month, reap_branches

nightly_reaping = dg.ScheduleDefinition(
    name="nightly_reaping",
    job=reap_branches,
    cron_schedule="0 3 * * *",
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)


@dg.schedule(job=load_month, cron_schedule="0 4 * * *", execution_timezone="UTC")
def load_next_month(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """The first month that was never published, one a day: past deliveries arrive as if they were new."""
    published = context.instance.get_materialized_partitions(publish.key)
    waiting = [key for key in months.get_partition_keys() if key not in published]
    if not waiting:
        return dg.SkipReason("all months are published")
    return dg.RunRequest(run_key=f"{waiting[0]} {context.scheduled_execution_time:%Y-%m-%d}", partition_key=waiting[0])


all_schedules = [nightly_reaping, load_next_month]
