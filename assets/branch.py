"""The first asset of a run: its branch, opened from main's head, or found again by a re-execution."""

import dagster as dg
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._core.storage.tags import MAX_RETRIES_TAG, RETRY_ON_ASSET_OR_OP_FAILURE_TAG, RETRY_STRATEGY_TAG

from assets.run_branches import open_branch
from assets.runs import BASE_TAG, BRANCH_TAG, branch_of
from assets.transforms.tables import NAMESPACES
from resources.catalog import CatalogResource

# What the daemon does when the run fails: a crash resumes at the step that failed, a failed check stays failed.
# `publish` sets others when main moved; this step, which then runs first, sets these back.
RETRY_TAGS = {
    MAX_RETRIES_TAG: "3",
    RETRY_STRATEGY_TAG: ReexecutionStrategy.FROM_FAILURE.name,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false",
}


class BranchConfig(dg.Config):
    """`base`: the state that a new branch begins with, such as a tag, `main~3` or a hash; empty: main as it is now."""

    base: str = ""


@dg.asset(group_name="run", kinds={"iceberg"}, description="The run's own branch of the catalog.")
def run_branch(
    context: dg.AssetExecutionContext, config: BranchConfig, catalog: CatalogResource
) -> dg.MaterializeResult:
    opened = open_branch(catalog.client, catalog.main, branch_of(context.run), NAMESPACES, base=config.base)
    tags = {BRANCH_TAG: opened.name, BASE_TAG: opened.base}
    context.instance.add_run_tags(context.run.run_id, {**tags, **RETRY_TAGS})
    context.log.info(f"{'Resuming' if opened.resumed else 'Writing to'} {opened.name}, based on {opened.base[:12]}.")
    facts: dict[str, str | int] = {**tags, "nessie/commit": opened.head, "nessie/rebases": opened.rebases}
    return dg.MaterializeResult(metadata={**facts, "nessie/resumed": opened.resumed})
