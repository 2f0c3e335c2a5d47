"""Jobs: `load_month` runs the pipeline for one month on a branch of its own; `reap_branches` tidies up after runs."""

import os
from datetime import timedelta

import dagster as dg

from assets.branch import RETRY_TAGS
from assets.run_branches import reap
from nessie_ops.errors import BadRequest
from resources.catalog import CatalogResource
from schedules.endings import is_live

QUARANTINE_VARIABLE = "NESSIE_OPS_QUARANTINE_DAYS"
DEFAULT_QUARANTINE_DAYS = 7

# All steps in one process, so that they share one Spark: a JVM per step would take most of the run's time.
load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.all(),
    description="Load a month on a branch of its own, check it there, and publish it to main as one commit.",
    executor_def=dg.in_process_executor,
    tags=RETRY_TAGS,
)


@dg.op
def reap_quarantined(context: dg.OpExecutionContext, catalog: CatalogResource) -> None:
    marked, deleted = reap(catalog.client, lambda root: is_live(context.instance, root), get_quarantine_time())
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
