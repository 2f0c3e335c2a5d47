"""Schedules: the nightly tidying; and, waiting to be switched on, loading, collecting, purging and freshness."""

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from assets.collection import shards
from assets.publish import publish
from assets.tables import months
from schedules.jobs import check_freshness, collect_garbage, find_garbage, load_month, purge_store
from schedules.reaping import reap_branches
from schedules.times import check_names, get_cron

nightly_reaping = dg.ScheduleDefinition(
    name="nightly_reaping",
    job=reap_branches,
    cron_schedule=get_cron("nightly_reaping", "0 3 * * *"),
    execution_timezone="UTC",
    default_status=dg.DefaultScheduleStatus.RUNNING,
)


@dg.schedule(job=load_month, cron_schedule=get_cron("load_next_month", "0 4 * * *"), execution_timezone="UTC")
def load_next_month(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """The first month that was never published, one a day: past deliveries arrive as if they were new."""
    published = context.instance.get_materialized_partitions(publish.key)
    waiting = [key for key in months.get_partition_keys() if key not in published]
    if not waiting:
        return dg.SkipReason("all months are published")
    return dg.RunRequest(run_key=f"{waiting[0]} {context.scheduled_execution_time:%Y-%m-%d}", partition_key=waiting[0])


@dg.schedule(job=collect_garbage, cron_schedule=get_cron("nightly_collection", "0 1 * * *"), execution_timezone="UTC")
def nightly_collection(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """All shards in one run, which deletes what it finds."""
    return _all_shards(context)


@dg.schedule(job=find_garbage, cron_schedule=get_cron("nightly_search", "0 1 * * *"), execution_timezone="UTC")
def nightly_search(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """The same without deleting: that waits for a person to launch delete_garbage."""
    return _all_shards(context)


# `collect_garbage` purges by itself; this is for those who delete files by hand, or collect with the command.
weekly_purge = dg.ScheduleDefinition(
    name="weekly_purge",
    job=purge_store,
    cron_schedule=get_cron("weekly_purge", "30 5 * * 0"),
    execution_timezone="UTC",
)

hourly_freshness = dg.ScheduleDefinition(
    name="hourly_freshness",
    job=check_freshness,
    cron_schedule=get_cron("hourly_freshness", "10 * * * *"),
    execution_timezone="UTC",
)


def _all_shards(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    keys = shards.get_partition_keys()
    tags = {ASSET_PARTITION_RANGE_START_TAG: keys[0], ASSET_PARTITION_RANGE_END_TAG: keys[-1]}
    return dg.RunRequest(run_key=context.scheduled_execution_time.isoformat(), tags=tags)


all_schedules = [
    nightly_reaping,
    load_next_month,
    nightly_collection,
    nightly_search,
    weekly_purge,
    hourly_freshness,
]
check_names({schedule.name for schedule in all_schedules})
