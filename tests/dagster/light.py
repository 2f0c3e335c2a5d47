"""The pipeline without Spark: the real run branch, gate and publishing; one step stands for all tables and checks.

A run's tags tell what its tables write (`light/writes`: names of tables of the catalog that begin with theirs), which
checks fail (`light/fails`: labels), and on how many attempts someone else changes the same tables on main meanwhile
(`light/rivals`), and for which file it waits before its checks (`light/waits`).
"""

import threading
import time
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from types import MappingProxyType

import dagster as dg
from dagster._core.storage.tags import (
    PARENT_RUN_ID_TAG,
    RETRY_ON_ASSET_OR_OP_FAILURE_TAG,
    RETRY_STRATEGY_TAG,
    ROOT_RUN_ID_TAG,
)

from assets.branch import run_branch
from assets.checks import all_checks
from assets.freshness import freshness_check
from assets.publish import publish, validated
from assets.run_branches import REBASES, RUN_ID
from assets.runs import READ_AT, opened_branch_of, remembered, root_of
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, NewCommit, Put
from resources.catalog import CatalogResource
from schedules.jobs import load_month
from schedules.merging import follow_merge_requests, merging_jobs
from schedules.reaping import reap_branches
from schedules.sensors import all_sensors
from tests.versioning.helpers import key, table

WRITES, FAILS, RIVALS, WAITS = "light/writes", "light/fails", "light/rivals", "light/waits"
NOTHING: Mapping[str, str] = MappingProxyType({})
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
_numbers, _lock = count(1), threading.Lock()


def write(client: NessieClient, branch: str, *paths: str) -> CommitHash:
    """Give tables a new state by one commit; the branch's new head."""
    at = client.get_reference(branch).hash
    known = client.get_contents(at, [key(path) for path in paths])
    with _lock:
        numbers = [next(_numbers) for _ in paths]
    puts = [
        Put(key(path), table(n, str(known[key(path)].id) if key(path) in known else None))
        for path, n in zip(paths, numbers)
    ]
    return client.commit(branch, at, NewCommit(message="write"), puts).target_branch.hash


SPECS = [spec for check in all_checks for spec in check.check_specs]
TABLES = sorted({spec.asset_key for spec in SPECS})


def write_tables(context: dg.AssetExecutionContext, client: NessieClient, below: str = "") -> None:
    """Write what the tags name, by a commit each; and so does, on main, the rival whom they name."""
    branch, wanted = opened_branch_of(context.run, client), remembered(context.instance, context.run, WRITES) or ""
    paths = [path for path in wanted.split() if path.startswith(below)]
    for path in paths:
        write(client, branch, path)
    if paths and int(client.get_reference(branch).properties[REBASES]) < int(context.run.tags.get(RIVALS, "0")):
        write(client, "main", *paths)


def check_result(run: dg.DagsterRun, client: NessieClient, spec: dg.AssetCheckSpec) -> dg.AssetCheckResult:
    """What a check finds: what the run's tags say."""
    label = f"{'.'.join(spec.asset_key.path)}:{spec.name}"
    fails = label in run.tags.get(FAILS, "").split()
    return dg.AssetCheckResult(
        passed=not fails,
        asset_key=spec.asset_key,
        check_name=spec.name,
        severity=dg.AssetCheckSeverity.ERROR if spec.blocking else dg.AssetCheckSeverity.WARN,
        metadata={READ_AT: client.get_reference(opened_branch_of(run, client)).hash, "bad_rows": int(fails)},
    )


@dg.multi_asset(
    specs=[dg.AssetSpec(key, deps=[run_branch]) for key in TABLES],
    check_specs=[dg.AssetCheckSpec(spec.name, asset=spec.asset_key, blocking=spec.blocking) for spec in SPECS],
)
def all_tables(context: dg.AssetExecutionContext, catalog: CatalogResource) -> Iterator[dg.MaterializeResult]:
    client = catalog.client
    write_tables(context, client)
    while (gate := context.run.tags.get(WAITS)) and not Path(gate).exists():
        time.sleep(0.1)
    for key_ in TABLES:
        results = [check_result(context.run, client, spec) for spec in SPECS if spec.asset_key == key_]
        yield dg.MaterializeResult(asset_key=key_, check_results=results)


defs = dg.Definitions(
    assets=[run_branch, all_tables, validated, publish],
    asset_checks=[freshness_check],
    jobs=[load_month, reap_branches, *merging_jobs],
    sensors=[*all_sensors, follow_merge_requests],
    resources={"catalog": CatalogResource()},
)


def execute(
    instance: dg.DagsterInstance,
    tags: Mapping[str, str] = NOTHING,
    *,
    parent: dg.DagsterRun | None = None,
    publish: str = "merge",
) -> dg.DagsterRun:
    """A run of January, or all steps of one again, as it ended."""
    again = {ROOT_RUN_ID_TAG: root_of(parent), PARENT_RUN_ID_TAG: parent.run_id} if parent else {}
    done = defs.resolve_job_def("load_month").execute_in_process(
        run_config={**QUIET, "ops": {"publish": {"config": {"publish": publish}}}},
        partition_key="2013-01",
        tags={**_light(parent.tags if parent else {}), **tags, **again},
        instance=instance,
        raise_on_error=False,
    )
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    return run


def publish_again(instance: dg.DagsterInstance, run: dg.DagsterRun, publish: str) -> dg.ExecuteInProcessResult:
    """The last step of a run alone, as a resumption would execute it."""
    return defs.resolve_job_def("load_month").execute_in_process(
        run_config={"ops": {"publish": {"config": {"publish": publish}}}},
        partition_key="2013-01",
        tags={"dagster/root_run_id": run.run_id, "dagster/parent_run_id": run.run_id},
        asset_selection=[dg.AssetKey("publish")],
        instance=instance,
        raise_on_error=False,
    )


def _light(tags: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in tags.items() if name in (WRITES, FAILS, RIVALS)}


def drive(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> list[dg.DagsterRun]:
    """A run that merges and, as often as it asks for that, all its steps again: what the daemon does."""
    runs = [execute(instance, tags)]
    while runs[-1].status == dg.DagsterRunStatus.FAILURE and wants_all_steps(runs[-1]):
        runs.append(execute(instance, parent=runs[-1]))
    return runs


def wants_all_steps(run: dg.DagsterRun) -> bool:
    return run.tags.get(RETRY_STRATEGY_TAG) == "ALL_STEPS" and run.tags[RETRY_ON_ASSET_OR_OP_FAILURE_TAG] == "true"


def tick(instance: dg.DagsterInstance) -> list[dg.RunRequest]:
    """What one evaluation of the sensor that follows merge requests launches."""
    resources = {"catalog": CatalogResource()}
    context = dg.build_sensor_context(instance=instance, definitions=defs, resources=resources)
    found = follow_merge_requests(context)
    assert isinstance(found, dg.SensorResult)
    return list(found.run_requests or [])


def launch(instance: dg.DagsterInstance, wanted: dg.RunRequest) -> dg.DagsterRun:
    """The run that a sensor asked for, as it ended."""
    assert wanted.job_name
    parent = instance.get_run_by_id(wanted.tags.get(PARENT_RUN_ID_TAG, ""))
    done = defs.resolve_job_def(wanted.job_name).execute_in_process(
        run_config={**wanted.run_config, **QUIET},
        tags={**_light(parent.tags if parent else {}), **wanted.tags},
        partition_key=wanted.partition_key,
        instance=instance,
        raise_on_error=False,
    )
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    return run


def follow(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """All runs that the sensor asks for until it asks for no more."""
    runs = []
    while wanted := tick(instance):
        runs += [launch(instance, one) for one in wanted]
    return runs


def published(client: NessieClient, root_run_id: str) -> list[CommitHash]:
    """The commits of main that a run and its re-executions made."""
    log = client.list_log(client.get_reference("main").hash, limit=10_000)
    return [one.commit_meta.hash for one in log if one.commit_meta.all_properties.get(RUN_ID) == (root_run_id,)]


def told(instance: dg.DagsterInstance) -> list[str]:
    """The commits of main that materializations of `publish` name, newest first."""
    records = instance.fetch_materializations(dg.AssetKey("publish"), limit=1000).records
    return [str(record.asset_materialization.metadata["nessie/commit"].value) for record in records]  # type: ignore[union-attr]
