"""The Dagster instance of a home: its runs, their events and its settings, kept where the web server finds them."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg

from nessie_ops.runtime.files import write_atomically
from nessie_ops.runtime.home import create_home, dagster_home

SETTINGS = """\
# Written once by nessie-ops; yours to change.
telemetry: {enabled: false}
# A run is launched again only when its tags say so: the crash of a process, or a main that moved meanwhile.
run_retries: {enabled: true, max_retries: 0, retry_on_asset_or_op_failure: false}
# Resuming a run's process would stop signals from reaching it: a terminated run could go on and publish.
run_monitoring: {enabled: true, start_timeout_seconds: 120, cancel_timeout_seconds: 60, max_runtime_seconds: 7200,
  max_resume_run_attempts: 0, poll_interval_seconds: 10}
# Each run has a Spark of its own.
concurrency: {runs: {max_concurrent_runs: 2}}
retention: {sensor: {purge_after_days: 7}, schedule: {purge_after_days: 90}}
"""


def prepare_instance(home: Path) -> Path:
    """The DAGSTER_HOME of `home`, with settings where it had none; put into the environment for processes from here."""
    folder = dagster_home(create_home(home))
    settings = folder / "dagster.yaml"
    if not settings.exists():
        write_atomically(settings, SETTINGS.encode())
    os.environ["DAGSTER_HOME"] = str(folder)
    return folder


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance of `home`.  Use it as a context manager."""
    return dg.DagsterInstance.from_config(str(prepare_instance(home)))
