"""Dagster's web server and daemon on the light pipeline, as processes of which each may be killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.dagster.web import ROOT, wait_for
from tests.ports import free_port

_MODULE = ["-m", "tests.dagster.light", "-a", "defs", "-d", str(ROOT)]


class Platform:
    """Both processes on a home; `port` is the web server's."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        self._home = home
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    @contextmanager
    def running(cls, home: Path) -> Iterator[Platform]:
        platform = cls(home)
        try:
            platform.start("dagster-webserver", "-h", "127.0.0.1", "-p", str(platform.port))
            platform.start("dagster-daemon", "run")
            wait_for("the web server", platform._is_up)
            yield platform
        finally:
            for name in list(platform._processes):
                platform.stop(name, signal.SIGTERM)

    def start(self, name: str, *arguments: str) -> None:
        """Start one of them."""
        with (self._home / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(Path(sys.executable).parent / name), *arguments, *_MODULE],
                cwd=ROOT,
                env={**os.environ, "DAGSTER_HOME": str(self._home / "dagster")},
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def stop(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """Send one of them a signal, and wait for its end."""
        process = self._processes.pop(name)
        process.send_signal(how)
        try:
            process.wait(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)

    def _is_up(self) -> bool:
        for name, process in self._processes.items():
            assert process.poll() is None, (self._home / f"{name}.log").read_text()[-3000:]
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/server_info").is_success
        except httpx.TransportError:
            return False
