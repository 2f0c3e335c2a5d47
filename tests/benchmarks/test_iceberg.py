"""The benchmark of the Iceberg catalog runs against real servers and counts what it must; its speed is not tested."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.lakes import MEASURES
from benchmarks.load import request
from benchmarks.tables import FIRST_SNAPSHOT, Table, load_request

ROOT = Path(__file__).parents[2]


def test_it_measures_files_and_s3(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    short = ["--quick", "--seconds", "0.05", "--snapshots", "1", "12", "--json", str(file)]
    command = [sys.executable, "-m", "benchmarks.iceberg", *short]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert list(found["figures"]) == [measure.name for measure in MEASURES]
    for figures in found["figures"].values():
        assert set(figures) == {"files", "s3"}
        assert all(value > 0 for values in figures.values() for value in values)
    for name, writes in (("files", "files"), ("s3", "PUT")):
        side = found["sides"][name]
        assert side["conflicts"] == 0
        asked = side["by operation"]
        assert [asked[operation][writes] for operation in ("create", "append", "transaction of 10")] == [1, 1, 10]
        assert asked["load"] == {}, "metadata is read from the cache"
        sizes = side["by snapshots"]
        assert sizes["12"]["all kB"] > 2 * sizes["1"]["all kB"]
        assert sizes["12"]["refs kB"] < sizes["12"]["all kB"] / 2


def test_an_append_follows_the_one_before() -> None:
    table = Table("db", "t", "s3://bucket/t", "uuid", snapshots=2)
    change = table.append()
    snapshot = change["updates"][0]["snapshot"]
    assert change["requirements"][1]["snapshot-id"] == snapshot["parent-snapshot-id"] == FIRST_SNAPSHOT + 2
    assert (snapshot["snapshot-id"], snapshot["sequence-number"]) == (FIRST_SNAPSHOT + 3, 3)
    assert Table("db", "t", "", "").append()["requirements"][1]["snapshot-id"] is None


def test_a_load_says_what_it_has() -> None:
    table = Table("db", "t", "", "")
    assert load_request(table, "refs", '"5"') == request(
        "GET", f"{table.path}?snapshots=refs", b"", ['If-None-Match: "5"']
    )
