"""Merge requests in Dagster: the jobs that merge, approve, retry and close them, and the sensor that follows them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import dagster as dg
from dagster._core.storage.tags import (
    MAX_RETRIES_TAG,
    PARENT_RUN_ID_TAG,
    PARTITION_NAME_TAG,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG,
    ROOT_RUN_ID_TAG,
    WILL_RETRY_TAG,
)

from assets.facts import of_merge, tags_of
from assets.merge_requests import (
    MAX_FAILURES,
    Decision,
    Next,
    Runs,
    decide,
    decide_to_launch,
    list_waiting,
    look_at_source,
    mark_conflict,
    merge_request,
)
from assets.publish import publish
from assets.run_branches import PREFIX
from assets.runs import BRANCH_TAG, PUBLISH_POOL, REQUEST_TAG, parent_of
from nessie_ops.client import NessieClient
from nessie_ops.errors import MergeRequestNotFound, NessieOpsError, StoreUnavailable
from nessie_ops.model import MergeRequest, MergeRequestState, parse_hash
from resources.catalog import CatalogResource
from schedules.endings import FINISHED
from schedules.jobs import load_month

ATTEMPT_TAG = "nessie/merge_attempt"
MAX_LOOKED_AT = 500  # requests of one tick, which must end within a minute
MAX_TOLD = 100  # publications of a month, and runs that merge, that are looked through for what was told before
_INTERVAL_S = 10
_BY = "dagster"
# A process that dies is replaced; a request that cannot be merged is told, not tried again by the same run.
_TAGS = {MAX_RETRIES_TAG: "3", RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"}


class RequestConfig(dg.Config):
    """Which merge request, and who asks."""

    number: int
    by: str = _BY


class ApprovalConfig(RequestConfig):
    """`by`: who approves; `commit`: the commit that was looked at, empty: the one that the request is about now."""

    by: str
    commit: str = ""


class ClosingConfig(RequestConfig):
    reason: str


@dg.op(pool=PUBLISH_POOL)
def merge_branch(context: dg.OpExecutionContext, config: RequestConfig, catalog: CatalogResource) -> None:
    done = merge_request(catalog.client, config.number, config.by)
    if done.state is not MergeRequestState.MERGED:
        raise dg.Failure(f"Merge request {done.number} is {done.state}: {done.outcome}.", allow_retries=False)
    context.log.info(f"Merge request {done.number} of {done.source} is {done.target}'s commit {done.merge_hash}.")
    _tell_of_merge(context, catalog, done)


@dg.op
def approve(context: dg.OpExecutionContext, config: ApprovalConfig, catalog: CatalogResource) -> None:
    client = catalog.client
    known = client.get_merge_request(config.number)
    commit = parse_hash(config.commit, "commit") if config.commit else known.source_hash
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
    names the request, the attempt and the run before, so that a repeated tick launches none twice.  A tick looks at
    some of very many requests, and the next one at those that follow.  A run that merged and failed before it had told
    so is followed by one that does.
    """
    client, instance = catalog.client, context.instance
    runs: list[dg.RunRequest] = []
    told: list[str] = []
    some, cursor = _take(list_waiting(client), context.cursor)
    for request in some:
        try:
            decision = _follow(client, instance, request, runs)
        except StoreUnavailable:
            raise  # of none of them anything can be said
        except NessieOpsError as error:  # such as one that somebody changes just now: the others do not wait for it
            decision = Decision(Next.WAIT, error.message)
        told.append(f"{request.number} {request.source}: {decision.what}, {decision.why}")
        context.log.info(told[-1])
    runs += _untold(client, instance)
    reason = "; ".join(told)[:2000] or "no merge request is open"
    return dg.SensorResult(runs, skip_reason=None if runs else reason, cursor=cursor)


def _take(waiting: list[MergeRequest], cursor: str | None) -> tuple[list[MergeRequest], str]:
    """Those to look at now, of requests by number, and where the next tick begins."""
    after = int(cursor) if cursor and cursor.isdecimal() else 0
    ordered = [row for row in waiting if row.number > after] + [row for row in waiting if row.number <= after]
    some = ordered[:MAX_LOOKED_AT]
    return some, str(some[-1].number) if len(ordered) > len(some) else ""


def _follow(
    client: NessieClient, instance: dg.DagsterInstance, request: MergeRequest, runs: list[dg.RunRequest]
) -> Decision:
    """Close a request, or add the run to be launched for it; what was decided."""
    decision = decide(request, look_at_source(client, request))
    if decision.what is Next.CLOSE:
        client.close_merge_request(request.number, decision.why, by=_BY, commit=request.source_hash)
    if decision.what in (Next.MERGE, Next.REBASE):
        known = _runs_of(instance, request)
        decision = decide_to_launch(decision, known)
        key = f"{decision.what} {request.number} {_attempt(request)} after {known.newest or 'none'}"
        tags = {REQUEST_TAG: str(request.number), ATTEMPT_TAG: _attempt(request), BRANCH_TAG: request.source}
        if decision.what is Next.MERGE:
            runs.append(_run_to_merge(key, request.number, tags))
        elif decision.what is Next.REBASE:
            mark_conflict(client, request)  # whoever tried to merge may have died before saying so
            return _run_again(instance, request, dg.RunRequest(key, tags=tags), decision, runs)
    return decision


def _untold(client: NessieClient, instance: dg.DagsterInstance) -> Iterator[dg.RunRequest]:
    """Runs that tell of requests which are merged, although the last run for them failed: it may not have told."""
    newest: dict[str, dg.DagsterRun] = {}
    failures = Counter[str]()
    for run in instance.get_runs(dg.RunsFilter(job_name=merge_one_request.name), limit=MAX_TOLD):
        number = run.tags.get(REQUEST_TAG, "")
        newest.setdefault(number, run)
        failures[number] += run.status == dg.DagsterRunStatus.FAILURE
    for number, run in newest.items():
        failed = run.status == dg.DagsterRunStatus.FAILURE and run.tags.get(WILL_RETRY_TAG) != "true"
        if number and failed and failures[number] < MAX_FAILURES and _is_merged(client, int(number)):
            yield _run_to_merge(f"tell {number} after {run.run_id}", int(number), {REQUEST_TAG: number})


def _is_merged(client: NessieClient, number: int) -> bool:
    try:
        return client.get_merge_request(number).state is MergeRequestState.MERGED
    except MergeRequestNotFound:  # the catalog is another one now
        return False


def _run_to_merge(key: str, number: int, tags: dict[str, str]) -> dg.RunRequest:
    config = {"ops": {"merge_branch": {"config": {"number": number}}}}
    return dg.RunRequest(key, config, tags, job_name=merge_one_request.name)


def _runs_of(instance: dg.DagsterInstance, request: MergeRequest) -> Runs:
    tags = {REQUEST_TAG: str(request.number), ATTEMPT_TAG: _attempt(request)}
    found = list(instance.get_runs(dg.RunsFilter(tags=tags)))  # newest first
    replaced = {parent_of(run) for run in found}  # their tag still says that they will be
    comes = [run for run in found if run.tags.get(WILL_RETRY_TAG) == "true" and run.run_id not in replaced]
    live = [run for run in found if run.status not in FINISHED] + comes
    cancelled = [run for run in found if run.status == dg.DagsterRunStatus.CANCELED]
    return Runs(
        newest=found[0].run_id if found else "",
        under_way=live[0].run_id if live else "",
        cancelled=cancelled[0].run_id if cancelled else "",
        failures=sum(run.status == dg.DagsterRunStatus.FAILURE and run.run_id not in replaced for run in found),
    )


def _attempt(request: MergeRequest) -> str:
    return f"{request.attempt} {request.state}"


def _run_again(
    instance: dg.DagsterInstance,
    request: MergeRequest,
    wanted: dg.RunRequest,
    decision: Decision,
    runs: list[dg.RunRequest],
) -> Decision:
    root = request.source.removeprefix(PREFIX)
    parent = next(iter(request.properties.get("nessie_ops.run_id", ())), root)
    run = instance.get_run_by_id(parent)
    month = run.tags.get(PARTITION_NAME_TAG) if run and run.job_name == load_month.name else None
    if run is None or month is None:
        why = f"{request.outcome}; no run {parent} of {load_month.name} is known here that could be executed again"
        return Decision(Next.ASK, why)
    tags = {**wanted.tags, ROOT_RUN_ID_TAG: root, PARENT_RUN_ID_TAG: parent}
    config = _asking(run.run_config)
    runs.append(dg.RunRequest(wanted.run_key, config, tags, job_name=load_month.name, partition_key=month))
    return decision


def _asking(run_config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a run that asks again, wherever the first one was told to."""
    ops = dict(run_config.get("ops", {}))
    asking = {**ops.get("publish", {}).get("config", {}), "publish": "sensor"}
    return {**run_config, "ops": {**ops, "publish": {"config": asking}}}


def _tell_of_merge(context: dg.OpExecutionContext, catalog: CatalogResource, done: MergeRequest) -> None:
    """Name branch and commits by tags of this run and of the one that asked; tell once that its tables are there."""
    if done.merge_hash is None:
        return
    facts, observations = of_merge(catalog, done.target, done.merge_hash)
    for run_id in {context.run_id, *done.properties.get("nessie_ops.run_id", ())}:
        if context.instance.has_run(run_id):
            context.instance.add_run_tags(run_id, tags_of(facts))
    month = next(iter(done.properties.get("nessie_ops.partition", ())), None)
    if month is None or not done.source.startswith(PREFIX) or _is_told(context.instance, month, done.merge_hash):
        return
    for observation in observations:
        context.log_event(observation)
    metadata = {**facts, "nessie/merge_request": done.number}
    context.log_event(dg.AssetMaterialization(publish.key, partition=month, metadata=metadata))


def _is_told(instance: dg.DagsterInstance, month: str, commit: str) -> bool:
    filter = dg.AssetRecordsFilter(asset_key=publish.key, asset_partitions=[month])
    for record in instance.fetch_materializations(filter, limit=MAX_TOLD).records:
        event = record.asset_materialization
        if event and event.metadata["nessie/commit"].value == commit:
            return True
    return False


def _tell(context: dg.OpExecutionContext, request: MergeRequest) -> None:
    waits = f", waits for {', '.join(request.waits_for)}" if request.waits_for else ""
    context.log.info(f"Merge request {request.number} of {request.source} is {request.state}{waits}.")
