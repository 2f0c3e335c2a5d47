"""Branches that PyIceberg and Spark write are validated by the rules, at one commit, and merged or quarantined."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.compute as pc
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.demo.one_month import WAITS, load_or_resume
from nessie_ops.model import ContentKey, MergeRequestState
from resources.spark import SparkLake
from schedules.watching import VALIDATE_VARIABLE
from tests.dagster.foreign import connect, follow, fork, launch, watch

pytestmark = pytest.mark.spark
JANUARY = "year = 2013 AND month = 1"


@pytest.fixture(scope="module")
def loaded(home: Path, source: Path) -> tuple[int, dict[str, Any]]:
    """January, validated by `nessie-ops run --json` and waiting to be merged: the exit code and what it printed."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        patch.setenv("NESSIE_OPS_PUBLISH", "sensor")
        patch.setenv("LOGNAME", "ann")
        code = load_or_resume(month="2013-01", source=str(source), resume="", all_steps=False, as_json=True)
    return code, json.loads(printed.getvalue())


@pytest.fixture(scope="module")
def cursor(instance: dg.DagsterInstance, loaded: object) -> str:
    """Where the sensor stands once January is on main."""
    [merging] = follow(instance)
    assert launch(instance, merging).success
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VALIDATE_VARIABLE, raising=False)
        return watch(instance, None)[1]


@pytest.fixture(autouse=True)
def settings(cursor: str, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "etl/.*")
    monkeypatch.setenv("NESSIE_OPS_SOURCE", str(source))


def make_warmer(branch: str) -> None:
    """PyIceberg rewrites January's weather, which no rule forbids."""
    table = connect(branch).load_table("silver.flights_weather")
    rows = table.scan(row_filter="month = 1").to_arrow()
    warmer = rows.set_column(rows.schema.get_field_index("temp_f"), "temp_f", pc.add(rows["temp_f"], 1.0))
    table.overwrite(warmer, overwrite_filter="month = 1")


def evaluated(instance: dg.DagsterInstance, run_id: str) -> dict[str, dg.AssetCheckEvaluation]:
    page = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
    found: list[Any] = [record.event_log_entry.dagster_event for record in page.records]
    rows = [event.asset_check_evaluation_data for event in found]
    return {f"{'.'.join(row.asset_key.path)}:{row.check_name}": row for row in rows}


def test_a_month_that_waits_says_so_and_has_an_author(
    client: NessieClient, loaded: tuple[int, dict[str, Any]], cursor: str
) -> None:
    code, printed = loaded
    assert (code, printed["state"], printed["commit"], printed["mergeRequest"]) == (WAITS, "waiting", None, 1)
    assert printed["reason"] == "it waits to be merged by merge request 1"
    assert {"name", "passed", "blocking", "summary"} == set(printed["checks"][0]) and len(printed["checks"]) == 29
    request = client.get_merge_request(1)
    assert request.merge_hash and client.get_commit(request.merge_hash).authors == ("ann",)


def test_what_pyiceberg_commits_is_validated_and_merged(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    make_warmer(fork(client, "etl/warmer"))
    head = client.get_reference("etl/warmer").hash
    [wanted], after, _ = watch(instance, cursor)
    assert wanted.tags["nessie/branch"] == "etl/warmer"
    assert watch(instance, cursor)[0][0].run_key == wanted.run_key, "a tick that is repeated launches the same run"
    assert watch(instance, after)[0] == []
    done = launch(instance, wanted)
    assert done.success

    [request] = client.list_merge_requests(source="etl/warmer")
    assert (request.source_hash, request.is_green, request.failed) == (head, True, ())
    assert "silver.flights_weather:each_flight_once" in request.required_checks
    assert "silver.flights:keys_unique" not in request.required_checks, "it reads nothing that was changed"
    found = evaluated(instance, done.run_id)
    check = found["silver.flights_weather:each_flight_once"]
    assert check.passed and check.metadata["nessie/read_at"].value == head
    assert check.metadata["months"].value == "2013-01"
    assert watch(instance, cursor)[0] == [], "also a sensor that forgot what it did finds the request"

    [merging] = follow(instance)
    assert launch(instance, merging).success
    merged = client.get_merge_request(request.number)
    main = client.list_log(client.get_reference("main").hash, limit=1)[0].commit_meta
    assert (merged.state, merged.merge_hash) == (MergeRequestState.MERGED, main.hash)
    assert main.all_properties["nessie_ops.validated_hash"] == (head,)
    key = ContentKey.of("silver", "flights_weather")
    assert client.get_contents(main.hash, [key]) == client.get_contents(head, [key])


def test_what_spark_commits_is_refused_until_it_is_mended(
    client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, cursor: str
) -> None:
    before, name = client.get_reference("main").hash, fork(client, "etl/spark")
    good = client.get_reference(name).hash
    with lake.session(name) as spark:
        spark.sql(f"UPDATE silver.flights SET carrier = '??' WHERE {JANUARY} AND carrier = 'F9'")
    bad = client.get_reference(name).hash
    [wanted], after, _ = watch(instance, cursor)
    done = launch(instance, wanted)
    assert done.success
    [request] = client.list_merge_requests(source=name)
    assert "silver.flights:no_unknown_carriers" in request.failed
    assert "gold.carrier_delays:reconciles_with_silver" in request.failed, "gold no longer says what silver does"
    [check] = [row for row in request.checks if row.name == "silver.flights:no_unknown_carriers"]
    assert "2013-01" in check.summary and "| ?? |" in check.summary
    sample = evaluated(instance, done.run_id)["silver.flights:no_unknown_carriers"]
    assert not sample.passed and "| ?? |" in str(sample.metadata["sample"].value)

    assert follow(instance) == []
    closed = client.get_merge_request(request.number)
    assert closed.state is MergeRequestState.CLOSED and "no_unknown_carriers" in closed.outcome
    branch = client.get_reference(name)
    assert "silver.flights:no_unknown_carriers" in branch.properties["quarantined"]
    assert client.get_reference("main").hash == before
    assert watch(instance, after)[0] == [], "its own quarantine asks for nothing"
    assert launch(instance, wanted).success and len(client.list_merge_requests(source=name)) == 2

    # Mended: the rows are as they were, by another snapshot.
    with lake.session(name) as spark:
        spark.sql(f"UPDATE silver.flights SET carrier = 'F9' WHERE {JANUARY} AND carrier = '??'")
    assert client.get_reference(name).hash not in (good, bad)
    [again], _, _ = watch(instance, after)
    assert launch(instance, again).success
    [newest, *_] = client.list_merge_requests(source=name)
    assert newest.is_green and "quarantined" not in client.get_reference(name).properties
    [merging] = follow(instance)
    assert launch(instance, merging).success
    assert client.get_merge_request(newest.number).state is MergeRequestState.MERGED


def test_a_commit_that_changes_no_row_is_vouched_for_by_all_rules_all_the_same(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    name = fork(client, "etl/words")
    connect(name).load_table("gold.carrier_delays").transaction().set_properties(owner="ann").commit_transaction()
    [wanted], _, _ = watch(instance, cursor)
    assert launch(instance, wanted).success
    [request] = client.list_merge_requests(source=name)
    assert request.is_green and "gold.carrier_delays:reconciles_with_silver" in request.required_checks


def test_a_table_whose_columns_or_months_are_strange(
    client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, cursor: str
) -> None:
    name = fork(client, "etl/strange")
    with lake.session(name) as spark:
        spark.sql("ALTER TABLE gold.airport_hourly DROP COLUMN avg_wind_mph")
        spark.sql("INSERT INTO gold.carrier_delays (year, month, carrier) VALUES (2014, 2, 'AA')")
        spark.sql("DROP TABLE bronze.planes")
        spark.sql("CREATE TABLE silver.notes (text STRING) USING iceberg")
    [wanted], _, _ = watch(instance, cursor)
    assert launch(instance, wanted).success
    [request] = client.list_merge_requests(source=name)
    summaries = {row.name: row.summary for row in request.checks if not row.passed}
    assert summaries["gold.airport_hourly:readable"] == "Columns differ: avg_wind_mph is missing, not double."
    assert "2014-02" in summaries["gold.carrier_delays:readable"]
    assert summaries["bronze.planes:readable"] == "The table is gone."
    assert request.needs_approval, "no rule is about silver.notes"
