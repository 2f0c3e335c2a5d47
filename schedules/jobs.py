"""Jobs: the pipeline for one month, on a branch of its own; and collecting garbage.

`collect_garbage` finds and deletes; `find_garbage` only finds, and `delete_garbage` deletes what a person approved.
"""

import dagster as dg
from dagster._core.storage.tags import MAX_RETRIES_TAG, MAX_RUNTIME_SECONDS_TAG, RETRY_ON_ASSET_OR_OP_FAILURE_TAG

from assets.branch import RETRY_TAGS
from assets.collection import GROUP, gc_deleted, gc_mark, gc_plan, gc_sweep, store_purged
from assets.freshness import freshness_check
from assets.transforms.tables import NAMESPACES
from schedules.executors import chosen_executor

load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.all() - dg.AssetSelection.groups(GROUP) - dg.AssetSelection.checks(freshness_check),
    description="Load a month on a branch of its own, check it there, and publish it to main as one commit.",
    executor_def=chosen_executor,
    tags=RETRY_TAGS,
)

# For a branch that was opened for it, as by `nessie-ops ci up`: it cannot publish, and whoever launches it decides
# about another attempt.
load_on_branch = dg.define_asset_job(
    "load_on_branch",
    selection=dg.AssetSelection.groups(*NAMESPACES) - dg.AssetSelection.checks(freshness_check),
    description="Load and check tables of a month on the branch that the tag nessie/branch names; publishes nothing.",
    executor_def=chosen_executor,
    tags={MAX_RETRIES_TAG: "0", RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"},
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
purge_store = dg.define_asset_job(
    "purge_store",
    selection=dg.AssetSelection.assets(store_purged),
    description="Remove commits that no reference needs from our own store; after a deletion of files, not before.",
    executor_def=dg.in_process_executor,
    tags=GARBAGE_TAGS,
)

check_freshness = dg.define_asset_job(
    "check_freshness",
    selection=dg.AssetSelection.checks(freshness_check),
    description="Warn of tables of main that are older than they should be, by the catalog's commits.",
    executor_def=dg.in_process_executor,
)
