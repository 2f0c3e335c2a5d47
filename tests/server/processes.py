"""`nessie-ops serve` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


class Served:
    """A server process over the database and warehouse in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        """Start it; the base URI is known when this returns."""
        store, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        command = [sys.executable, "-m", "nessie_ops", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            [*command, "--store", store, "--warehouse", warehouse],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("nessie-ops: serving http://127.0.0.1:"), line + self.stop(signal.SIGKILL)[1]
        self.base_uri = line.split()[2]

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal and wait; (exit code, what it wrote to standard error)."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()
