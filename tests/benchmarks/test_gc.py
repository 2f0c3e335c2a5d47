"""The benchmark of collection counts what it must: each object is read once, each commit visited once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import gcspark
from benchmarks.gcmeasure import filters
from nessie_ops.catalog.livefiles import FileKind, LiveFile, expand
from nessie_ops.gc.storage import Folder

ROOT = Path(__file__).parents[2]


def measured(folder: Path, *options: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "benchmarks.gc", "--folder", str(folder), "--json", str(folder / "figures.json")]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[dict[str, object]] = json.loads((folder / "figures.json").read_text())
    return found


def test_it_collects_a_catalog_without_and_with_a_cutoff(tmp_path: Path) -> None:
    everything, single = measured(tmp_path, "--size", "0.01", "--sides", "file", "--delays", "0")
    kinds = json.loads((tmp_path / "file" / "made.json").read_text())["kinds"]
    assert everything["reads"] == {
        "metadata": kinds["metadata"] + kinds["views"],
        "manifest list": kinds["lists"],
        "manifest": kinds["manifests"],
    }
    assert everything["files"] == {"deleted": kinds["junk"]}
    assert everything["commits"] == everything["distinct"]
    assert 0 < single["commits"] == single["distinct"] < 10  # type: ignore[operator]
    assert 0 < sum(single["reads"].values()) < sum(everything["reads"].values())  # type: ignore[attr-defined]


def test_it_sweeps_many_files(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, "--files", "2000")
    assert found["files"] == {"deleted": 1000}


def test_it_compares_the_sets_of_live_files() -> None:
    found = filters(2000)
    assert found["exact, kept wrongly"] == 0
    assert found["bloom, bytes"] < found["exact, bytes"]


def test_files_that_do_not_exist_are_those_that_manifests_name(tmp_path: Path) -> None:
    gcspark.write_first(tmp_path)
    files = gcspark.Synthetic(str(tmp_path))().of(f"{gcspark.ROOT}/t00007")
    table = f"{gcspark.ROOT}/t00007"
    levels = list(files.list_level(f"{table}/data"))
    parts = [file for folder in levels for file in files.list_files(folder.location)]
    assert list(files.list_level(table)) == [Folder(f"{table}/data")]
    assert list(files.list_files(table)) == parts
    manifest = files.read(f"{table}/metadata/0-m0.avro")
    live = {file.location for file in expand(LiveFile(FileKind.MANIFEST, "m"), manifest)}
    assert len(live) == gcspark.PER_MANIFEST
    assert live < {file.location for file in parts}
