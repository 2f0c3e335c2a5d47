"""Tables that jobs elsewhere write, by Dagster Pipes and a real spark-submit: reported, refused, published, stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.api import create_execution_plan

from assets.branch import run_branch
from assets.pipes import Launch, external_table, spark_submit
from assets.runs import evidence_of, key_of
from assets.transforms.tables import AIRLINES, CARRIER_DELAYS, CLEAN_FLIGHTS, FLIGHTS_WEATHER, TABLES, Table
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey, IcebergTable
from nessie_ops.runtime import jvm
from nessie_ops.runtime.jars import ensure_jar, spark_jars
from nessie_ops.runtime.java import find_java
from resources.spark import SparkLake
from schedules.endings import get_reason
from tests.dagster.months import check_month
from tests.dagster.web import wait_for

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "deploy" / "pipes" / "route_delays.py"
ROUTES = Table(
    "gold.route_delays",
    "year INT, month INT, origin STRING, dest STRING, flights BIGINT, arr_delay_sum_min BIGINT",
    key=("year", "month", "origin", "dest"),
)
CHECKS = {"reconciles_with_silver": True}


def submit(script: Path) -> Launch:
    """A launcher of `script` by this environment's spark-submit."""
    options = ["--master", "local[2]"]
    for key, value in jvm.local_settings(ensure_jar()).items():
        options += ["--conf", f"{key}={value}"]
    return spark_submit(script, *options, program=str(spark_jars().parent / "bin" / "spark-submit"))


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in jvm.environment(find_java(), is_local=True).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def run_with(
    instance: dg.DagsterInstance, source: Path
) -> Callable[..., tuple[dg.ExecuteInProcessResult, dg.DagsterRun]]:
    """Load a month with the table of a job elsewhere among the others, in this process."""

    def run_with(launch: Launch, *keys: str, month: str = "2013-01") -> tuple[dg.ExecuteInProcessResult, dg.DagsterRun]:
        external = external_table(ROUTES, launch, [run_branch, key_of(CLEAN_FLIGHTS)], checks=CHECKS, elsewhere=False)
        job = build([external]).resolve_job_def("load_month")
        result = job.execute_in_process(
            instance=instance,
            raise_on_error=False,
            partition_key=month,
            run_config={"resources": {"deliveries": {"config": {"source_dir": str(source)}}}},
            asset_selection=[dg.AssetKey(key.split(".")) for key in keys] or None,
        )
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        return result, run

    return run_with


def write_script(folder: Path, text: str) -> Launch:
    """A launcher of a job that is no Spark at all: what it reports is all that matters."""
    script = folder / "job.py"
    script.write_text(textwrap.dedent(text))
    return spark_submit(script, program=sys.executable)


def error_of(result: dg.ExecuteInProcessResult) -> str:
    [failure] = [event for event in result.all_events if event.is_step_failure]
    error = failure.step_failure_data.error
    assert error is not None and failure.step_key == "gold__route_delays"
    return f"{error.message} {error.cause.message if error.cause else ''}"


@pytest.mark.spark
def test_a_table_of_spark_submit_is_published_with_the_others(
    run_with: Any, client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    result, _ = run_with(submit(SCRIPT))
    assert result.success
    log = client.list_log(client.get_reference("main").hash, limit=1, with_operations=True)[0]
    written = {str(operation.key) for operation in log.operations or ()}
    assert written == {*TABLES, ROUTES.name}, "in the one commit of the run"
    properties = log.commit_meta.all_properties
    assert "gold.route_delays:reconciles_with_silver passed" in properties["nessie_ops.checks"]
    assert properties["nessie_ops.assets"] == (*TABLES, ROUTES.name)
    check_month(lake, source, "2013-01")
    with lake.session("main") as spark:
        assert (
            spark.sql("SELECT sum(flights) FROM gold.route_delays").first()
            == spark.sql("SELECT count(*) FROM silver.flights").first()
        )
    event = instance.get_latest_materialization_event(key_of(ROUTES))
    assert event and event.asset_materialization
    metadata = event.asset_materialization.metadata
    [content] = client.get_contents(log.commit_meta.hash, [ContentKey.of("gold", "route_delays")]).values()
    assert isinstance(content, IcebergTable)
    assert metadata["iceberg/snapshot_id"].value == str(content.snapshot_id)
    assert metadata["nessie/branch"].value == f"run/{result.run_id}"
    assert result.dagster_run.run_id == event.run_id


REPORT = """
    from dagster_pipes import open_dagster_pipes
    with open_dagster_pipes() as pipes:
        {body}
"""
WRITTEN = "pipes.report_asset_materialization({{'iceberg/snapshot_id': '{snapshot}'}})"
CHECKED = "pipes.report_asset_check('reconciles_with_silver', passed={passed}, severity='WARN')"

EMPTY_TABLE = """
from dagster_pipes import open_dagster_pipes
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

with open_dagster_pipes() as pipes:
    lake = load_catalog("lake", type="rest", uri=pipes.extras["spark_conf"]["spark.sql.catalog.lake.uri"])
    table = lake.create_table_if_not_exists(pipes.extras["table"], Schema(NestedField(1, "n", IntegerType())))
    pipes.report_asset_materialization({"iceberg/snapshot_id": str(table.metadata.current_snapshot_id or -1)})
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", r"without reporting what it did: 0 materializations.*lack: reconciles_with_silver"),
        (WRITTEN.format(snapshot=7), r"lack: reconciles_with_silver"),
        ("raise SystemExit(0)", r"without reporting"),
        ("import os; os._exit(3)", r"failed with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", r"failed with code 137"),
        (f"{WRITTEN.format(snapshot=7)}; {CHECKED.format(passed=True)}", r"at snapshot \w.*the job reported 7"),
    ],
)
def test_a_job_that_does_not_say_what_it_did_fails_the_step(
    run_with: Any, client: NessieClient, tmp_path: Path, body: str, message: str
) -> None:
    before = client.get_reference("main").hash
    result, run = run_with(write_script(tmp_path, REPORT.format(body=body)), "run_branch", ROUTES.name)
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert re.search(message, error_of(result), re.DOTALL), error_of(result)
    assert client.get_reference("main").hash == before


def test_a_failed_check_of_the_job_stops_what_follows(
    run_with: Any, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    """Whatever severity the job gives it: the definition says that it blocks."""
    checked = CHECKED.format(passed=False)
    launch = write_script(tmp_path, EMPTY_TABLE + f"    {checked}\n")
    result, run = run_with(launch, "run_branch", ROUTES.name, "validated")
    assert run.status == dg.DagsterRunStatus.FAILURE
    [evaluation] = result.get_asset_check_evaluations()
    assert not evaluation.passed and evaluation.severity == dg.AssetCheckSeverity.ERROR
    assert "validated" not in {event.step_key for event in result.all_events if event.is_step_start}
    assert get_reason(instance, run) == "checks failed: gold.route_delays:reconciles_with_silver"


def test_validation_wants_the_checks_that_a_job_reports(client: NessieClient) -> None:
    label, key = "gold.route_delays:reconciles_with_silver", ContentKey.of("gold", "route_delays")
    with pytest.raises(BadRequest, match=f"not passed in this run: {label}"):
        evidence_of([], {}, {label: key})


@pytest.mark.spark
def test_a_cancelled_step_leaves_no_process(
    run_with: Any, instance: dg.DagsterInstance, tmp_path: Path, client: NessieClient
) -> None:
    pids = tmp_path / "pids"
    script = tmp_path / "endless.py"
    script.write_text(
        "import os, pathlib, time\n"
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        f"pathlib.Path('{pids}.new').write_text(f'{{os.getpid()}} {{os.getppid()}}')\n"
        f"os.rename('{pids}.new', '{pids}')\n"
        "spark.sql('SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = rand()').collect()\n"
    )
    before = client.get_reference("main").hash

    def cancel() -> None:
        wait_for("the job", pids.exists)
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        instance.report_run_canceling(run)
        os.kill(os.getpid(), signal.SIGINT)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    _, run = run_with(submit(script), "run_branch", ROUTES.name)
    canceller.join()
    for pid in map(int, pids.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert run.status == dg.DagsterRunStatus.CANCELED
    assert client.get_reference("main").hash == before


def test_validation_waits_for_the_job() -> None:
    external = external_table(ROUTES, spark_submit(SCRIPT), [key_of(CLEAN_FLIGHTS)], checks=CHECKS)
    plan = create_execution_plan(build([external]).resolve_job_def("load_month"), {})
    for step in ("gold__route_delays", "gold__carrier_delays"):
        assert step in plan.step_dict_by_key["validated"].get_execution_dependency_keys()


def test_a_job_elsewhere_needs_a_server(instance: dg.DagsterInstance, home: Path, source: Path) -> None:
    def launch(context: dg.AssetExecutionContext, extras: Any) -> Any:
        raise AssertionError("must not be reached")

    job = build([external_table(ROUTES, launch, [run_branch])]).resolve_job_def("load_month")
    selection = [dg.AssetKey("run_branch"), key_of(ROUTES)]
    result = job.execute_in_process(
        instance=instance, raise_on_error=False, partition_key="2013-01", asset_selection=selection
    )
    assert "NESSIE_OPS_URI: a job on another machine needs a catalog server" in error_of(result)


def test_a_table_of_the_pipeline_can_be_written_elsewhere() -> None:
    """Its checks, and what comes before and after it, stay what they are."""
    external = external_table(CARRIER_DELAYS, spark_submit(SCRIPT), [key_of(FLIGHTS_WEATHER), key_of(AIRLINES)])
    graph, usual = build([external]).resolve_asset_graph(), build().resolve_asset_graph()
    assert graph.asset_check_keys == usual.asset_check_keys
    for key in usual.get_all_asset_keys():
        assert graph.get(key).parent_keys == usual.get(key).parent_keys
    assert graph.get(key_of(CARRIER_DELAYS)).kinds == {"pipes", "iceberg"}


def test_nothing_of_a_supervised_command_outlives_its_end(tmp_path: Path) -> None:
    """Neither a child that it left, when it ends by itself, nor itself, when who asked for it is killed."""
    command = [sys.executable, "-m", "nessie_ops.runtime.supervise"]
    done = subprocess.run([*command, "sh", "-c", "sleep 600 >/dev/null & echo $!; exit 7"], stdout=subprocess.PIPE)
    assert done.returncode == 7
    wait_for("the end of the child", lambda: not is_alive(int(done.stdout)))

    start = (
        "import subprocess, sys; "
        f"subprocess.Popen([*{command!r}, 'sh', '-c', 'echo $$; sleep 600'], stderr=subprocess.DEVNULL).wait()"
    )
    asking = subprocess.Popen([sys.executable, "-c", start], cwd=ROOT, stdout=subprocess.PIPE)
    assert asking.stdout is not None
    pid = int(asking.stdout.readline())
    asking.kill()
    asking.communicate()
    wait_for("the end of the command", lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
