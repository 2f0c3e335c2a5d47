"""The last assets of a run: what was checked is pinned as a commit, and that commit is merged into main, once."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

import dagster as dg
from dagster._core.execution.plan.resume_retry import ReexecutionStrategy
from dagster._core.storage.tags import MAX_RETRIES_TAG, RETRY_ON_ASSET_OR_OP_FAILURE_TAG, RETRY_STRATEGY_TAG

from assets import checks
from assets.bronze import bronze_assets
from assets.facts import link_to, of_branch, of_merge, of_results, stopwatch, tags_of
from assets.gold import gold_assets
from assets.merge_requests import ask_to_merge
from assets.run_branches import RebaseNeeded, check_owned, validate
from assets.run_branches import publish as publish_branch
from assets.runs import (
    PUBLISH_POOL,
    REBASE_TAG,
    REQUEST_TAG,
    VALIDATED_TAG,
    author_of,
    branch_of,
    evaluations,
    evidence_of,
    month_of,
    parent_of,
    remembered,
    stop_if_replaced,
)
from assets.said import properties_of
from assets.silver import silver_assets
from assets.tables import months
from assets.transforms.tables import TABLES
from nessie_ops.errors import BadRequest
from nessie_ops.model import CheckResult, ContentKey, NewCommit
from resources.catalog import CatalogResource

PUBLISH_VARIABLE = "NESSIE_OPS_PUBLISH"
MAX_SUMMARY = 1_000  # characters of what a check found


def usual_publish() -> str:
    """How runs end that do not say it: NESSIE_OPS_PUBLISH, which is `merge` or `sensor`, else merge; BadRequest."""
    text = os.environ.get(PUBLISH_VARIABLE) or "merge"
    if text not in ("merge", "sensor"):
        raise BadRequest(f"{PUBLISH_VARIABLE}: '{text[:40]}' is neither merge nor sensor.")
    return text


class PublishConfig(dg.Config):
    """`publish`: `merge`, or `sensor` to ask by a merge request that a sensor follows; empty: NESSIE_OPS_PUBLISH.

    A request `needs_approval` when a person must look at it, too, which makes a run ask.  `author` is the commit's and
    the request's, by default the run's tag `user`, else the job.
    """

    publish: Literal["", "merge", "sensor"] = ""  # so another word is refused when the run is launched
    needs_approval: bool = False
    author: str = ""

    def waits(self) -> bool:
        """Whether the run ends with a merge request; BadRequest when it is to merge without the approval it needs."""
        if self.needs_approval and self.publish == "merge":
            raise BadRequest("needs_approval: a run that merges waits for nobody; use it with publish: sensor.")
        return (self.publish or usual_publish()) == "sensor" or self.needs_approval


def build_validated(further: Sequence[dg.AssetKey] = ()) -> dg.AssetsDefinition:
    """The asset that waits for all tables of the pipeline and for those `further` ones."""

    @dg.asset(
        partitions_def=months,
        deps=[*bronze_assets, *silver_assets, *gold_assets, *further],
        group_name="run",
        kinds={"iceberg"},
        description="The commit of the run's branch that every blocking check vouches for.",
    )
    def validated(context: dg.AssetExecutionContext, catalog: CatalogResource) -> dg.MaterializeResult:
        took, found = stopwatch(), evaluations(context.instance, context.run)
        evidence = evidence_of(checks.all_rules(month_of(context.run)), found, _reported_checks(context))
        commit = validate(catalog.client, branch_of(context.run), evidence)
        context.instance.add_run_tags(context.run.run_id, {VALIDATED_TAG: commit})
        branch = catalog.client.get_reference(branch_of(context.run))
        where = {**of_branch(branch), "nessie/commit": commit, **link_to(catalog, commit)}
        return dg.MaterializeResult(metadata={**where, "checks": len(evidence), **of_results(found), **took()})

    return validated


validated = build_validated()


@dg.asset(
    partitions_def=months,
    deps=[validated],
    group_name="run",
    kinds={"iceberg"},
    output_required=False,
    pool=PUBLISH_POOL,
    description="The validated commit, merged into main as one commit for all tables.",
)
def publish(
    context: dg.AssetExecutionContext, config: PublishConfig, catalog: CatalogResource
) -> Iterator[dg.MaterializeResult]:
    check_owned(branch_of(context.run))  # what is on a branch that runs were launched on, others decide about
    if config.waits():
        _ask(context, config, catalog)  # and is materialized by the run that merges
    else:
        yield _publish(context, config, catalog)


def _ask(context: dg.AssetExecutionContext, config: PublishConfig, catalog: CatalogResource) -> None:
    run, found = context.run, evaluations(context.instance, context.run)
    results = [
        CheckResult(name=label, passed=found[label].passed, summary=(found[label].description or "")[:MAX_SUMMARY])
        for label in sorted(found)
    ]
    required = [audit.label for audit in checks.all_rules(month_of(run)) if audit.blocking]
    required += _reported_checks(context)
    stop_if_replaced(context.instance, run)
    request = ask_to_merge(
        catalog.client,
        catalog.main,
        branch_of(run),
        _message(context, config),
        results,
        required,
        author=author_of(run, config.author),
        needs_approval=config.needs_approval,
        release=parent_of(run) is not None,
        validated=remembered(context.instance, run, VALIDATED_TAG),
    )
    context.instance.add_run_tags(run.run_id, {REQUEST_TAG: str(request.number)})
    waits = f" It waits for {', '.join(request.waits_for)}." if request.waits_for else ""
    context.log.info(f"Asked by merge request {request.number} for the merge of {branch_of(run)}.{waits}")


def _publish(
    context: dg.AssetExecutionContext, config: PublishConfig, catalog: CatalogResource
) -> dg.MaterializeResult:
    took, run, message = stopwatch(), context.run, _message(context, config)
    commit = remembered(context.instance, run, VALIDATED_TAG)
    is_again = parent_of(run) is not None  # the first run has no earlier attempt whose quarantine it could lift
    stop_if_replaced(context.instance, run)  # last, so that little time is left between looking and merging
    try:
        done = publish_branch(catalog.client, catalog.main, branch_of(run), message, commit, release=is_again)
    except RebaseNeeded as error:
        _request_rebase(context, error)
        metadata = {"conflicts": dg.MetadataValue.md("\n".join(f"- {table}" for table in error.tables))}
        raise dg.Failure(error.message, metadata=metadata, allow_retries=False) from error
    facts, observations = of_merge(catalog, catalog.main, done.commit)
    context.instance.add_run_tags(run.run_id, tags_of(facts))
    for observation in observations:
        context.log_event(observation)
    return dg.MaterializeResult(metadata={**facts, "nessie/published_before": done.already, **took()})


def _tables(context: dg.AssetExecutionContext) -> tuple[str, ...]:
    """The tables that are published: those of the pipeline, and those that jobs elsewhere write."""
    graph = context.job_def.asset_layer.asset_graph
    names = {".".join(key.path) for key in graph.get(validated.key).parent_keys}
    return (*TABLES, *sorted(names - set(TABLES)))


def _reported_checks(context: dg.AssetExecutionContext) -> dict[str, ContentKey]:
    """The table of each blocking check that is no rule of the pipeline's: a job elsewhere reports it."""
    graph = context.job_def.asset_layer.asset_graph
    rules = {audit.label for audit in checks.all_rules(month_of(context.run))}
    found = {}
    for key in graph.asset_check_keys:
        label = f"{'.'.join(key.asset_key.path)}:{key.name}"
        if key.asset_key in graph.get(validated.key).parent_keys and graph.get_check_spec(key).blocking:
            found[label] = ContentKey.of(*key.asset_key.path)
    return {label: table for label, table in found.items() if label not in rules}


def _message(context: dg.AssetExecutionContext, config: PublishConfig) -> NewCommit:
    run, month = context.run, month_of(context.run)
    found = evaluations(context.instance, run)
    results = tuple(f"{label} {'passed' if found[label].passed else 'warned'}" for label in sorted(found))
    return NewCommit(
        message=f"Load {month} (run {run.run_id[:8]} of {run.job_name})",
        authors=(author_of(run, config.author),),
        properties={
            **{name: (value,) for name, value in properties_of(run).items()},
            "nessie_ops.checks": results,
            "nessie_ops.assets": _tables(context),
        },
    )


def _request_rebase(context: dg.AssetExecutionContext, error: RebaseNeeded) -> None:
    """Ask the daemon, or whoever drives the run, to execute all of it again; the branch itself knows why."""
    if not error.again:
        return
    group = context.instance.get_run_group(context.run.run_id)
    runs = len(list(group[1])) if group else 1
    context.instance.add_run_tags(
        context.run.run_id,
        {
            REBASE_TAG: ", ".join(error.tables),
            RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "true",
            RETRY_STRATEGY_TAG: ReexecutionStrategy.ALL_STEPS.name,
            # The daemon retries while the group has no more runs than this; earlier ones need not have been rebases.
            MAX_RETRIES_TAG: str(runs),
        },
    )
