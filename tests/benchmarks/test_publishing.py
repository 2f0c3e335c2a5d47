"""The benchmark of publishes runs against a real server; how fast it is is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_it_measures_publishes(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks.publishing", "--quick", "--sides", "sqlite", "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert [len(by_side["sqlite"]) for by_side in found["figures"].values()] == [1, 1, 1]
    assert found["sides"]["sqlite"]["conflicts"] == found["sides"]["sqlite"]["failures"] == 0
    assert found["sides"]["sqlite"]["publishes"] >= 1 + 8 + 32, "each published once at least"
