"""Whole months through the job, on real Spark and a real server: published, refused, repeated, re-based, cancelled."""

from __future__ import annotations

import getpass
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.plan.state import KnownExecutionState

from assets.transforms.deliveries import count_rows
from assets.transforms.months import Month
from assets.transforms.tables import TABLES
from nessie_ops.catalog.changes import read_through
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.demo.one_month import load_or_resume
from nessie_ops.errors import BadRequest, Forbidden
from nessie_ops.model import QUARANTINED, ContentKey, IcebergTable, Merge, NewCommit, ReferenceType
from nessie_ops.month_runs import MonthRun, resume_run, run_month
from resources.spark import SparkLake
from schedules.rerunning import plan, succeeded
from tests.dagster.deliveries import Row, change_rows
from tests.dagster.months import check_month

pytestmark = pytest.mark.spark


@pytest.fixture
def damaged(source: Path, tmp_path: Path) -> Path:
    """The deliveries, with two keys of February repeated and one clock that shows 25:75."""
    folder = tmp_path / "damaged"
    shutil.copytree(source, folder)

    def damage(rows: list[Row]) -> list[Row]:
        first = next(n for n, row in enumerate(rows) if row["month"] == "2")
        repeated = [{**row, "dep_delay": "60"} for row in rows[first : first + 2]]
        return [*rows[:first], {**rows[first], "dep_time": "2575"}, *rows[first + 1 :], *repeated]

    change_rows(folder, "flights", damage)
    return folder


def after(step: str, act: Callable[[str], None]) -> Callable[[dg.DagsterEvent], None]:
    """Call `act` with nothing known but that `step` succeeded; once."""
    done = []

    def on_event(event: dg.DagsterEvent) -> None:
        if event.is_step_success and event.step_key == step and not done:
            done.append(step)
            act(step)

    return on_event


@pytest.fixture(scope="module")
def january(instance: dg.DagsterInstance, source: Path) -> MonthRun:
    """January on main, which was empty."""
    return run_month("2013-01", instance, source_dir=str(source))


def test_a_month_reaches_main_as_one_commit(
    january: MonthRun, client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    result = january
    assert (result.reason, result.attempts) == ("", 1)
    log = client.list_log(client.get_reference("main").hash, with_operations=True)
    assert log[0].commit_meta.hash == result.commit
    assert [entry.commit_meta.message for entry in log][1:] == ["Create namespaces bronze, silver, gold"]
    assert log[0].operations is not None
    assert {str(operation.key) for operation in log[0].operations} == set(TABLES)
    properties = log[0].commit_meta.all_properties
    assert properties["nessie_ops.run_id"] == properties["nessie_ops.root_run_id"] == (result.run_id,)
    assert properties["nessie_ops.job"] == ("load_month",)
    assert log[0].commit_meta.authors == (getpass.getuser(),)
    assert properties["nessie_ops.partition"] == ("2013-01",)
    assert len(properties["nessie_ops.checks"]) == len(result.checks) == 29
    assert "silver.flights:keys_unique passed" in properties["nessie_ops.checks"]
    assert properties["nessie_ops.code_version"][0]
    assert client.list_references(prefix="run/") == []
    check_month(lake, source, "2013-01")

    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["nessie/branch"] == result.branch == f"run/{result.run_id}"
    assert run.tags["nessie/base_hash"] == log[1].commit_meta.hash
    assert run.tags["nessie/validated_hash"] == log[0].commit_meta.parent_commit_hashes[1]


def test_what_dagster_shows_of_it(january: MonthRun, client: NessieClient, instance: dg.DagsterInstance) -> None:
    run = instance.get_run_by_id(january.run_id)
    assert run and january.commit
    main = client.get_commit(january.commit)
    [base], [validated] = (main.all_properties[f"nessie_ops.{name}_hash"] for name in ("base", "validated"))
    where = {"nessie/branch": january.branch, "nessie/base_hash": base}
    tags = {**where, "nessie/validated_hash": validated, "nessie/merge_commit": january.commit}
    assert tags.items() <= run.tags.items() and base == main.parent_commit_hashes[0]

    def shown(key: str) -> dict[str, Any]:
        event = instance.get_latest_materialization_event(dg.AssetKey(key.split(".")))
        assert event and event.asset_materialization
        return {name: value.value for name, value in event.asset_materialization.metadata.items()}

    flights = shown("silver.flights")
    assert where.items() <= flights.items()
    rows = flights["dagster/row_count"]
    assert rows == flights["dagster/partition_row_count"] == flights["rows_added"] > 2000
    held = (flights["rows_removed"], flights["files"], flights["bytes"])
    assert held == (0, flights["files_added"], flights["bytes_added"])
    assert flights["bytes"] > 10_000 and flights["duration_s"] > 0
    assert f"| silver.flights | created | {rows:,} (+{rows:,} -0) |" in flights["changes"]

    published = shown("publish")
    assert {**where, "nessie/commit": january.commit, "nessie/target": "main"}.items() <= published.items()
    assert published["tables"] == len(TABLES)
    assert published["rows_added"] == sum(shown(name)["rows_added"] for name in TABLES)
    assert all(f"| {name} | created |" in published["changes"] for name in TABLES)
    records = instance.fetch_observations(dg.AssetKey(["silver", "flights"]), limit=5).records
    [seen] = [record.event_log_entry.asset_observation for record in records]
    assert seen and seen.metadata["nessie/commit"].value == january.commit and seen.partition == "2013-01"
    checked = shown("validated")
    assert checked["duration_s"] > checked["bad_rows"] == 0
    assert "| silver.flights:keys_unique | passed | 0 |" in checked["results"] and published["duration_s"] > 0
    evaluation = january.checks["silver.flights:keys_unique"]
    assert evaluation.metadata["nessie/branch"].value == january.branch and evaluation.metadata["duration_s"].value > 0

    # The commits of single tables on the branch, and the snapshots that they made, name run and asset.
    log = client.list_log(validated, limit_hash=base, with_operations=True)
    written = {str(each.key): row.commit_meta.all_properties for row in log for each in row.operations or ()}
    by_table = {name: properties for name, properties in written.items() if "." in name}
    assert set(by_table) == set(TABLES)
    for name, properties in by_table.items():
        assert properties["nessie_ops.assets"] == (name,) and properties["nessie_ops.run_id"] == (january.run_id,)
        assert properties["nessie_ops.code_version"] == main.all_properties["nessie_ops.code_version"]
    metadata = read_through(client)(january.commit, ContentKey.of("silver", "flights"))
    summary = metadata.json["snapshots"][-1]["summary"]
    assert (summary["nessie_ops.run_id"], summary["nessie_ops.assets"]) == (january.run_id, "silver.flights")


def test_materializations_carry_commit_snapshot_and_rows(
    january: MonthRun, client: NessieClient, instance: dg.DagsterInstance, source: Path
) -> None:
    head = january.commit
    assert head is not None
    for table in TABLES.values():
        key = dg.AssetKey(table.name.split("."))
        event = instance.get_latest_materialization_event(key)
        assert event is not None and event.asset_materialization is not None
        metadata = {name: value.value for name, value in event.asset_materialization.metadata.items()}
        [content] = client.get_contents(head, [ContentKey.of(*table.name.split("."))]).values()
        assert isinstance(content, IcebergTable)
        assert metadata["iceberg/snapshot_id"] == str(content.snapshot_id)
        assert len(str(metadata["nessie/commit"])) == 64
        month = Month(2013, 1) if table.monthly else None
        if table.name.startswith("bronze"):
            assert metadata["dagster/row_count"] == count_rows(source, table, month)
        assert (table.monthly and metadata["dagster/partition_row_count"]) or metadata["dagster/row_count"]
    assert "2013-01" in instance.get_materialized_partitions(dg.AssetKey("publish"))
    published = instance.get_latest_materialization_event(dg.AssetKey("publish"))
    assert published is not None and published.asset_materialization is not None
    assert published.asset_materialization.metadata["nessie/commit"].value == head


def test_a_month_run_again_leaves_the_same_rows(
    january: MonthRun, client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    assert january.commit is not None
    before = client.create_reference(ReferenceType.TAG, "before", january.commit).hash
    result = run_month("2013-01", instance, source_dir=str(source))
    assert result.commit == client.get_reference("main").hash != before
    check_month(lake, source, "2013-01")
    for name in TABLES:
        with lake.session("before") as spark:
            old = sorted(map(repr, spark.table(name).collect()))
        with lake.session("main") as spark:
            assert sorted(map(repr, spark.table(name).collect())) == old
    log = client.list_log(client.get_reference("main").hash, with_operations=True)
    written = {str(operation.key) for operation in log[0].operations or ()}
    assert not written & {"bronze.planes", "bronze.airports", "bronze.airlines"}  # unchanged, so not written


def test_a_damaged_month_is_refused_with_samples_and_leaves_main_alone(
    client: NessieClient, instance: dg.DagsterInstance, damaged: Path
) -> None:
    before = client.get_reference("main").hash
    result = run_month("2013-02", instance, source_dir=str(damaged))
    assert result.commit is None
    assert result.reason == (
        "checks failed: bronze.flights:keys_unique (4 rows), bronze.flights:times_possible (1 rows)"
    )
    assert client.get_reference("main").hash == before
    branch = client.get_reference(result.branch)
    assert branch.properties[QUARANTINED] == result.reason
    request = Merge(from_ref=result.branch, from_hash=branch.hash, meta=NewCommit(message="force it"))
    with pytest.raises(Forbidden, match="quarantined"):
        client.merge("main", None, request)
    sample = result.checks["bronze.flights:times_possible"].metadata["sample"]
    assert isinstance(sample, dg.MarkdownMetadataValue)
    assert "| 2575 |" in str(sample.value)
    run = instance.get_run_by_id(result.run_id)
    assert run is not None and run.status == dg.DagsterRunStatus.FAILURE
    assert run.tags["dagster/will_retry"] == "false"  # a failed check is not tried again
    steps = {stats.step_key for stats in instance.get_run_step_stats(result.run_id)}
    assert "check_bronze_flights" in steps and not steps & {"silver__flights", "validated", "publish"}

    # What the job rerun_month has launched leaves out the steps that Dagster's own resume leaves out.
    job = build().resolve_job_def("load_month")
    native, _ = KnownExecutionState.build_resume_retry_reexecution(instance, run)
    planned = plan(job, run, succeeded(instance, run), "key")
    assert planned.asset_selection is not None and planned.asset_check_keys is not None
    chosen = job.get_subset(
        asset_selection=set(planned.asset_selection), asset_check_selection=set(planned.asset_check_keys)
    )
    assert {node.name for node in chosen.nodes} == set(native)
    assert (planned.partition_key, planned.tags["nessie/branch"]) == ("2013-02", result.branch)


def test_a_refused_month_resumes_on_its_branch_when_the_delivery_is_mended(
    client: NessieClient,
    instance: dg.DagsterInstance,
    lake: SparkLake,
    source: Path,
    damaged: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert load_or_resume(month="2013-02", source=str(damaged), resume="", all_steps=False) == 1
    printed = capsys.readouterr().out
    assert "bronze.flights:times_possible failed" in printed and "2575" in printed
    [(branch, run_id)] = re.findall(r"Its branch is (\S+); `nessie-ops run --resume (\S+)` executes", printed)
    assert branch == f"run/{run_id}"

    shutil.copy(source / "flights.csv", damaged)
    # Only the checks failed, so only they and what follows run again: the table still has the damaged rows.
    still = resume_run(run_id, instance)
    assert still.commit is None and "rows_match_delivery" in still.reason
    assert load_or_resume(month="", source="", resume=still.run_id, all_steps=True) == 0
    assert "2013-02 is published: commit " in capsys.readouterr().out
    assert client.list_references(prefix=branch) == []
    check_month(lake, source, "2013-02")


def test_two_months_that_overlap_both_reach_main(
    client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    others: list[MonthRun] = []

    def load_another(_step: str) -> None:
        others.append(run_month("2013-03", instance, source_dir=str(source)))

    result = run_month("2013-01", instance, source_dir=str(source), on_event=after("validated", load_another))
    assert (result.reason, result.attempts) == ("", 2)
    assert others[0].commit is not None
    log = [entry.commit_meta.hash for entry in client.list_log(client.get_reference("main").hash, limit=2)]
    assert log == [result.commit, others[0].commit]
    for month in ("2013-01", "2013-02", "2013-03"):
        check_month(lake, source, month)
    first = instance.get_run_by_id(result.branch.removeprefix("run/"))
    assert first is not None
    assert {"silver.flights", "gold.carrier_delays"} <= set(first.tags["nessie/rebase"].split(", "))
    assert first.tags["dagster/retry_strategy"] == "ALL_STEPS"  # what a daemon would go by
    assert first.tags["dagster/will_retry"] == "true"
    second = instance.get_run_by_id(result.run_id)
    assert second is not None
    assert second.tags["dagster/retry_strategy"] == "FROM_FAILURE"
    assert second.tags["nessie/base_hash"] == others[0].commit


def test_a_run_that_is_being_cancelled_does_not_publish(
    client: NessieClient, instance: dg.DagsterInstance, source: Path
) -> None:
    before = client.get_reference("main").hash

    def cancel(_step: str) -> None:
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        instance.report_run_canceling(run)  # as Terminate does; the signal itself is swallowed

    result = run_month("2013-01", instance, source_dir=str(source), on_event=after("validated", cancel))
    run = instance.get_run_by_id(result.run_id)
    assert run is not None and run.status == dg.DagsterRunStatus.CANCELED
    assert (result.commit, result.reason) == (None, "the run was cancelled")
    assert client.get_reference("main").hash == before
    assert client.get_reference(result.branch).properties[QUARANTINED] == "the run was cancelled"


def test_a_run_that_was_marked_as_failed_does_not_publish(
    client: NessieClient, instance: dg.DagsterInstance, source: Path
) -> None:
    before = client.get_reference("main").hash

    def fail(_step: str) -> None:
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        instance.report_run_failed(run, "Exceeded maximum runtime.")  # by the daemon; the signal is swallowed

    result = run_month("2013-01", instance, source_dir=str(source), on_event=after("validated", fail))
    run = instance.get_run_by_id(result.run_id)
    assert run is not None and run.status == dg.DagsterRunStatus.FAILURE
    assert result.commit is None
    assert client.get_reference("main").hash == before
    assert QUARANTINED in client.get_reference(result.branch).properties


def test_a_quarantine_set_while_the_run_works_is_not_lifted_by_it(
    client: NessieClient, instance: dg.DagsterInstance, source: Path
) -> None:
    before = client.get_reference("main").hash

    def forbid(_step: str) -> None:
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        client.update_properties(f"run/{run.run_id}", {QUARANTINED: "look at it first"})

    result = run_month("2013-01", instance, source_dir=str(source), on_event=after("validated", forbid))
    assert result.commit is None and "look at it first" in result.reason
    assert client.get_reference("main").hash == before
    assert client.get_reference(result.branch).properties[QUARANTINED] == "look at it first"


def test_a_branch_that_moved_after_validation_is_not_published(
    client: NessieClient, instance: dg.DagsterInstance, source: Path, lake: SparkLake
) -> None:
    before = client.get_reference("main").hash

    def write(_step: str) -> None:
        [branch] = [b for b in client.list_references(prefix="run/") if QUARANTINED not in b.properties]
        with lake.session(branch.name) as spark:
            spark.sql("DELETE FROM silver.flights WHERE carrier = 'UA'")

    result = run_month("2013-01", instance, source_dir=str(source), on_event=after("validated", write))
    assert result.commit is None and "someone wrote to it" in result.reason
    assert client.get_reference("main").hash == before
    again = resume_run(result.run_id, instance, all_steps=True)
    assert again.commit == client.get_reference("main").hash != before


def test_bad_requests_start_no_run(instance: dg.DagsterInstance, client: NessieClient) -> None:
    runs, heads = instance.get_runs_count(), client.list_references()
    with pytest.raises(BadRequest, match=r"^month: "):
        run_month("2014-01", instance)
    with pytest.raises(BadRequest, match="is not a run of load_month"):
        resume_run("nothing", instance)
    done = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]), limit=1)[0]
    with pytest.raises(BadRequest, match="is SUCCESS"):
        resume_run(done.run_id, instance)
    assert (instance.get_runs_count(), client.list_references()) == (runs, heads)


def test_an_asset_launched_by_itself_says_what_to_do(instance: dg.DagsterInstance, client: NessieClient) -> None:
    before = client.get_reference("main").hash
    result = (
        build()
        .resolve_job_def("load_month")
        .execute_in_process(
            instance=instance,
            raise_on_error=False,
            partition_key="2013-01",
            asset_selection=[dg.AssetKey(["gold", "carrier_delays"])],
        )
    )
    [failure] = [event for event in result.all_events if event.is_step_failure]
    error = failure.step_failure_data.error
    assert error is not None and error.cause is not None
    assert "launch the job load_month" in error.cause.message
    assert client.get_reference("main").hash == before
