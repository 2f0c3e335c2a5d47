"""`rerun_month`: execute a run again, from where it failed, from its start, or on another state of main.

The job looks whether that may be done and moves the branch; a sensor then launches the run, once for each success of
the job, since only the daemon can put runs into the queue.  The new run works on the branch of the first.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import dagster as dg
from dagster._core.definitions.dependency import NodeHandle
from dagster._core.storage.tags import PARENT_RUN_ID_TAG, PARTITION_NAME_TAG, ROOT_RUN_ID_TAG

from assets.run_branches import (
    BASE,
    CONFLICTS,
    QUARANTINED_AT,
    REBASES,
    VALIDATED,
    branch_name,
    find_state,
    open_branch,
)
from assets.runs import BRANCH_TAG, lineage, month_of, root_of
from assets.transforms.tables import NAMESPACES
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import QUARANTINED, CommitHash
from resources.catalog import CatalogResource
from schedules.endings import is_live, list_group
from schedules.jobs import load_month

_INTERVAL_S = 10
_OP = "prepare_rerun"


class Mode(Enum):
    """`resume`: the steps that have not succeeded; `all_steps`: all; `new_main`: all, on top of main as it is now."""

    resume = "resume"
    all_steps = "all_steps"
    new_main = "new_main"


class RerunConfig(dg.Config):
    """Any run of the month by its id; `base`: a state of the past, such as `read/before`, in place of the new main."""

    run_id: str
    mode: Mode = Mode.resume
    base: str = ""


@dg.op
def prepare_rerun(context: dg.OpExecutionContext, config: RerunConfig, catalog: CatalogResource) -> None:
    run = find_newest(context.instance, config.run_id)
    name = branch_name(root_of(run))
    if config.base and config.mode is not Mode.new_main:
        raise BadRequest(f"base: goes with the mode {Mode.new_main.value} alone.")
    if config.mode is Mode.resume and run.status == dg.DagsterRunStatus.SUCCESS:
        raise BadRequest(f"mode: run {run.run_id} has succeeded; choose all_steps or new_main.")
    if config.mode is Mode.new_main:
        head = move_branch(catalog.client, catalog.main, name, config.base)
        context.log.info(f"{name} is at {head}; what it held before is left behind.")
    context.log.info(f"The sensor {launch_reruns.name} launches the run after {run.run_id}, on {name}.")


def move_branch(client: NessieClient, main: str, name: str, base: str = "") -> CommitHash:
    """Where the branch `name` is then: at main's head or at `base`, whatever it held; not while a run writes to it.

    Its validation, conflicts and quarantine go, and re-bases are counted anew.
    """
    opened = open_branch(client, main, name, NAMESPACES, base=base)
    wanted = find_state(client, base) if base else client.get_reference(main).hash
    # First the move, as in a re-base: killed in between, it is done again.
    client.assign_reference(name, opened.head, wanted)
    known = client.get_reference(name).properties
    gone = [key for key in (CONFLICTS, VALIDATED, QUARANTINED, QUARANTINED_AT) if key in known]
    client.update_properties(name, {BASE: wanted, REBASES: "0"}, gone)
    return wanted


@dg.job(executor_def=dg.in_process_executor, description="Execute a month's run again: resume, all steps, or new main.")
def rerun_month() -> None:
    prepare_rerun()


@dg.run_status_sensor(
    run_status=dg.DagsterRunStatus.SUCCESS,
    monitored_jobs=[rerun_month],
    request_job=load_month,
    minimum_interval_seconds=_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def launch_reruns(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
    """The run that a `rerun_month` asked for; its key names the asking run, so it is launched once."""
    asked = context.dagster_run
    config: Any = asked.run_config
    given = config["ops"][_OP]["config"]
    assert context.repository_def is not None  # sensors of a code location have one
    job = context.repository_def.get_job(load_month.name)
    is_resume = given.get("mode", Mode.resume.name) == Mode.resume.name
    try:
        run = find_newest(context.instance, given["run_id"])
        done = succeeded(context.instance, run) if is_resume else set()
        return plan(job, run, done, f"rerun {asked.run_id}")
    except BadRequest as error:
        return dg.SkipReason(error.message)


def plan(job: dg.JobDefinition, run: dg.DagsterRun, done: set[str], key: str) -> dg.RunRequest:
    """The run that executes the steps of `job` which are not `done`, on the branch of `run`, with its settings.

    BadRequest when all are done, as when a run's process died at its very end.
    """
    left = [node.name for node in job.nodes if node.name not in done]
    if not left:
        raise BadRequest(f"mode: all steps of run {run.run_id} have succeeded; choose all_steps or new_main.")
    keys = [key for name in left for key in job.asset_layer.get_selected_entity_keys_for_node(NodeHandle(name, None))]
    root = root_of(run)
    config: Any = run.run_config
    ops = {name: value for name, value in config.get("ops", {}).items() if name in left}
    return dg.RunRequest(
        key,
        {**config, "ops": ops},
        {ROOT_RUN_ID_TAG: root, PARENT_RUN_ID_TAG: run.run_id, BRANCH_TAG: branch_name(root)},
        job_name=load_month.name,
        partition_key=run.tags[PARTITION_NAME_TAG],
        asset_selection=[key for key in keys if isinstance(key, dg.AssetKey)] if done else None,
        asset_check_keys=[key for key in keys if isinstance(key, dg.AssetCheckKey)] if done else None,
    )


def find_newest(instance: dg.DagsterInstance, run_id: str) -> dg.DagsterRun:
    """The newest of a run and its re-executions; BadRequest when it is no month's, or one of them is under way."""
    given = instance.get_run_by_id(run_id)
    if given is None or given.job_name != load_month.name:
        raise BadRequest(f"run_id: '{run_id[:40]}' is not a run of {load_month.name}.")
    month_of(given)
    if is_live(instance, root_of(given)):
        raise BadRequest(f"run_id: a run on {branch_name(root_of(given))} is under way; wait for it, or terminate it.")
    runs = list_group(instance, root_of(given))
    order = {record.dagster_run.run_id: record.storage_id for record in _records(instance, runs)}
    return max(runs, key=lambda run: order[run.run_id])


def _records(instance: dg.DagsterInstance, runs: Sequence[dg.DagsterRun]) -> Sequence[dg.RunRecord]:
    return instance.get_run_records(dg.RunsFilter(run_ids=[run.run_id for run in runs]))


def succeeded(instance: dg.DagsterInstance, run: dg.DagsterRun) -> set[str]:
    """Names of the steps that succeeded in the run and, where it executed only some, in those that it re-executes."""
    done: set[str] = set()
    for each in lineage(instance, run):
        stats = instance.get_run_step_stats(each.run_id)
        done |= {step.step_key for step in stats if step.status and step.status.value == "SUCCESS"}
        if not each.step_keys_to_execute and each.asset_selection is None:
            break
    return done
