"""Whose runs a process ends that finds them left open, when machines have their records in one database."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from nessie_ops.definitions import build
from nessie_ops.driving import DRIVER_TAG, driving, end_abandoned


def test_runs_that_another_machine_drives_are_left_to_it(home: Path, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
        (folder / "dagster.yaml").write_text(f"storage:\n  sqlite:\n    base_dir: {tmp_path}/records\n")
    job = build().resolve_job_def("load_month")
    here, there = (dg.DagsterInstance.from_config(str(folder)) for folder in folders)
    with here, there:
        with driving(there) as lock:
            run = there.create_run_for_job(job, tags={DRIVER_TAG: lock, "dagster/partition": "2013-01"})
            assert here.get_run_by_id(run.run_id) is not None, "both have the same records"
            assert end_abandoned(here) == end_abandoned(there) == []
        assert end_abandoned(here) == [], "nor is it known here whether it goes on"
        assert end_abandoned(there) == [run.run_id]
