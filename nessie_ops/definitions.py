"""Composition root of Dagster: the assets, checks, jobs, schedules, sensors and resources that workspace.yaml loads.

Nothing is opened here: servers, Spark and files are found when a run uses them.
"""

from collections.abc import Sequence

import dagster as dg

from assets.branch import run_branch
from assets.bronze import bronze_assets
from assets.checks import all_checks
from assets.collection import collection_assets, collection_checks
from assets.freshness import freshness_check
from assets.gold import gold_assets
from assets.publish import build_validated, publish, usual_publish, validated
from assets.silver import silver_assets
from resources.catalog import CatalogResource
from resources.collection import GarbageCollection
from resources.deliveries import Deliveries
from resources.spark import EnvironmentSpark, SparkLake
from schedules.jobs import (
    check_freshness,
    collect_garbage,
    delete_garbage,
    find_garbage,
    load_month,
    load_on_branch,
    purge_store,
)
from schedules.maintenance import maintain_tables
from schedules.merging import follow_merge_requests, merging_jobs
from schedules.observing import observe_commits
from schedules.reaping import reap_branches
from schedules.repairs import repair_jobs
from schedules.rerunning import launch_reruns, rerun_month
from schedules.retrying import mend_missed_retries
from schedules.schedules import all_schedules
from schedules.sensors import all_sensors
from schedules.validating import validate_branch
from schedules.watching import validate_commits


def build(external: Sequence[dg.AssetsDefinition] = ()) -> dg.Definitions:
    """The definitions; each call gives new ones, with resources that take their settings from the environment.

    `external` are assets made by `assets.pipes.external_table`, which are validated and published with the others, or
    stand in for those of the same keys.  BadRequest when a variable of the environment cannot be meant.
    """
    usual_publish()  # asked for by the last step of a run, and told to whoever starts Dagster
    catalog = CatalogResource()
    replaced = {asset.key for asset in external}
    further = [asset.key for asset in external if asset.key not in validated.dependency_keys]
    tables = [asset for asset in (*bronze_assets, *silver_assets, *gold_assets) if asset.key not in replaced]
    return dg.Definitions(
        assets=[run_branch, *tables, *external, build_validated(further), publish, *collection_assets],
        asset_checks=[*all_checks, *collection_checks, freshness_check],
        jobs=[
            load_month,
            validate_branch,
            load_on_branch,
            reap_branches,
            collect_garbage,
            find_garbage,
            delete_garbage,
            purge_store,
            check_freshness,
            maintain_tables,
            *merging_jobs,
            *repair_jobs,
            rerun_month,
        ],
        schedules=all_schedules,
        sensors=[
            *all_sensors,
            follow_merge_requests,
            observe_commits,
            validate_commits,
            launch_reruns,
            mend_missed_retries,
        ],
        resources={
            "catalog": catalog,
            "collection": GarbageCollection(catalog=catalog),
            "deliveries": Deliveries(),
            "lake": SparkLake(pyspark=EnvironmentSpark(), catalog=catalog),
        },
    )


defs = build()
