"""Maintenance of tables on real Spark: fewer files, the same rows, one commit or none; the past stays readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from assets.maintenance import compare_sizes, list_tables
from assets.run_branches import branch_name, ensure_namespaces, open_branch
from assets.transforms.tables import CLEAN_FLIGHTS, NAMESPACES, create_table
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.gc.rewriting import MAINTENANCE
from nessie_ops.model import QUARANTINED, CommitHash, ContentKey, Delete, NewCommit, Put
from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake
from resources.tables import TableApi
from schedules.endings import quarantine_run
from schedules.maintenance import MaintenanceConfig, to_limits
from tests.dagster.garbage import ALL, errors
from tests.versioning.helpers import key, table

pytestmark = pytest.mark.spark

SMALL = {"min_small_files": 4, "min_manifests": 4, "keep_snapshots_for": "PT0S"}
TABLE = "silver.flights"


@pytest.fixture(scope="module")
def lake(home: Path) -> SparkLake:
    return SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())


@pytest.fixture(scope="module")
def loaded(lake: SparkLake) -> str:
    """The pipeline's silver.flights on main, with twelve flights of January in six files; main's commit."""
    ensure_namespaces(CatalogResource().client, "main", NAMESPACES)
    with lake.session("main") as spark:
        create_table(spark, CLEAN_FLIGHTS)
        values = "2013 AS year, 1 AS month, 5 AS day, 'AA' AS carrier, id AS flight, 'JFK' AS origin"
        rest = ", ".join(f"CAST(null AS {kind}) AS {name}" for name, kind in CLEAN_FLIGHTS.fields[6:])
        spark.sql(f"INSERT INTO {TABLE} SELECT {values}, {rest} FROM range(12)")
    return scatter(lake)


def scatter(lake: SparkLake, table: str = TABLE, branch: str = "main") -> str:
    """Write a table's rows anew, as six files; the commit."""
    with lake.session(branch) as spark:
        rows = spark.table(table).repartition(6)
        rows.writeTo(table).option("distribution-mode", "none").overwritePartitions()
    return CatalogResource().client.get_reference(branch).hash


def fill(spark: SparkSession, table: str) -> None:
    """A table of five rows, each in a file, a manifest and a snapshot of its own, with values that are hard to hash."""
    spark.sql(f"CREATE TABLE {table} (id INT, a STRING, b STRING, m MAP<STRING, INT>) USING iceberg")
    for number in range(5):
        spark.sql(f"INSERT INTO {table} VALUES ({number}, null, 'x', map('k', {number}))")


def maintain(instance: dg.DagsterInstance, run_id: str = "", **config: Any) -> dg.ExecuteInProcessResult:
    job = build().resolve_job_def("maintain_tables")
    given = {"ops": {"compact_tables": {"config": {**SMALL, **config}}}}
    return job.execute_in_process(given, instance=instance, run_id=run_id or str(uuid4()), raise_on_error=False)


def told(result: dg.ExecuteInProcessResult, step: str, output: str = "result") -> dict[str, Any]:
    """The metadata of a step's output."""
    events = [event for event in result.all_node_events if event.is_successful_output and event.step_key == step]
    [found] = [event.step_output_data for event in events if event.step_output_data.output_name == output]
    return {name: value.value for name, value in found.metadata.items()}


def head(client: NessieClient) -> CommitHash:
    return CommitHash(client.get_reference("main").hash)


def snapshots(ref: str, table: str) -> set[int]:
    metadata = TableApi(CatalogResource()).load(ref, ContentKey.of(*table.split(".")))
    return {each["snapshot-id"] for each in metadata.json["snapshots"]}


def count_files(spark: SparkSession, table: str) -> int:
    row = spark.sql(f"SELECT count(*) AS n FROM {table}.files").first()
    assert row is not None
    return int(row["n"])


@pytest.fixture
def extra(lake: SparkLake, client: NessieClient, loaded: str) -> Iterator[str]:
    """A table on main that is none of the pipeline's."""
    name = f"silver.extra_{uuid4().hex[:8]}"
    with lake.session("main") as spark:
        fill(spark, name)
        yield name
        spark.sql(f"DROP TABLE {name}")


def test_tables_are_compacted_by_one_commit_and_the_past_stays_readable(
    lake: SparkLake, client: NessieClient, instance: dg.DagsterInstance, extra: str
) -> None:
    before = head(client)
    dry = maintain(instance, dry_run=True)
    assert dry.success, errors(dry)
    plan = told(dry, "compact_tables", "report")
    assert (plan["dry_run"], plan["tables/looked_at"], head(client)) == (True, 2, before)
    assert f"| {TABLE} | 6 |" in plan["work"] and f"| {extra} | 5 |" in plan["work"]
    assert client.list_references(prefix="run/") == []

    result = maintain(instance, tables=["silver.*"], leave_out=["*.other"])
    assert result.success, errors(result)
    [entry] = client.list_log(head(client), limit_hash=before, limit=1, with_operations=True)
    assert entry.parent_commit_hash == before, "one commit"
    assert {str(operation.key) for operation in entry.operations or ()} == {TABLE, extra}
    properties = entry.commit_meta.all_properties
    assert properties["nessie_ops.run_id"] == (result.run_id,) and MAINTENANCE in properties
    assert client.list_references(prefix="run/") == []
    facts = told(result, "publish_tables")
    assert (facts["files/before"], facts["files/after"], facts["left_out"], facts["tables"]) == (11, 2, "", 2)
    assert facts["bytes/after"] < facts["bytes/before"]
    [seen] = [
        event.asset_observation_data.asset_observation
        for event in result.all_events
        if event.event_type_value == "ASSET_OBSERVATION"
    ]
    assert seen.asset_key.path == TABLE.split(".")
    assert (seen.metadata["files/before"].value, seen.metadata["files/after"].value) == (6, 1)
    assert seen.metadata["nessie/commit"].value == entry.commit_meta.hash
    assert len(snapshots(f"main@{before}", extra)) == 5
    assert not snapshots("main", extra) & snapshots(f"main@{before}", extra), "only those that were just made"
    again = maintain(instance, tables=["silver.*"], keep_snapshots_for="P1D")
    assert again.success, errors(again)
    assert head(client) == entry.commit_meta.hash and client.list_references(prefix="run/") == []

    # What is left of the old files is for the collection alone, and that keeps what older commits show.
    collect = {
        "gc_plan": {"config": {"default_cutoff": "NONE"}},
        "gc_sweep": {"config": {"expire_snapshots": True, "grace_period": "PT0S", "force": True}},
    }
    job = build().resolve_job_def("collect_garbage")
    collected = job.execute_in_process({"ops": collect}, instance=instance, tags=ALL, raise_on_error=False)
    assert collected.success, errors(collected)
    with lake.session(f"main@{before}") as past, lake.session("main") as now:
        assert count_files(past, TABLE) == 6 and count_files(now, TABLE) == 1
        assert past.table(TABLE).count() == 12
        assert past.table(TABLE).exceptAll(now.table(TABLE)).count() == 0
        assert sorted(row["id"] for row in past.table(extra).collect()) == [0, 1, 2, 3, 4]


def test_rows_that_are_deleted_beside_their_files_stay_deleted(
    lake: SparkLake, client: NessieClient, instance: dg.DagsterInstance, loaded: str
) -> None:
    with lake.session("main") as spark:
        merged = "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
        spark.sql(f"CREATE TABLE silver.beside (id INT, n INT) USING iceberg {merged}")
        for number in range(4):
            spark.sql(f"INSERT INTO silver.beside VALUES ({number}, 1), ({number}, 2)")
        spark.sql("DELETE FROM silver.beside WHERE n = 2 AND id < 3")
        before = head(client)
        assert maintain(instance, tables=["silver.beside"]).success
        [change] = compare_sizes(TableApi(CatalogResource()), (f"main@{before}", "main"), [key("silver.beside")])
        assert (change.before.rows, change.after.rows, change.after.files) == (5, 5, 1)
        assert change.before.files > 4 and count_files(spark, "silver.beside") == 1, "with what deletes rows"
        assert spark.table("silver.beside").count() == 5
        spark.sql("DROP TABLE silver.beside")


def test_a_table_that_no_engine_reaches_stops_nothing(
    client: NessieClient, instance: dg.DagsterInstance, loaded: str
) -> None:
    client.commit("main", head(client), NewCommit(message="by hand"), [Put(key("rootless"), table(1))])
    assert list_tables(client, head(client), [], []) == [key(TABLE)]
    client.commit("main", head(client), NewCommit(message="by hand"), [Delete(key("rootless"))])


@pytest.mark.parametrize(
    "damage",
    ["UPDATE {t} SET a = b, b = a WHERE id = 3", "INSERT INTO {t} VALUES (3, null, 'x', map('k', 3))"],
    ids=["values", "rows"],
)
def test_a_run_whose_tables_differ_merges_nothing(
    lake: SparkLake, client: NessieClient, instance: dg.DagsterInstance, extra: str, damage: str
) -> None:
    before, run_id = head(client), str(uuid4())
    open_branch(client, "main", branch_name(run_id), [])
    with lake.session(branch_name(run_id)) as spark:
        spark.sql(damage.format(t=extra))
    result = maintain(instance, run_id, tables=[extra])
    assert not result.success and head(client) == before
    assert f"Nothing is published: {extra}: " in errors(result)
    assert not [event for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"]
    reason = quarantine_run(instance, client, run_id)
    assert reason and "compare_tables" in reason and "Nothing is published" in reason
    assert client.get_reference(branch_name(run_id)).properties[QUARANTINED] == reason
    client.delete_reference(branch_name(run_id), None)


def test_a_rule_of_the_pipeline_that_does_not_hold_stops_it(
    lake: SparkLake, client: NessieClient, instance: dg.DagsterInstance, loaded: str
) -> None:
    """Main got a second row for a key, not by a run: what is wrong is not made permanent under our name."""
    with lake.session("main") as spark:
        spark.sql(f"INSERT INTO {TABLE} SELECT * FROM {TABLE} LIMIT 1")
    before = scatter(lake)
    result = maintain(instance, tables=[TABLE])
    assert "silver.flights:keys_unique in 2013-01 (2 rows)" in errors(result) and head(client) == before
    client.delete_reference(branch_name(result.run_id), None)
    client.revert_contents("main", None, [ContentKey.of("silver", "flights")], CommitHash(loaded))


def test_a_writer_on_main_wins_and_the_table_is_named(
    lake: SparkLake, client: NessieClient, instance: dg.DagsterInstance, extra: str
) -> None:
    scatter(lake)
    run_id = str(uuid4())
    open_branch(client, "main", branch_name(run_id), [])  # the run has begun; then somebody writes
    with lake.session("main") as spark:
        spark.sql(f"INSERT INTO {extra} VALUES (9, 'nine', null, map())")
    result = maintain(instance, run_id, tables=[TABLE, extra])
    assert result.success, errors(result)
    facts = told(result, "publish_tables")
    assert (facts["left_out"], facts["tables"], facts["files/after"]) == (extra, 1, 1)
    meta = client.get_commit(head(client))
    assert meta.all_properties["nessie_ops.left_out"] == (extra,)
    with lake.session("main") as spark:
        assert count_files(spark, extra) == 6, "as the writer left it"

    run_id = str(uuid4())
    open_branch(client, "main", branch_name(run_id), [])
    with lake.session("main") as spark:
        spark.sql(f"INSERT INTO {extra} VALUES (10, 'ten', null, map())")
    before = head(client)
    result = maintain(instance, run_id, tables=[extra])
    assert result.success, errors(result)
    assert (told(result, "publish_tables")["tables"], head(client)) == (0, before), "nothing is left to publish"
    assert client.list_references(prefix="run/") == []
    assert maintain(instance, tables=[extra]).success and head(client) != before, "it has its turn the next time"


def test_a_run_that_is_executed_again_publishes_once(
    client: NessieClient, instance: dg.DagsterInstance, extra: str
) -> None:
    first = maintain(instance, tables=[extra])
    assert first.success, errors(first)
    after = head(client)
    job, publishing = build().resolve_job_def("maintain_tables"), ["publish_tables"]
    tags = {"dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id}
    again = job.execute_in_process(instance=instance, tags=tags, op_selection=publishing, raise_on_error=False)
    assert again.success, errors(again)
    assert head(client) == after and told(again, "publish_tables")["nessie/commit"] == after


@pytest.mark.parametrize(("field", "value"), [("keep_snapshots_for", "a week")])
def test_what_cannot_be_read_is_named(field: str, value: str) -> None:
    with pytest.raises(BadRequest, match=f"{field}: '{value}'"):
        to_limits(MaintenanceConfig(**{field: value}))


def test_it_waits_to_be_switched_on() -> None:
    schedules = {schedule.name: schedule for schedule in build().get_repository_def().schedule_defs}
    assert schedules["nightly_maintenance"].default_status == dg.DefaultScheduleStatus.STOPPED
    assert schedules["nightly_maintenance"].job.name == "maintain_tables"
