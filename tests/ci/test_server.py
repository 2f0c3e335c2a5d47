"""Changes tried on a real Dagster webserver with its daemon: launched by GraphQL, followed, terminated by Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import dagster as dg
import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.instance import open_instance
from tests.ci.conftest import SMALL, Command, Ran
from tests.dagster.web import ROOT, wait_for, web_interface
from tests.lossy import losing
from tests.ports import free_port

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def url(january: Sequence[Ran], home: Path) -> Iterator[str]:
    """A running `nessie-ops ui` on the home."""
    with web_interface(home) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def webserver(workspace: Path) -> Iterator[str]:
    """A webserver alone, for the code that a workspace file names."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "dagster_webserver", "-w", str(workspace), "-h", "127.0.0.1"]
    with (workspace.parent / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "-p", url.rpartition(":")[2]], stdout=log, stderr=log, cwd=workspace.parent
        )

    def is_up() -> bool:
        assert process.poll() is None
        try:
            return httpx.get(f"{url}/server_info").is_success
        except httpx.TransportError:
            return False

    try:
        wait_for("the webserver", is_up)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_a_change_runs_on_the_server(url: str, ci: Command, client: NessieClient, home: Path, tmp_path: Path) -> None:
    posts = count(1)
    with losing(url, lambda method: next(posts) == 2) as proxy:  # the answer to the launch, after a look at the jobs
        user = proxy.replace("http://", "http://ci:secret@")
        found = ci("up", "--name", "there", "--select", SMALL, "--dagster", user, "--summary", str(tmp_path))
    assert found.code == 0, found
    [run] = found.value["runs"]
    text = (tmp_path / "summary.md").read_text()
    assert run["url"] == f"{proxy}/runs/{run['runId']}" and run["url"] in text
    assert "secret" not in f"{text}{found}"
    told = r"(?s)begins  check_gold_airport_hourly\n.*ok {6}check_gold_airport_hourly +[\d.]+ s  \d checks passed\n"
    assert re.search(told, found.err), found.err
    assert {check["table"] for check in found.value["checks"]} == {"gold.airport_hourly"}
    with open_instance(home) as instance:
        [ran] = instance.get_runs(dg.RunsFilter(tags={"nessie/branch": "ci/there"}))
    assert (ran.run_id, ran.status) == (run["runId"], dg.DagsterRunStatus.SUCCESS)
    assert ci("merge", "--name", "there").value["commit"] == client.get_reference("main").hash


def test_code_that_does_not_load_is_told_of(january: Sequence[Ran], ci: Command, home: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such setting')")
    (tmp_path / "workspace.yaml").write_text("load_from:\n  - python_file: broken.py\n")
    with webserver(tmp_path / "workspace.yaml") as url:
        refused = ci("up", "--name", "broken", "--select", SMALL, "--dagster", url, "--summary", str(tmp_path / "none"))
    assert refused.code == 2 and "broken.py: RuntimeError: no such setting" in refused.err, refused


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
