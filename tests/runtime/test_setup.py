"""Set-up on a machine that lacks something says so in one line and leaves nothing that looks finished."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


NEEDED = "setup: Python 3.11, 3.12 or 3.13 is needed"


@pytest.mark.parametrize(
    ("answers", "line"),
    [
        ("exit 127", f"{NEEDED} ({{python}} does not run); name one with: "),
        ('case "$1" in --version) echo Python 3.9.2;; *) exit 1;; esac', f"{NEEDED} (Python 3.9.2); name one with: "),
        ('case "$*" in *ensurepip*) exit 1;; esac', "setup: {python} has no venv module; install it "),
    ],
)
def test_a_python_that_does_not_fit(tmp_path: Path, answers: str, line: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answers}\n")
    python.chmod(0o755)
    command = ["sh", ".ci/setup.sh", tmp_path / "venv"]
    done = subprocess.run(command, cwd=ROOT, env={"PYTHON": str(python)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith(line.format(python=python))
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "venv").exists()


def test_help_names_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "demo", "test", "ui", "lint", "clean"):
        assert f"make {target} " in shown
