"""One job, wherever Spark runs and however steps are executed: the environment differs, the assets do not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import dagster as dg
import pytest

from nessie_ops.client import NessieClient
from resources.spark import SparkLake
from schedules.endings import get_reason
from schedules.executors import EXECUTOR_VARIABLE
from tests.dagster.deliveries import change_rows
from tests.dagster.months import check_month, loads_on_main
from tests.spark_servers import ON_LOOPBACK, connect_server, event_log, logged, standalone_cluster

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How a process that loaded a month ended: its run, main's commit, why not, and the steps that began."""

    run_id: str
    commit: str
    reason: str
    steps: list[str]


def load(month: str, source: Path, *options: str, **environment: str) -> Ended:
    """Load a month in a process of its own, which has one Spark all its life."""
    command = [sys.executable, "-m", "tests.dagster.child", month, str(source), *options]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines and lines[-1].startswith("END "), done.stderr[-3000:]
    _, run_id, *end = lines[-1].split(maxsplit=4)
    steps = [line.split()[1] for line in lines if line.startswith("STEP_START ")]
    return Ended(run_id, end[1] if end else "", " ".join(end[2:]), steps)


def pids(instance: dg.DagsterInstance, run_id: str) -> set[str]:
    """The processes of a run's steps, as its log names them."""
    found = set()
    for record in instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.STEP_WORKER_STARTED).records:
        event = record.event_log_entry.dagster_event
        assert event is not None
        found.add(str(event.engine_event_data.metadata["pid"].value))
    return found


@pytest.mark.spark
def test_on_a_cluster_whose_executors_do_the_work(
    client: NessieClient, lake: SparkLake, source: Path, tmp_path: Path
) -> None:
    settings = ON_LOOPBACK | event_log(tmp_path / "events") | {"spark.executor.memory": "600m"}
    with standalone_cluster(tmp_path, workers=2) as master:
        ended = load("2013-02", source, NESSIE_OPS_SPARK_MASTER=master, NESSIE_OPS_SPARK_CONF=json.dumps(settings))
    assert ended.commit == client.get_reference("main").hash, ended.reason
    check_month(lake, source, "2013-02")
    tasks = [event["Task Info"] for event in logged(tmp_path / "events", "SparkListenerTaskEnd")]
    assert {task["Executor ID"] for task in tasks} == {"0", "1"}, "both workers, and not the driver"
    assert not any(task["Failed"] for task in tasks)


class Connect(NamedTuple):
    """A Spark Connect server; `environment` is of those who use it, each step in a process of its own."""

    environment: dict[str, str]
    events: Path


@pytest.fixture(scope="module")
def connect(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connect]:
    folder = tmp_path_factory.mktemp("connect")
    events = folder / "events"
    with connect_server(folder, **event_log(events)) as address:
        # Java and the jar are the server's: whoever uses it needs neither.
        own = {"SPARK_REMOTE": address, "NESSIE_OPS_CACHE": str(folder / "none"), EXECUTOR_VARIABLE: "multiprocess:3"}
        yield Connect(own, events)


@pytest.mark.spark
def test_on_spark_connect_with_a_process_for_each_step(
    connect: Connect, client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    ended = load("2013-03", source, **connect.environment)
    assert ended.commit == client.get_reference("main").hash, ended.reason
    check_month(lake, source, "2013-03")
    assert len(pids(instance, ended.run_id)) == len(ended.steps) > 15
    assert not Path(connect.environment["NESSIE_OPS_CACHE"]).exists()
    jobs = logged(connect.events, "SparkListenerJobStart")
    sessions = set(re.findall(r"_Session_([-0-9a-f]{36})_", " ".join(str(job["Properties"]) for job in jobs)))
    assert len(sessions) > 10, "the steps worked on the server, each in a session of its own"


@pytest.mark.spark
def test_a_failed_check_in_a_process_of_its_own_stops_what_follows(
    connect: Connect, client: NessieClient, instance: dg.DagsterInstance, source: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(source, tmp_path / "damaged"))
    change_rows(folder, "airlines", lambda rows: [*rows, {**rows[0], "name": "Another"}])
    before = loads_on_main(client)
    assets = "run_branch,bronze/airlines,gold/carrier_delays,validated,publish"
    ended = load("2013-02", folder, "--assets", assets, **connect.environment)
    run = instance.get_run_by_id(ended.run_id)
    assert run and run.status == dg.DagsterRunStatus.FAILURE
    assert get_reason(instance, run) == "checks failed: bronze.airlines:keys_unique (2 rows)"
    assert ended.steps == ["run_branch", "bronze__airlines", "check_bronze_airlines"]
    assert len(pids(instance, ended.run_id)) == len(ended.steps), "each in a process of its own"
    assert loads_on_main(client) == before
    assert run.tags["dagster/will_retry"] == "false"
