"""One job, wherever Spark runs and however steps are executed: the environment differs, the assets do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from nessie_ops.client import NessieClient
from resources.spark import SparkLake
from tests.dagster.months import check_month

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How a process that loaded a month ended: its run, main's commit or None, why not, and the steps that began."""

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
    _, run_id, _, commit, *reason = lines[-1].split(maxsplit=4)
    steps = [line.split()[1] for line in lines if line.startswith("STEP_START ")]
    return Ended(run_id, commit, " ".join(reason), steps)


@pytest.mark.spark
def test_on_all_processors_of_this_machine(client: NessieClient, lake: SparkLake, source: Path) -> None:
    ended = load("2013-01", source, NESSIE_OPS_SPARK_MASTER="local[*]")
    assert ended.commit == client.get_reference("main").hash, ended.reason
    check_month(lake, source, "2013-01")
