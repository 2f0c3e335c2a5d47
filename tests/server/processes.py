"""`nessie-ops serve` as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Served:
    """A server process over a warehouse in a folder, and over the database there, or another one."""

    def __init__(self, folder: Path, *options: str, store: str | None = None, **environment: str) -> None:
        """Start it; the base URI is known when this returns."""
        store, warehouse = store or f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        self.store, self.folder = store, folder
        handle, errors = tempfile.mkstemp(prefix="errors-", dir=folder)
        self._errors = Path(errors)  # not a pipe: nobody would read it while the server writes
        command = [sys.executable, "-m", "nessie_ops", "serve", "--port", "0", *options]
        with os.fdopen(handle, "w") as file:
            self.process = subprocess.Popen(
                [*command, "--store", store, "--warehouse", environment.get("NESSIE_OPS_WAREHOUSE", warehouse)],
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                cwd=Path(__file__).parents[2],
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("nessie-ops: serving http://127.0.0.1:"), line + self.stop(signal.SIGKILL)[1]
        self.base_uri = line.split()[2]

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal and wait; (exit code, what it wrote to standard error)."""
        self.process.send_signal(number)
        self.process.communicate(timeout=60)
        return self.process.returncode, self._errors.read_text()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        if self.process.stdout:
            self.process.stdout.close()
