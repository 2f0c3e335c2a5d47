"""The demonstration, as a newcomer runs it: twice on one home; and it fails when what it claims is not so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nessie_ops.demo.screen import Screen
from nessie_ops.versioning import VersionStore

ROOT = Path(__file__).parents[1]


def demo(home: Path) -> str:
    """What `nessie-ops demo` printed, once it has ended well."""
    ended = subprocess.run(
        [sys.executable, "-m", "nessie_ops", "demo"],
        cwd=ROOT,
        env={**os.environ, "NESSIE_OPS_HOME": str(home), "DAGSTER_HOME": str(home / "dagster"), "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.mark.spark
def test_the_demonstration_verifies_itself_and_can_be_repeated(tmp_path: Path) -> None:
    for time in (1, 2):
        printed = demo(tmp_path)
        assert "NOT TRUE" not in printed and "All of it verified." in printed
        assert printed.count("and gold counts each flight") == 2
        assert "it differs from main in bronze.flights and bronze.weather" in printed
        assert "27,004 flights were delivered" in printed and "24,951 flights were delivered" in printed
        versions = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
        messages = [entry.commit_meta.message for entry in versions.list_log(versions.get_reference("main").hash)]
        assert [message[:12] for message in messages[:-1]] == ["Load 2013-02", "Load 2013-01"] * time
        assert len(versions.list_references(prefix="run/")) == time, "the refused month's branch, of each time"
        versions.close()


def test_a_claim_that_does_not_hold_is_remembered() -> None:
    screen = Screen()
    screen.claim(True, "water is wet")
    assert screen.failures == []
    screen.claim(False, "water is dry")
    assert screen.failures == ["water is dry"]
