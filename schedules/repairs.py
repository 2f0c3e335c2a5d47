"""Jobs for people: throw a run's branch away, undo what a run published, keep a state of the past to read from.

Each is typed configuration away in the launchpad, and may be launched again: what is done already is found.
"""

import dagster as dg

from assets.merge_requests import list_waiting
from assets.run_branches import PREFIX, branch_name, find_state
from nessie_ops.catalog.runwork import REVERTED, is_of_run
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MergeConflict, ReferenceAlreadyExists, ReferenceNotFound
from nessie_ops.model import CommitMeta, NewCommit, Reference, ReferenceType
from resources.catalog import CatalogResource
from schedules.endings import is_live

READ = "read/"  # tags that people open to read a state of the past
_MAX_LOG = 10_000  # commits of the target looked through for a run's


class RunConfig(dg.Config):
    """A run, by its id; `by` is who asks and `reason` why."""

    run_id: str
    reason: str = ""
    by: str = ""


class StateConfig(dg.Config):
    """`at`: a commit or time, as `main*2026-01-31T00:00:00Z`, `main~3` or a hash; the tag is `read/<name>`."""

    at: str
    name: str


@dg.op
def discard_branch(context: dg.OpExecutionContext, config: RunConfig, catalog: CatalogResource) -> None:
    client, root = catalog.client, _root(context.instance, config.run_id)
    if is_live(context.instance, root):
        raise dg.Failure(f"Run {root} may still write to its branch: terminate it first.", allow_retries=False)
    name = branch_name(root)
    for request in list_waiting(client):
        if request.source == name:
            client.close_merge_request(request.number, config.reason or "the run was discarded", by=config.by)
    try:
        client.delete_reference(name, client.get_reference(name).hash)
    except ReferenceNotFound:
        context.log.info(f"{name} is gone already.")
    else:
        context.log.info(f"{name} is deleted; its files go with the next collection.")


@dg.op
def revert_published(context: dg.OpExecutionContext, config: RunConfig, catalog: CatalogResource) -> None:
    client, main = catalog.client, catalog.main
    log = [entry.commit_meta for entry in client.list_log(client.get_reference(main).hash, limit=_MAX_LOG)]
    published = _find_published(log, config.run_id)
    message = f"Revert run {config.run_id[:8]}: {published.message}" + (f"\n\n{config.reason}" if config.reason else "")
    meta = NewCommit(
        message=message, authors=(config.by,) if config.by else (), properties={REVERTED: (published.hash,)}
    )
    try:
        result = client.revert(main, None, published.hash, meta=meta)
    except MergeConflict as error:
        done = next((meta.hash for meta in log if meta.all_properties.get(REVERTED) == (published.hash,)), None)
        if done is not None:
            context.log.info(f"{main} has it undone already, by {done}.")
            return
        tables = ", ".join(str(conflict.key) for conflict in error.conflicts if conflict.key)
        raise dg.Failure(
            f"Later commits changed {tables} as well: revert those first, newest first, or put single tables back with "
            "`nessie-ops revert --key`.",
            allow_retries=False,
        ) from error
    context.log.info(f"{main} is at {result.resultant_target_hash}, without what run {config.run_id} published.")


@dg.op
def open_state(context: dg.OpExecutionContext, config: StateConfig, catalog: CatalogResource) -> None:
    found = open_read_only(catalog.client, config.at, config.name)
    context.log.info(f"Tag {found.name} is {config.at}: {found.hash}.")


def open_read_only(client: NessieClient, at: str, name: str) -> Reference:
    """The tag `read/<name>` at a state of the past, which nobody writes to; BadRequest when it is another state's."""
    wanted = find_state(client, at)
    try:
        return client.create_reference(ReferenceType.TAG, f"{READ}{name}", wanted)
    except ReferenceAlreadyExists:
        found = client.get_reference(f"{READ}{name}")
        if found.hash != wanted:
            raise BadRequest(f"name: {READ}{name} is another state already, {found.hash}; choose another.") from None
        return found


def _find_published(log: list[CommitMeta], run_id: str) -> CommitMeta:
    for meta in log:
        if is_of_run(meta, run_id):
            return meta
    raise BadRequest(f"run_id: no commit of the target was published by run {run_id[:40]}.")


def _root(instance: dg.DagsterInstance, run_id: str) -> str:
    run = instance.get_run_by_id(run_id.removeprefix(PREFIX))
    return (run.get_root_run_id() or run.run_id) if run else run_id.removeprefix(PREFIX)


@dg.job(executor_def=dg.in_process_executor, description="Throw a run's branch away, with the request to merge it.")
def discard_run() -> None:
    discard_branch()


@dg.job(executor_def=dg.in_process_executor, description="Undo what a run published, by a new commit.")
def revert_run() -> None:
    revert_published()


@dg.job(executor_def=dg.in_process_executor, description="Keep a state of the past as a tag that can be read from.")
def open_past() -> None:
    open_state()


repair_jobs = [discard_run, revert_run, open_past]
