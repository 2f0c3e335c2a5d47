"""Runs that are killed at each of their steps and taken up, and two at once: no live file goes, no dead one stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, mode: str) -> list[dict[str, Any]]:
    """What each collection of the killer came to."""
    command = [sys.executable, str(Path(__file__).with_name("killer.py")), str(folder), mode]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=800
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("mode", "steps"), [("direct", 30), ("deferred", 8)])
def test_a_run_is_taken_up_wherever_it_was_killed(mode: str, steps: int, tmp_path: Path) -> None:
    outcomes = run(tmp_path, mode)
    assert len(outcomes) > steps
    assert [found["first"] for found in outcomes] == [-signal.SIGKILL] * (len(outcomes) - 1) + [0]
    for found in outcomes:
        assert set(found["codes"]) <= {0}, found
        assert (found["lost"], found["kept"]) == ([], []), found
        assert set(found["statuses"]) == {"EXPIRY_SUCCESS"}, found
        assert sum(found["states"].values()) == 7 and set(found["states"]) <= {"deleted", "gone"}, found


def test_two_runs_at_once(tmp_path: Path) -> None:
    (found,) = run(tmp_path, "both")
    assert (found["codes"], found["lost"], found["kept"]) == ([0, 0], [], [])
    assert found["statuses"] == ["EXPIRY_SUCCESS"] * 2
