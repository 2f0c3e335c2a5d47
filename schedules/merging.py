"""Merge requests in Dagster: the jobs that merge, approve, retry and close them, and the sensor that follows them."""

from collections.abc import Iterator

import dagster as dg
from dagster._core.storage.tags import (
    MAX_RETRIES_TAG,
    PARENT_RUN_ID_TAG,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG,
    ROOT_RUN_ID_TAG,
    WILL_RETRY_TAG,
)

from assets.merge_requests import Decision, Next, decide, list_waiting, look_at_source, merge_request
from assets.publish import publish
from assets.run_branches import PREFIX
from assets.runs import BRANCH_TAG, REQUEST_TAG
from nessie_ops.model import MergeRequest, MergeRequestState
from resources.catalog import CatalogResource
from schedules.jobs import load_month

ATTEMPT_TAG = "nessie/merge_attempt"
_INTERVAL_S = 10
_BY = "dagster"
# A process that dies is replaced; a request that cannot be merged is told, not tried again by the same run.
_TAGS = {MAX_RETRIES_TAG: "3", RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"}


class RequestConfig(dg.Config):
    """Which merge request, and who asks."""

    number: int
    by: str = _BY


class ApprovalConfig(RequestConfig):
    """`commit`: the commit that was looked at; empty: the one that the request is about now."""

    commit: str = ""


class ClosingConfig(RequestConfig):
    reason: str


@dg.op
def merge_branch(context: dg.OpExecutionContext, config: RequestConfig, catalog: CatalogResource) -> None:
    done = merge_request(catalog.client, config.number, config.by)
    if done.state is not MergeRequestState.MERGED:
        raise dg.Failure(f"Merge request {done.number} is {done.state}: {done.outcome}.", allow_retries=False)
    context.log.info(f"Merge request {done.number} of {done.source} is {done.target}'s commit {done.merge_hash}.")
    materialized = _materialization(context.instance, done)
    if materialized is not None:
        context.log_event(materialized)


@dg.op
def approve(context: dg.OpExecutionContext, config: ApprovalConfig, catalog: CatalogResource) -> None:
    client = catalog.client
    known = client.get_merge_request(config.number)
    commit = type(known.source_hash)(config.commit or known.source_hash)
    _tell(context, client.approve_merge_request(config.number, commit, by=config.by))


@dg.op
def retry(context: dg.OpExecutionContext, config: RequestConfig, catalog: CatalogResource) -> None:
    _tell(context, catalog.client.retry_merge_request(config.number, by=config.by))


@dg.op
def close(context: dg.OpExecutionContext, config: ClosingConfig, catalog: CatalogResource) -> None:
    _tell(context, catalog.client.close_merge_request(config.number, config.reason, by=config.by))


@dg.job(tags=_TAGS, executor_def=dg.in_process_executor, description="Merge a request whose checks are green, once.")
def merge_one_request() -> None:
    merge_branch()


@dg.job(executor_def=dg.in_process_executor, description="Approve the merge of exactly the commit that was looked at.")
def approve_request() -> None:
    approve()


@dg.job(executor_def=dg.in_process_executor, description="Open a request again, at the commit where its branch ends.")
def retry_request() -> None:
    retry()


@dg.job(executor_def=dg.in_process_executor, description="Close a request without merging it.")
def close_request() -> None:
    close()


merging_jobs = [merge_one_request, approve_request, retry_request, close_request]


@dg.sensor(
    jobs=[merge_one_request, load_month],
    minimum_interval_seconds=_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def follow_merge_requests(context: dg.SensorEvaluationContext, catalog: CatalogResource) -> dg.SensorResult:
    """One run for each request whose checks are green on exactly its commit; red and stale ones are closed.

    A request in conflict has its run executed again on top of the new target, or asks for a person.  The key of a run
    names the request, the attempt and how many runs of that have failed, so that a repeated tick launches none twice.
    """
    client, instance = catalog.client, context.instance
    runs: list[dg.RunRequest] = []
    told: list[str] = []
    for request in list_waiting(client):
        earlier = _runs_of(instance, request)
        failures = sum(run.status == dg.DagsterRunStatus.FAILURE and not _comes_again(run) for run in earlier)
        decision = decide(request, look_at_source(client, request), failures)
        told.append(f"{request.number} {request.source}: {decision.what}, {decision.why}")
        if decision.what is Next.CLOSE:
            client.close_merge_request(request.number, decision.why, by=_BY)
        elif not any(_is_under_way(run) for run in earlier):
            runs += _launch(instance, request, decision, failures)
    reason = "; ".join(told)[:2000] or "no merge request is open"
    return dg.SensorResult(run_requests=runs) if runs else dg.SensorResult(skip_reason=reason)


def _runs_of(instance: dg.DagsterInstance, request: MergeRequest) -> list[dg.DagsterRun]:
    tags = {REQUEST_TAG: str(request.number), ATTEMPT_TAG: _attempt(request)}
    return list(instance.get_runs(dg.RunsFilter(tags=tags)))


def _attempt(request: MergeRequest) -> str:
    return f"{request.attempt} {request.state}"


def _comes_again(run: dg.DagsterRun) -> bool:
    return run.tags.get(WILL_RETRY_TAG) == "true"


def _is_under_way(run: dg.DagsterRun) -> bool:
    ended = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    return run.status not in ended


def _launch(
    instance: dg.DagsterInstance, request: MergeRequest, decision: Decision, failures: int
) -> Iterator[dg.RunRequest]:
    tags = {REQUEST_TAG: str(request.number), ATTEMPT_TAG: _attempt(request), BRANCH_TAG: request.source}
    key = f"{decision.what} {request.number} {_attempt(request)} {failures}"
    if decision.what is Next.MERGE:
        config = {"ops": {"merge_branch": {"config": {"number": request.number}}}}
        yield dg.RunRequest(key, config, tags, job_name=merge_one_request.name)
    elif decision.what is Next.REBASE:
        root = request.source.removeprefix(PREFIX)
        parent = next(iter(request.properties.get("nessie_ops.run_id", ())), root)
        run = instance.get_run_by_id(parent)
        if run is not None:
            tags |= {ROOT_RUN_ID_TAG: root, PARENT_RUN_ID_TAG: parent}
            month = request.properties["nessie_ops.partition"][0]
            yield dg.RunRequest(key, run.run_config, tags, job_name=load_month.name, partition_key=month)


def _materialization(instance: dg.DagsterInstance, done: MergeRequest) -> dg.AssetMaterialization | None:
    """What tells that a run's tables are on the target; None for a branch of no run, and when it was told before."""
    month = next(iter(done.properties.get("nessie_ops.partition", ())), None)
    if month is None or not done.source.startswith(PREFIX) or done.merge_hash is None:
        return None
    known = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=publish.key, asset_partitions=[month]), limit=1
    ).records
    for record in known:
        event = record.asset_materialization
        if event and event.metadata["nessie/commit"].value == done.merge_hash:
            return None
    metadata: dict[str, str | int] = {
        "nessie/commit": done.merge_hash,
        "nessie/target": done.target,
        "nessie/merge_request": done.number,
    }
    return dg.AssetMaterialization(publish.key, partition=month, metadata=metadata)


def _tell(context: dg.OpExecutionContext, request: MergeRequest) -> None:
    waits = f", waits for {', '.join(request.waits_for)}" if request.waits_for else ""
    context.log.info(f"Merge request {request.number} of {request.source} is {request.state}{waits}.")
