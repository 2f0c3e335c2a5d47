"""Changes tried on a real Dagster webserver with its daemon: launched by GraphQL, followed, terminated by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import dagster as dg
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.instance import open_instance
from tests.ci.conftest import SMALL, Command, Ran
from tests.dagster.web import ROOT, web_interface

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def url(january: Sequence[Ran], home: Path) -> Iterator[str]:
    """A running `nessie-ops ui` on the home."""
    with web_interface(home) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_change_runs_on_the_server(url: str, ci: Command, client: NessieClient, home: Path, tmp_path: Path) -> None:
    words = ("--name", "there", "--select", SMALL, "--dagster", url, "--summary", str(tmp_path))
    found = ci("up", *words)
    assert found.code == 0, found
    [run] = found.value["runs"]
    assert run["url"] == f"{url}/runs/{run['runId']}" and run["url"] in (tmp_path / "summary.md").read_text()
    assert "check_gold_airport_hourly" in found.err and "begins" in found.err
    assert {check["table"] for check in found.value["checks"]} == {"gold.airport_hourly"}
    with open_instance(home) as instance:
        ran = instance.get_run_by_id(run["runId"])
    assert ran and ran.status == dg.DagsterRunStatus.SUCCESS
    assert ran.tags["nessie/branch"] == "ci/there"
    assert ci("merge", "--name", "there").value["commit"] == client.get_reference("main").hash


def test_an_interrupt_terminates_the_run_there(url: str, client: NessieClient, home: Path, tmp_path: Path) -> None:
    main = client.get_reference("main").hash
    words = ["ci", "up", "--name", "stopped", "--select", SMALL, "--dagster", url, "--summary", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "nessie_ops", *words],
        cwd=ROOT,
        env=dict(os.environ),
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    with process.stderr as told:
        launched = next(line for line in told if line.startswith("launched "))
        process.send_signal(signal.SIGINT)
        rest = told.read()
    assert process.wait(timeout=300) == 3, rest
    with open_instance(home) as instance:
        run = instance.get_run_by_id(launched.strip().rsplit("/", 1)[1])
    assert run and run.status == dg.DagsterRunStatus.CANCELED, rest
    assert client.get_reference("main").hash == main
    assert client.list_merge_requests(source="ci/stopped") == []
    assert "run failed" in (tmp_path / "summary.md").read_text()
