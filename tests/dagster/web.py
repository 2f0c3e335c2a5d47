"""The web interface and daemon of a home as processes, and their runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import dagster as dg
import httpx
from dagster_graphql import DagsterGraphQLClient

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300  # a run takes some 40 s on a quiet machine; this is to notice a hang
T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """What `look` finds; an AssertionError naming `what` when that takes too long."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.5)
    raise AssertionError(f"{what}: not within {PATIENCE_S} s")


@contextmanager
def web_interface(home: Path, **environment: str) -> Iterator[int]:
    """The port of a running `nessie-ops ui` on a home."""
    port = free_port()
    log = home / "ui.log"
    # No signal may be ignored, as it is for what a shell starts in the background: runs are terminated by one.
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "nessie_ops", "ui", "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    try:
        wait_for("the web interface", lambda: _is_up(port, process, log))
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(timeout=60) == 0, log.read_text()[-3000:]
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _is_up(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-3000:]
    try:
        return httpx.get(f"http://127.0.0.1:{port}/server_info").is_success
    except httpx.TransportError:
        return False


def finish(graphql: DagsterGraphQLClient, run_id: str) -> dg.DagsterRunStatus:
    """The status in which the run ended."""
    ended = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
    return wait_for(
        f"the end of run {run_id}", lambda: status if (status := graphql.get_run_status(run_id)) in ended else None
    )


def list_again(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """The re-executions of a run."""
    return [run.run_id for run in instance.get_runs(dg.RunsFilter(tags={"dagster/root_run_id": run_id}))]


def pid_of(instance: dg.DagsterInstance, run_id: str) -> int:
    """The process that executes the run, as its log says."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT).records
    events = [record.event_log_entry.dagster_event for record in records]
    return next(int(str(event.engine_event_data.metadata["pid"].value)) for event in events
                if event and "pid" in event.engine_event_data.metadata)  # fmt: skip


def retried(instance: dg.DagsterInstance, run_id: str) -> str:
    """The run that the daemon started when this one had died."""

    def look() -> str | None:
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": run_id}))
        return runs[0].run_id if runs else None

    try:
        return wait_for(f"the re-execution of {run_id}", look)
    except AssertionError as error:
        run = instance.get_run_by_id(run_id)
        raise AssertionError(f"{error}: {run and (run.status, run.tags)}") from error
