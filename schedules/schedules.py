"""Schedules: the nightly tidying; and, waiting to be switched on, loading, collecting, purging and freshness."""

import dagster as dg
from dagster._core.storage.tags import (
    ASSET_PARTITION_RANGE_END_TAG,
    ASSET_PARTITION_RANGE_START_TAG,
    PARTITION_NAME_TAG,
)

from assets.collection import shards
from assets.merge_requests import list_waiting
from assets.publish import publish
from assets.published import list_months
from assets.said import PARTITION
from assets.tables import months
from resources.catalog import CatalogResource
from schedules.endings import FINISHED
from schedules.jobs import check_freshness, collect_garbage, find_garbage, load_month, purge_store
from schedules.maintenance import maintain_tables
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
def load_next_month(context: dg.ScheduleEvaluationContext, catalog: CatalogResource) -> dg.RunRequest | dg.SkipReason:
    """The first month that was never published, one a day: past deliveries arrive as if they were new.

    What Dagster has no record of, main's commits may tell: a change that was merged, a run of another instance.  Months
    that a run is loading, or whose merge request waits, are left to these.
    """
    client = catalog.client
    published = context.instance.get_materialized_partitions(publish.key)
    published |= list_months(client, client.get_reference(catalog.main).hash)
    left = [key for key in months.get_partition_keys() if key not in published]
    if not left:
        return dg.SkipReason("all months are published")
    under_way = _list_loading(context.instance) | _list_asked_for(catalog)
    due = next((key for key in left if key not in under_way), None)
    if due is None:
        return dg.SkipReason(f"loading, or waiting to be merged: {', '.join(left)}")
    return dg.RunRequest(run_key=f"{due} {context.scheduled_execution_time:%Y-%m-%d}", partition_key=due)


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

nightly_maintenance = dg.ScheduleDefinition(
    name="nightly_maintenance",
    job=maintain_tables,
    cron_schedule=get_cron("nightly_maintenance", "0 22 * * *"),
    execution_timezone="UTC",
)
hourly_freshness = dg.ScheduleDefinition(
    name="hourly_freshness",
    job=check_freshness,
    cron_schedule=get_cron("hourly_freshness", "10 * * * *"),
    execution_timezone="UTC",
)


def _list_loading(instance: dg.DagsterInstance) -> set[str]:
    statuses = [status for status in dg.DagsterRunStatus if status not in FINISHED]
    runs = instance.get_runs(dg.RunsFilter(job_name=load_month.name, statuses=statuses))
    return {run.tags[PARTITION_NAME_TAG] for run in runs if PARTITION_NAME_TAG in run.tags}


def _list_asked_for(catalog: CatalogResource) -> set[str]:
    requests = list_waiting(catalog.client)
    return {
        month
        for request in requests
        if request.target == catalog.main
        for month in request.properties.get(PARTITION, ())
    }


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
    nightly_maintenance,
    hourly_freshness,
]
check_names({schedule.name for schedule in all_schedules})
