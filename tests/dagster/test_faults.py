"""Processes that die, servers that die, runs at the same time: main is the old or the new state, and no row is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from assets.runs import branch_of
from nessie_ops.client import NessieClient
from nessie_ops.driving import end_abandoned
from nessie_ops.model import QUARANTINED
from nessie_ops.month_runs import resume_run, run_month
from resources.spark import SparkLake
from tests.dagster.months import check_month, loads_on_main
from tests.ports import free_port
from tests.server.processes import Served

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


class Child:
    """A process that loads a month, and the lines that it prints."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.log = home / f"child-{time.monotonic_ns()}.log"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.dagster.child", *arguments],
                cwd=ROOT,
                env=os.environ | {"NESSIE_OPS_SPARK_MASTER": "local[*]"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def wait_for(self, line: str) -> str:
        """The first line that begins so."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if text.startswith(line):
                return text
        raise AssertionError(f"ended without '{line}': {self.log.read_text()[-3000:]}")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """The exit code."""
        self.process.communicate(timeout=300)
        return self.process.returncode


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., Child]]:
    """Start children; they are killed at the end of the test."""
    children: list[Child] = []

    def start(*arguments: str) -> Child:
        children.append(Child(home, *arguments))
        return children[-1]

    yield start
    for child in children:
        child.process.kill()
        child.process.communicate()


def abandoned(instance: dg.DagsterInstance, client: NessieClient) -> str:
    """The run whose process was killed, once ended as failed and its branch quarantined."""
    [run_id] = end_abandoned(instance)
    run = instance.get_run_by_id(run_id)
    assert run is not None and run.status == dg.DagsterRunStatus.FAILURE
    assert "its process ended" in client.get_reference(branch_of(run)).properties[QUARANTINED]
    assert end_abandoned(instance) == []
    return run_id


def test_killed_while_writing_silver_the_run_resumes_on_its_branch(
    start: Callable[..., Child], client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    child = start("2013-01", str(source))
    child.wait_for("STEP_START silver__flights")
    [branch] = client.list_references(prefix="run/")
    while client.get_reference(branch.name).hash == branch.hash:  # its first commit is not its last
        time.sleep(0.01)
    before = client.get_reference("main").hash
    child.process.kill()
    assert child.end() == -signal.SIGKILL
    assert client.get_reference("main").hash == before

    run_id = abandoned(instance, client)
    result = resume_run(run_id, instance)
    assert result.branch == branch.name and result.commit == client.get_reference("main").hash
    steps = {stats.step_key for stats in instance.get_run_step_stats(result.run_id)}
    assert "silver__flights" in steps and "bronze__flights" not in steps
    assert loads_on_main(client) == ["2013-01"]
    check_month(lake, source, "2013-01")


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_its_merge_the_run_publishes_once(
    start: Callable[..., Child],
    client: NessieClient,
    instance: dg.DagsterInstance,
    lake: SparkLake,
    source: Path,
    when: str,
) -> None:
    before, loads = client.get_reference("main").hash, loads_on_main(client)
    child = start("2013-02", str(source), "--die", when)
    assert child.end() == -signal.SIGKILL
    killed = client.get_reference("main").hash
    assert (killed == before) == (when == "before")

    result = resume_run(abandoned(instance, client), instance)
    assert result.commit == client.get_reference("main").hash
    assert (result.commit == killed) == (when == "after")
    assert loads_on_main(client) == ["2013-02", *loads]
    assert client.list_references(prefix="run/") == []
    check_month(lake, source, "2013-02")


def test_killed_in_one_step_after_the_other_a_run_still_publishes_once(
    start: Callable[..., Child], client: NessieClient, instance: dg.DagsterInstance, lake: SparkLake, source: Path
) -> None:
    """Each resumption is killed in a later step: at its start, or some way into its work."""
    loads = loads_on_main(client)
    resume: tuple[str, ...] = ()
    for step, work_s in [
        ("bronze__flights", 0.3),
        ("check_bronze_flights", 0.3),
        ("silver__flights_weather", 0.2),
        ("gold__carrier_delays", 0.2),
        ("check_gold_carrier_delays", 0.2),
        ("validated", 0),
        ("publish", 0),
    ]:
        child = start("2013-03", str(source), "--die-in", step, "--work", str(work_s), *resume)
        assert child.end() == -signal.SIGKILL, f"{step}: {child.log.read_text()[-3000:]}"
        assert loads_on_main(client) == loads, step
        resume = ("--resume", abandoned(instance, client))

    result = resume_run(resume[1], instance)
    assert result.commit == client.get_reference("main").hash
    assert loads_on_main(client) == ["2013-03", *loads]
    assert client.list_references(prefix="run/") == []
    check_month(lake, source, "2013-03")


def test_two_processes_at_once_both_publish(
    start: Callable[..., Child], client: NessieClient, lake: SparkLake, source: Path
) -> None:
    loads = loads_on_main(client)
    children = [start(month, str(source), "--pause", "validated") for month in ("2013-01", "2013-03")]
    for child in children:
        child.wait_for("STEP_SUCCESS validated")  # both were opened from the same main
    bases = {branch.properties["base_hash"] for branch in client.list_references(prefix="run/")}
    assert bases == {client.get_reference("main").hash}
    for child in children:
        child.go_on()
    ends = [child.wait_for("END ").split() for child in children]
    assert sorted(int(end[2]) for end in ends) == [1, 2]
    assert client.get_reference("main").hash in {end[3] for end in ends}
    assert sorted(loads_on_main(client)[:2]) == ["2013-01", "2013-03"]
    assert loads_on_main(client)[2:] == loads
    for month in ("2013-01", "2013-02", "2013-03"):
        check_month(lake, source, month)


def test_interrupted_at_work_the_run_ends_and_publishes_nothing(
    start: Callable[..., Child], client: NessieClient, instance: dg.DagsterInstance, source: Path
) -> None:
    before = client.get_reference("main").hash
    child = start("2013-01", str(source))
    child.wait_for("STEP_START silver__flights")
    [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    instance.report_run_canceling(run)
    child.process.send_signal(signal.SIGINT)
    child.end()
    ended = instance.get_run_by_id(run.run_id)
    assert ended is not None and ended.status == dg.DagsterRunStatus.CANCELED
    assert client.get_reference("main").hash == before
    assert client.get_reference(f"run/{run.run_id}").properties[QUARANTINED] == "the run was cancelled"
    assert end_abandoned(instance) == []


def test_the_server_restarted_at_work_and_killed_between_audit_and_publishing(
    home: Path,
    client: NessieClient,
    instance: dg.DagsterInstance,
    lake: SparkLake,
    source: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run does not notice the first, and goes on from where it was after the second."""
    loads, port = loads_on_main(client), str(free_port())
    monkeypatch.setenv("NESSIE_OPS_URI", f"http://127.0.0.1:{port}")
    with ExitStack() as stack:
        servers = [stack.enter_context(Served(home, "--port", port))]

        def meddle(event: dg.DagsterEvent) -> None:
            if event.is_step_success and event.step_key in ("bronze__flights", "validated"):
                servers[-1].stop(signal.SIGKILL)
                if event.step_key == "bronze__flights":
                    servers.append(stack.enter_context(Served(home, "--port", port)))

        result = run_month("2013-02", instance, source_dir=str(source), on_event=meddle)
        assert len(servers) == 2
        assert result.commit is None and "Is the server running?" in result.reason
        assert result.reason.startswith("the run failed: publish: ") and loads_on_main(client) == loads
        stack.enter_context(Served(home, "--port", port))
        again = resume_run(result.run_id, instance)
        check_month(lake, source, "2013-02")
    assert again.branch == result.branch
    assert again.commit == client.get_reference("main").hash
    assert loads_on_main(client) == ["2013-02", *loads]
