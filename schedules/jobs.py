"""Jobs: the pipeline for one month, on a branch of its own; tidying up after runs; and collecting garbage.

`collect_garbage` finds and deletes; `find_garbage` only finds, and `delete_garbage` deletes what a person approved.
"""

import os
from datetime import timedelta

import dagster as dg
from dagster._core.storage.tags import MAX_RUNTIME_SECONDS_TAG

from assets.branch import RETRY_TAGS
from assets.collection import GROUP, gc_deleted, gc_mark, gc_plan, gc_sweep, store_purged
from assets.merge_requests import list_waiting
from assets.run_branches import branch_name, reap
from nessie_ops.errors import BadRequest
from resources.catalog import CatalogResource
from schedules.endings import is_live

QUARANTINE_VARIABLE = "NESSIE_OPS_QUARANTINE_DAYS"
DEFAULT_QUARANTINE_DAYS = 7

# All steps in one process, so that they share one Spark: a JVM per step would take most of the run's time.
load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.all() - dg.AssetSelection.groups(GROUP),
    description="Load a month on a branch of its own, check it there, and publish it to main as one commit.",
    executor_def=dg.in_process_executor,
    tags=RETRY_TAGS,
)

# The instance ends runs after two hours; the first collection of a large lake takes longer.
GARBAGE_TAGS = {**RETRY_TAGS, MAX_RUNTIME_SECONDS_TAG: str(24 * 3600)}

# One run for all shards, in one process: what is read for one of them serves the others.
collect_garbage = dg.define_asset_job(
    "collect_garbage",
    selection=dg.AssetSelection.groups(GROUP),
    description="Delete the files that no branch, tag or kept commit can reach, then the history that is not needed.",
    executor_def=dg.in_process_executor,
    tags=GARBAGE_TAGS,
)
find_garbage = dg.define_asset_job(
    "find_garbage",
    selection=dg.AssetSelection.assets(gc_plan, gc_mark, gc_sweep),
    description="Find and record those files.  delete_garbage deletes them, once a person has looked at the report.",
    executor_def=dg.in_process_executor,
    tags=GARBAGE_TAGS,
)
delete_garbage = dg.define_asset_job(
    "delete_garbage",
    selection=dg.AssetSelection.assets(gc_deleted, store_purged),
    description="Delete the recorded files of the live set that the configuration names.",
    executor_def=dg.in_process_executor,
    tags=GARBAGE_TAGS,
)


@dg.op
def reap_quarantined(context: dg.OpExecutionContext, catalog: CatalogResource) -> None:
    waiting = {request.source for request in list_waiting(catalog.client)}

    def needed(root: str) -> bool | None:
        return branch_name(root) in waiting or is_live(context.instance, root)

    marked, deleted = reap(catalog.client, needed, get_quarantine_time())
    context.log.info(f"Quarantined: {', '.join(marked) or 'none'}.  Deleted: {', '.join(deleted) or 'none'}.")


@dg.job(executor_def=dg.in_process_executor, description="Delete the branches of runs that ended badly long ago.")
def reap_branches() -> None:
    reap_quarantined()


def get_quarantine_time() -> timedelta:
    """How long a quarantined branch is kept: NESSIE_OPS_QUARANTINE_DAYS, by default 7.  BadRequest if not a number."""
    text = os.environ.get(QUARANTINE_VARIABLE) or str(DEFAULT_QUARANTINE_DAYS)
    try:
        days = float(text)
    except ValueError:
        days = -1
    if not 0 <= days <= 36_500:
        raise BadRequest(f"{QUARANTINE_VARIABLE}: '{text}' is not a number of days between 0 and 36500.")
    return timedelta(days=days)
