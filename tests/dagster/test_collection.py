"""Garbage collection as assets: one run over all shards, partitions that fail and are done again, and approval."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.collection import (
    LIVE_SET_TAG,
    SHARDS,
    gc_deleted,
    gc_mark,
    gc_plan,
    gc_sweep,
)
from nessie_ops.definitions import build
from nessie_ops.gc.shards import Shard
from nessie_ops.gc.storage import LocalFiles, StorageError
from nessie_ops.model import ReferenceType
from nessie_ops.store.livesets import FileRecord, LiveSets
from schedules.schedules import nightly_collection
from tests.dagster.garbage import ALL, KEYS, errors, metadata, run
from tests.gc.disk import DiskLake, small_lake

PLAN = {"ops": {"gc_plan": {"config": {"default_cutoff": "1"}}}}
LENIENT = {"ops": {"gc_sweep": {"config": {"max_deletion_share": 1.0}}}}
CUT = {"ops": {**PLAN["ops"], **LENIENT["ops"]}}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskLake]:
    """Two tables with old versions and an orphan; its catalog and a home of its own are those of the assets."""
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path / "home"))
    with small_lake(tmp_path) as lake:
        monkeypatch.setenv("NESSIE_OPS_STORE", lake.store)
        yield lake


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def sets(lake: DiskLake, tmp_path: Path) -> Iterator[LiveSets]:
    (tmp_path / "home").mkdir()
    opened = LiveSets.open(f"sqlite:///{tmp_path}/home/gc.db")
    yield opened
    opened.close()


def dead_files(lake: DiskLake) -> set[str]:
    """What the heads of a lake with one branch do not need: all snapshots of their metadata, and its log, count."""
    needed = set()
    for key in ("a", "b"):
        content = lake.content("main", key)
        assert content is not None
        state = lake.needs[content.metadata_location]
        needed |= {content.metadata_location, *state.log}.union(*(snapshot.files for snapshot in state.snapshots))
    return set(lake.list_files()) - needed


def test_one_run_over_all_shards_deletes_what_is_dead(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    before, dead = set(lake.list_files()), dead_files(lake)
    result = run(instance, "collect_garbage", CUT)
    assert result.success, errors(result)
    assert before - set(lake.list_files()) == dead != set()
    marked, swept = metadata(result, "gc_mark"), metadata(result, "gc_sweep")
    assert set(marked) == set(swept) == set(KEYS)
    assert sum(facts["references"] for facts in marked.values()) == 1
    assert sum(facts["folders"] for facts in swept.values()) == 2
    assert sum(facts["files/dead"] for facts in swept.values()) == len(dead)
    assert any("data:image/svg+xml" in facts.get("plots", "") for facts in swept.values())
    assert all(Path(facts["report"]).read_text().startswith("<!") for facts in swept.values())
    [deleted] = metadata(result, "gc_deleted").values()
    assert deleted["files/deleted"] == len(dead)
    [purged] = metadata(result, "store_purged").values()
    assert purged["live_commits"] > 0
    for asset in ("gc_plan", "gc_mark", "gc_sweep", "gc_deleted", "store_purged"):
        assert all(facts["duration_s"] > 0 for facts in metadata(result, asset).values()), asset
    checks = {each.check_name: each.passed for each in result.get_asset_check_evaluations()}
    assert checks == {"no_live_candidates": True, "nothing_left_out": True}


def test_deletion_waits_for_the_person_who_names_the_live_set(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    before, dead = set(lake.list_files()), dead_files(lake)
    found = run(instance, "find_garbage", CUT)
    assert found.success, errors(found)
    id = metadata(found, "gc_plan")[None][LIVE_SET_TAG]
    assert set(lake.list_files()) == before
    nobody = run(instance, "delete_garbage", tags={})
    assert "live_set: give the id" in errors(nobody)
    assert set(lake.list_files()) == before
    approved = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id}}}}, {})
    assert approved.success, errors(approved)
    assert before - set(lake.list_files()) == dead


def test_more_than_the_caps_allow_needs_force(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    before, dead = set(lake.list_files()), dead_files(lake)
    capped = {"ops": {**CUT["ops"], "gc_sweep": {"config": {"max_deletions": 1}}}}
    result = run(instance, "collect_garbage", capped)
    assert "would be deleted, more than" in errors(result)
    assert set(lake.list_files()) == before
    id = metadata(result, "gc_plan")[None][LIVE_SET_TAG]
    forced = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id, "force": True}}}}, {})
    assert forced.success, errors(forced)
    assert before - set(lake.list_files()) == dead


def test_a_partition_that_fails_is_done_again_by_itself(
    lake: DiskLake, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, dead = set(lake.list_files()), dead_files(lake)
    folder = f"{lake.root}/a".replace("file://", "")
    [broken] = [key for key in KEYS for base in _bases(lake) if base.endswith("/a") and _holds(key, base)]
    listed = []
    list_files = LocalFiles.list_files

    def fail_below(self: LocalFiles, base: str) -> Any:
        listed.append(base)
        if base.endswith(folder):
            raise StorageError("the disk does not answer")
        return list_files(self, base)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "list_files", fail_below)
        first = run(instance, "collect_garbage", CUT)
    assert "the disk does not answer" in errors(first)
    assert set(metadata(first, "gc_sweep")) == set(KEYS) - {broken}
    assert set(lake.list_files()) == before
    with monkeypatch.context() as patch:
        listed.clear()
        folder = "nowhere"
        patch.setattr(LocalFiles, "list_files", fail_below)
        again = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={gc_sweep.key})
        second = again.execute_in_process(LENIENT, instance=instance, partition_key=broken, raise_on_error=False)
    assert second.success, errors(second)
    assert [base.rpartition("/")[2] for base in listed] == ["a"]  # and no folder of another shard
    assert set(metadata(second, "gc_sweep")) == {broken}
    id = metadata(first, "gc_plan")[None][LIVE_SET_TAG]
    third = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id}}}}, {})
    assert third.success, errors(third)
    assert before - set(lake.list_files()) == dead


def test_the_check_stops_the_deletion_of_a_live_file(
    lake: DiskLake, instance: dg.DagsterInstance, sets: LiveSets
) -> None:
    before = set(lake.list_files())
    found = run(instance, "find_garbage", CUT)
    content = lake.content("main", "a")
    assert found.success and content is not None
    id = metadata(found, "gc_plan")[None][LIVE_SET_TAG]
    record = sets.get(id)
    assert record is not None
    sets.add_files(record.number, [FileRecord(content.metadata_location, f"{lake.root}/a", 1, 0)])
    tags = {**ALL, LIVE_SET_TAG: id}
    again = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={gc_sweep.key, gc_deleted.key})
    result = again.execute_in_process(instance=instance, tags=tags, raise_on_error=False)
    [check] = [each for each in result.get_asset_check_evaluations() if each.check_name == "no_live_candidates"]
    assert not check.passed and check.blocking
    assert check.metadata["files"].value == [content.metadata_location]
    assert not metadata(result, "gc_deleted")
    approved = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id}}}}, {})
    assert "has candidates that heads may need" in errors(approved)
    assert set(lake.list_files()) == before


def test_what_became_reachable_since_the_mark_stays(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    old = list(lake.versions.list_log(lake.versions.get_reference("main").hash, limit=100))[-2].commit_meta.hash
    plan = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={gc_plan.key, gc_mark.key})
    first = plan.execute_in_process(PLAN, instance=instance, tags=ALL)
    lake.versions.create_reference(ReferenceType.BRANCH, "old", old)
    needed = {name for name, state in lake.needs.items() if state.location.endswith("/a")}
    shown = lake.content("old", "a")
    assert first.success and shown is not None and shown.metadata_location in needed
    rest = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={gc_sweep.key, gc_deleted.key})
    second = rest.execute_in_process(LENIENT, instance=instance, tags=ALL, raise_on_error=False)
    assert second.success, errors(second)
    assert shown.metadata_location in lake.list_files()
    assert metadata(second, "gc_deleted")[None]["files/deleted"] > 0


def test_the_night_has_one_run_of_all_shards(instance: dg.DagsterInstance) -> None:
    moment = datetime(2026, 1, 1, 1, tzinfo=UTC)
    repository = build().get_repository_def()
    context = dg.build_schedule_context(instance, scheduled_execution_time=moment, repository_def=repository)
    request = nightly_collection(context)
    assert isinstance(request, dg.RunRequest)
    assert request.tags.items() >= ALL.items()
    assert request.run_key == moment.isoformat()


def _bases(lake: DiskLake) -> list[str]:
    return [f"{lake.root}/{key}" for key in ("a", "b")]


def _holds(key: str, base: str) -> bool:
    return Shard(int(key), SHARDS).holds(base)
