"""Executing jobs in this process, without a daemon, recorded in the instance, where the web server shows them.

A process that drives holds a lock, which the system lets go when it ends in whatever way; so a run that was left open
by one that was killed is told from one that goes on.  The next process to drive ends it.  Machines that have their
records in one database have locks of their own, and leave each other's runs alone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository
from dagster._core.execution.api import create_execution_plan, execute_run_iterator
from dagster._core.snap import snapshot_from_execution_plan

from resources.catalog import CatalogResource
from schedules.endings import FINISHED, quarantine_run
from schedules.jobs import load_month, load_on_branch

DRIVER_TAG = "nessie/driver"  # on runs that a process executes by itself: the lock that it holds while it lives

OnEvent = Callable[[dg.DagsterEvent], None]


def get_job(name: str) -> ReconstructableJob:
    """A job of the definitions."""
    repository = ReconstructableRepository.for_module("nessie_ops.definitions", "defs")
    return repository.get_reconstructable_job(name)


def create_part(
    instance: dg.DagsterInstance,
    job: ReconstructableJob,
    assets: AbstractSet[dg.AssetKey],
    checks: AbstractSet[dg.AssetCheckKey],
    config: Mapping[str, object],
    tags: Mapping[str, str],
) -> dg.DagsterRun:
    """A run of those assets and checks of a job, also of checks alone, to be executed by `execute`."""
    part = job.get_subset(asset_selection=assets, asset_check_selection=checks).get_definition()
    plan = create_execution_plan(part, run_config=config, tags=dict(tags))
    return instance.create_run(
        job_name=part.name,
        run_id=None,
        run_config=config,
        status=None,
        tags={**part.run_tags, **tags},
        step_keys_to_execute=plan.step_keys_to_execute,
        execution_plan_snapshot=snapshot_from_execution_plan(plan, part.get_job_snapshot_id()),
        job_snapshot=part.get_job_snapshot(),
        parent_job_snapshot=part.get_parent_job_snapshot(),
        asset_selection=assets,
        asset_check_selection=checks,
        resolved_op_selection=None,
        op_selection=None,
        root_run_id=None,
        parent_run_id=None,
        remote_job_origin=None,
        job_code_origin=None,
        asset_graph=part.asset_layer.asset_graph,
    )


def execute(instance: dg.DagsterInstance, job: ReconstructableJob, run: dg.DagsterRun, on_event: OnEvent) -> None:
    """Execute a run that was created, to its end; how it ended is in the instance."""
    try:
        for event in execute_run_iterator(job, run, instance):
            on_event(event)
    finally:
        # A step that was interrupted keeps its turn to publish, and there need not be a daemon that takes it away.
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)


def without_console(config: Mapping[str, object]) -> dict[str, object]:
    """The run configuration with a silent console: whoever drives shows the events."""
    return {**config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def end_abandoned(instance: dg.DagsterInstance) -> list[str]:
    """Fail the runs whose driving process is gone and quarantine their branches; the ids of those runs."""
    open_statuses = [status for status in dg.DagsterRunStatus if status not in FINISHED]
    ended = []
    for job in (load_month, load_on_branch):
        for run in instance.get_runs(dg.RunsFilter(job_name=job.name, statuses=open_statuses)):
            lock = run.tags.get(DRIVER_TAG)
            if lock is None or not lock.startswith(_place(instance)) or _is_held(_locks(instance) / lock):
                continue
            instance.report_run_failed(run, "The process that executed this run has ended.")
            # A step that waited for its turn to publish, or had it, would keep others from theirs.
            instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
            quarantine_run(instance, CatalogResource().client, run.run_id)
            (_locks(instance) / lock).unlink(missing_ok=True)
            ended.append(run.run_id)
    return ended


@contextmanager
def driving(instance: dg.DagsterInstance) -> Iterator[str]:
    """Hold a lock of this process while inside; its name is the value of DRIVER_TAG."""
    name = f"{_place(instance)}-{uuid4().hex}"
    path = _locks(instance) / name
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield name
        finally:
            path.unlink()


def _locks(instance: dg.DagsterInstance) -> Path:
    folder = Path(instance.root_directory) / "drivers"
    folder.mkdir(exist_ok=True)
    return folder


def _place(instance: dg.DagsterInstance) -> str:
    """What this folder of locks is called, by which it is known again whatever machine or container it is seen from."""
    path = _locks(instance) / "place"
    if not path.exists():
        new = path.with_name(uuid4().hex)
        new.write_text(uuid4().hex)
        with suppress(FileExistsError):  # of two at once, one gives the name
            os.link(new, path)
        new.unlink()
    return path.read_text()


def _is_held(path: Path) -> bool:
    try:
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
