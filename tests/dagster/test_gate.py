"""The gate in front of main: a failed blocking check launches nothing downstream, and main is told of last.

The graph is the pipeline's, with its tables, checks and dependencies; what they do is left to the run's tags.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.branch import run_branch
from assets.bronze import bronze_assets
from assets.checks import all_checks
from assets.freshness import freshness_check
from assets.gold import gold_assets
from assets.publish import publish, validated
from assets.run_branches import ensure_namespaces
from assets.silver import silver_assets
from assets.transforms.tables import NAMESPACES
from nessie_ops.client import NessieClient
from resources.catalog import CatalogResource
from schedules.jobs import load_month
from tests.dagster.light import FAILS, SPECS, WRITES, check_result, published, told, write_tables

RANDOM = random.Random(20130101)
BLOCKING = [spec for spec in SPECS if spec.blocking]
WARNING = [spec for spec in SPECS if not spec.blocking]


def _table(real: dg.AssetsDefinition) -> dg.AssetsDefinition:
    @dg.asset(key=real.key, deps=list(real.dependency_keys), partitions_def=real.partitions_def)
    def light(context: dg.AssetExecutionContext, catalog: CatalogResource) -> None:
        write_tables(context, catalog.client, ".".join(real.key.path))

    return light


def _check(real: dg.AssetChecksDefinition) -> dg.AssetChecksDefinition:
    @dg.multi_asset_check(name=real.op.name, specs=list(real.check_specs))
    def light(context: dg.AssetCheckExecutionContext, catalog: CatalogResource) -> Iterator[dg.AssetCheckResult]:
        for spec in real.check_specs:
            yield check_result(context.run, catalog.client, spec)

    return light


DEFS = dg.Definitions(
    assets=[run_branch, *map(_table, [*bronze_assets, *silver_assets, *gold_assets]), validated, publish],
    asset_checks=[*map(_check, all_checks), freshness_check],
    jobs=[load_month],
    resources={"catalog": CatalogResource()},
)
GRAPH = DEFS.resolve_asset_graph()


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance in memory: each run writes down some two hundred events."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def execute(instance: dg.DagsterInstance, fails: list[dg.AssetCheckSpec]) -> dg.ExecuteInProcessResult:
    labels = [f"{'.'.join(spec.asset_key.path)}:{spec.name}" for spec in fails]
    return DEFS.resolve_job_def("load_month").execute_in_process(
        partition_key="2013-01",
        tags={WRITES: "silver.flights gold.carrier_delays", FAILS: " ".join(labels)},
        instance=instance,
        raise_on_error=False,
    )


def below(key: dg.AssetKey) -> set[dg.AssetKey]:
    """All that is made of an asset, directly or not."""
    found, waiting = set(), [key]
    while waiting:
        children = GRAPH.get(waiting.pop()).child_keys - found
        found |= children
        waiting += children
    return found


@pytest.mark.parametrize("number", range(4))
def test_a_failed_blocking_check_launches_nothing_downstream(
    client: NessieClient, instance: dg.DagsterInstance, number: int
) -> None:
    """Of random checks, one of them at least blocking."""
    fails = RANDOM.sample(BLOCKING, RANDOM.randint(1, 3)) + RANDOM.sample(WARNING, RANDOM.randint(0, 2))
    blocked = set[dg.AssetKey]().union(*(below(spec.asset_key) for spec in fails if spec.blocking))
    before = ensure_namespaces(client, "main", NAMESPACES)
    result = execute(instance, fails)
    assert not result.success
    started = {event.step_key for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_START}
    assert not {"__".join(key.path) for key in blocked} & started, [str(spec.key) for spec in fails]
    assert "run_branch" in started and {"validated", "publish"} <= {key.path[-1] for key in blocked}
    written = {event.asset_key for event in result.get_asset_materialization_events()}
    assert not blocked & written
    assert published(client, result.run_id) == [] and told(instance) == []
    assert client.get_reference("main").hash == before


def test_main_is_told_of_after_its_commit_is_there(client: NessieClient, instance: dg.DagsterInstance) -> None:
    result = execute(instance, WARNING)
    assert result.success, "what only warns stops nothing"
    [commit] = published(client, result.run_id)
    assert told(instance) == [commit]
    committed = client.get_commit(commit).commit_time
    assert committed is not None
    for record in instance.fetch_materializations(dg.AssetKey("publish"), limit=1).records:
        assert datetime.fromtimestamp(record.timestamp, UTC) >= committed
    steps = {stats.step_key: stats for stats in instance.get_run_step_stats(result.run_id)}
    assert steps["publish"].start_time and steps["publish"].start_time <= committed.timestamp()
