"""Dagster's web interface and daemon on this project, in the foreground: started together, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from assets.said import URL_VARIABLE
from nessie_ops.errors import MachineNotReady
from nessie_ops.instance import open_instance
from nessie_ops.runtime.home import dagster_home, get_home

ROOT = Path(__file__).parents[1]
WORKSPACE = ROOT / "workspace.yaml"
_STOP_S = 30  # a webserver or daemon that takes longer to stop is killed; runs are processes of their own


def run_ui(*, host: str, port: int) -> int:
    """Run both until one ends or a signal tells to stop; 0 when told to, 1 when one ended by itself."""
    if not WORKSPACE.exists():
        raise MachineNotReady(f"{WORKSPACE} does not exist; run this from a checkout of the project")
    folder = dagster_home(get_home())
    with open_instance(get_home()):
        pass  # creates Dagster's databases, which the webserver and the daemon cannot do at the same time
    url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"  # what runs link to, unless the user says
    stopped = _stop_on_signals()
    processes = {name: _start(command, folder, url) for name, command in _commands(host, port).items()}
    print(f"nessie-ops: Dagster at http://{host}:{port}, its runs and the catalog in {folder.parent}", flush=True)
    try:
        while not stopped:
            for name, process in processes.items():
                if process.poll() is not None:
                    print(f"nessie-ops: {name} ended with exit code {process.returncode}", file=sys.stderr)
                    return 1
            time.sleep(0.2)
        return 0
    finally:
        _stop(list(processes.values()))


def _commands(host: str, port: int) -> dict[str, list[str]]:
    scripts = Path(sys.executable).parent
    workspace = ["-w", str(WORKSPACE)]
    return {
        "the webserver": [str(scripts / "dagster-webserver"), *workspace, "-h", host, "-p", str(port)],
        "the daemon": [str(scripts / "dagster-daemon"), "run", *workspace],
    }


def _start(command: list[str], folder: Path, url: str) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C reaches this process alone, which then stops the others in order.
    environment = {URL_VARIABLE: url, **os.environ, "DAGSTER_HOME": str(folder)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)


def _stop_on_signals() -> list[int]:
    """A list that gets each signal to stop.  A signal that a shell had ignored is not ignored by children, either."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        received.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    return received


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
