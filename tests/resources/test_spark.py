"""SparkLake on real Spark: references side by side in one JVM, and a request to stop in the middle of a query."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from nessie_ops.errors import BadRequest
from nessie_ops.model import ReferenceType
from resources.spark import EnvironmentSpark, SparkLake, spark_config

ENDLESS = "SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = rand()"


@pytest.fixture
def branch(lake: SparkLake, request: pytest.FixtureRequest) -> str:
    """A branch of main's head that no other test uses."""
    name = f"run/{request.node.name.replace('[', '-').rstrip(']')}"
    client = lake.catalog.client
    return client.create_reference(ReferenceType.BRANCH, name, client.get_reference("main").hash).name


@contextmanager
def stop_once_working(spark: SparkSession, number: signal.Signals = signal.SIGINT) -> Iterator[None]:
    """Send this process `number` as soon as Spark has a job to do."""
    tracker = spark.sparkContext.statusTracker()
    left = threading.Event()

    def watch() -> None:
        while not tracker.getActiveJobsIds() and not left.wait(0.05):
            pass
        if not left.is_set():
            os.kill(os.getpid(), number)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        left.set()
        watcher.join()


@pytest.mark.spark
def test_each_session_sees_its_own_reference(lake: SparkLake, branch: str) -> None:
    with lake.session(branch) as spark:
        spark.sql("CREATE NAMESPACE sessions")
        spark.sql("CREATE TABLE sessions.t AS SELECT 1 AS x")
        with lake.session("main") as other:
            assert not other.catalog.tableExists("lake.sessions.t")
            assert other.sparkContext is spark.sparkContext
        with lake.session(branch) as again:
            assert again.table("sessions.t").collect() == [(1,)]


@pytest.mark.spark
def test_times_are_utc_and_errors_are_sparks_own(lake: SparkLake) -> None:
    with lake.session("main") as spark:
        assert spark.sql("SELECT unix_timestamp('2013-01-01 00:00:00')").collect() == [(1356998400,)]
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"), lake.session("main") as spark:
        spark.table("no.such_table")


@pytest.mark.spark
def test_a_session_outside_of_the_main_thread(lake: SparkLake) -> None:
    rows: list[object] = []

    def work() -> None:
        with lake.session("main") as spark:
            rows.extend(spark.sql("SELECT 7").collect())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert rows == [(7,)]


@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_stop_ends_the_query_and_not_spark(lake: SparkLake, number: signal.Signals) -> None:
    reached: list[int] = []
    before = signal.signal(number, lambda got, _frame: reached.append(got))
    try:
        with (
            pytest.raises(dg.DagsterExecutionInterruptedError) as ended,
            lake.session("main") as spark,
            stop_once_working(spark, number),
        ):
            spark.sql(ENDLESS).collect()
        assert "SPARK_JOB_CANCELLED" in str(ended.value.__cause__)
        assert reached == []
        assert spark.sql("SELECT 1").collect() == [(1,)]
        with lake.session("main") as another:
            assert another.sql("SELECT 2").collect() == [(2,)]
        os.kill(os.getpid(), number)
        assert reached == [number]  # the handler that was there is back
    finally:
        signal.signal(number, before)


@pytest.mark.spark
def test_a_query_that_starts_after_the_request_is_cancelled_too(lake: SparkLake) -> None:
    with pytest.raises(dg.DagsterExecutionInterruptedError), lake.session("main") as spark:
        os.kill(os.getpid(), signal.SIGINT)
        spark.sql(ENDLESS).collect()


@pytest.mark.spark
def test_a_block_that_ends_well_despite_the_request_is_interrupted_still(lake: SparkLake) -> None:
    with pytest.raises(dg.DagsterExecutionInterruptedError), lake.session("main"):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.spark
def test_a_cancelled_run_of_dagster_does_not_reach_the_next_asset(lake: SparkLake) -> None:
    reached: list[str] = []

    @dg.asset
    def endless(context: dg.AssetExecutionContext, lake: SparkLake) -> None:
        context.instance.report_run_canceling(context.run)  # what Terminate does before it sends the signal
        with lake.session("main") as spark, stop_once_working(spark):
            spark.sql(ENDLESS).collect()

    @dg.asset(deps=[endless])
    def publish() -> None:
        reached.append("publish")

    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(dg.DagsterExecutionInterruptedError):
            dg.materialize([endless, publish], resources={"lake": lake}, instance=instance)
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.CANCELED
    assert reached == []


def test_settings_of_the_environment_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_SPARK_CONF", '{"spark.sql.session.timeZone": "CET", "spark.ui.enabled": true}')
    settings = spark_config()
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.sql.session.timeZone"] == "CET"
    assert settings["spark.ui.enabled"] == "true"


def test_a_cluster_gets_the_jar_and_a_driver_that_it_can_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_SPARK_MASTER", "spark://cluster:7077")
    settings = spark_config()
    assert settings["spark.master"] == "spark://cluster:7077"
    assert Path(settings["spark.jars"]).is_file()
    assert not {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.extraJavaOptions"} & set(settings)


def test_spark_connect_needs_neither_java_nor_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://cluster:15002")
    monkeypatch.setenv("NESSIE_OPS_CACHE", str(tmp_path))
    assert spark_config() == {"spark.remote": "sc://cluster:15002", "spark.sql.session.timeZone": "UTC"}


@pytest.mark.parametrize("text", ["{", "[1]", '{"spark.driver.memory": {"gb": 4}}', '{"spark.driver.memory": null}'])
def test_settings_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("NESSIE_OPS_SPARK_CONF", text)
    with pytest.raises(BadRequest, match="NESSIE_OPS_SPARK_CONF"):
        spark_config()


def test_definitions_load_without_java_or_jar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lake: SparkLake) -> None:
    monkeypatch.setenv("NESSIE_OPS_CACHE", str(tmp_path / "cache"))
    resource = SparkLake(pyspark=EnvironmentSpark(), catalog=lake.catalog)
    dg.Definitions.validate_loadable(dg.Definitions(resources={"lake": resource}))
    assert not (tmp_path / "cache").exists()
