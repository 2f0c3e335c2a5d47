"""What may be configured of a collection's assets: dry runs, snapshots that expire, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from dagster._core.storage.tags import BACKFILL_ID_TAG

from assets.collection import LIVE_SET_TAG, gc_deleted, gc_mark, gc_plan, gc_sweep
from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.definitions import build
from nessie_ops.store.livesets import LiveSets
from tests.buckets import Buckets
from tests.dagster.garbage import ALL, KEYS, errors, metadata, run
from tests.gc.disk import DiskLake, small_lake

PLAN = {"gc_plan": {"config": {"default_cutoff": "1"}}}
SCHEMA = pa.schema([("id", pa.int64())])


def config(sweep: dict[str, Any], **deletion: Any) -> dict[str, Any]:
    return {
        "ops": {
            **PLAN,
            "gc_sweep": {"config": {"max_deletion_share": 1.0, **sweep}},
            **({"gc_deleted": {"config": deletion}} if deletion else {}),
        }
    }


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test() as instance:
        yield instance


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def lake(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DiskLake]:
    with small_lake(tmp_path) as lake:
        monkeypatch.setenv("NESSIE_OPS_STORE", lake.store)
        yield lake


def observed(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str | None], dict[str, Any]]:
    """By asset and partition: the metadata of what was only observed."""
    events = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {
        (event.asset_key.to_user_string(), event.partition): {
            name: value.value for name, value in event.metadata.items()
        }
        for event in events
    }


def test_a_dry_run_of_all_changes_nothing(lake: DiskLake, home: Path, instance: dg.DagsterInstance) -> None:
    before = lake.list_files()
    result = run(instance, "collect_garbage", config({"dry_run": True}))
    assert result.success, errors(result)
    seen = observed(result)
    assert set(seen) == {("gc_sweep", key) for key in KEYS}
    assert sum(facts["files/dead"] for facts in seen.values()) > 0
    assert all(facts["report"].endswith("-dry-run.html") for facts in seen.values())
    assert not any(metadata(result, asset) for asset in ("gc_sweep", "gc_deleted", "store_purged"))
    assert lake.list_files() == before
    sets = LiveSets.open(f"sqlite:///{home}/gc.db")
    [record] = sets.list_live_sets()
    assert (record.status, list(sets.list_files(record.number))) == ("IDENTIFY_SUCCESS", [])
    sets.close()


def test_deletion_and_purge_have_dry_runs(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    before = lake.list_files()
    found = run(instance, "find_garbage", config({}))
    dead = sum(facts["files/dead"] for facts in metadata(found, "gc_sweep").values())
    id = metadata(found, "gc_plan")[None][LIVE_SET_TAG]
    only = {"ops": {"gc_deleted": {"config": {"live_set": id, "dry_run": True}}}}
    result = run(instance, "delete_garbage", only, {})
    assert result.success, errors(result)
    seen = observed(result)[("gc_deleted", None)]
    assert (seen["files/deleted"], seen["dry_run"]) == (dead, True)
    assert not metadata(result, "gc_deleted") and not metadata(result, "store_purged")
    again = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={dg.AssetKey("store_purged")})
    purge = {"ops": {"store_purged": {"config": {"grace": "PT0S", "dry_run": True}}}}
    purged = observed(again.execute_in_process(purge, instance=instance))[("store_purged", None)]
    assert purged["dry_run"] and purged["live_commits"] > 0
    assert lake.list_files() == before
    real = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id}}}}, {})
    assert metadata(real, "gc_deleted")[None]["files/deleted"] == dead


def test_snapshots_expire_in_a_bucket(
    aws: Buckets, home: Path, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata is rewritten, and files are deleted, with the keys that the server would have."""
    bucket = aws.create()
    monkeypatch.setenv("NESSIE_OPS_STORE", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("NESSIE_OPS_WAREHOUSE", f"s3://{bucket}/lake")
    with NessieOpsCatalog("lake") as catalog:
        catalog.create_namespace("db")
        table = catalog.create_table("db.t", SCHEMA)
        table.append(pa.table({"id": [0]}, schema=SCHEMA))
        for id in (1, 2):
            table.overwrite(pa.table({"id": [id]}, schema=SCHEMA))
        head = catalog.version_store.get_reference("main").hash
        sweep = {"expire_snapshots": True, "grace_period": "PT0S", "force": True}
        dry = run(instance, "find_garbage", config({**sweep, "dry_run": True}))
        assert dry.success, errors(dry)
        assert catalog.version_store.get_reference("main").hash == head
        [planned] = {facts["expired_snapshots"] for facts in observed(dry).values()}
        result = run(instance, "collect_garbage", config(sweep))
        assert result.success, errors(result)
        facts = metadata(result, "gc_sweep").values()
        assert {fact["expired_snapshots"] for fact in facts} == {planned} == {len(table.metadata.snapshots) - 1}
        assert all("db.t" in fact["rewritten_metadata"][0] and "db.t" in fact["summary"] for fact in facts)
        kept = catalog.load_table("db.t")
        assert kept.scan().to_arrow()["id"].to_pylist() == [2]
        assert len(kept.metadata.snapshots) == 1
        keys = [each["Key"] for each in aws.client().list_objects_v2(Bucket=bucket)["Contents"]]
        assert len([key for key in keys if key.endswith(".parquet")]) == 1


def test_another_catalogs_live_set_is_refused(
    lake: DiskLake, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its heads would not be looked at before the deletion."""
    before = lake.list_files()
    found = run(instance, "find_garbage", config({}))
    id = metadata(found, "gc_plan")[None][LIVE_SET_TAG]
    (tmp_path / "other").mkdir()
    with small_lake(tmp_path / "other") as other:
        monkeypatch.setenv("NESSIE_OPS_STORE", other.store)
        result = run(instance, "delete_garbage", {"ops": {"gc_deleted": {"config": {"live_set": id}}}}, {})
    assert "was marked from" in errors(result)
    assert lake.list_files() == before


def test_what_the_first_sweep_decided_stays(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    """All partitions look by the same rules, so one that is launched with others says so, and a dry run is refused."""
    found = run(instance, "find_garbage", config({"max_deletions": 0}))
    tags = {**ALL, LIVE_SET_TAG: metadata(found, "gc_plan")[None][LIVE_SET_TAG]}
    sweep = build().resolve_implicit_global_asset_job_def().get_subset(asset_selection={gc_sweep.key})

    def again(**options: Any) -> dg.ExecuteInProcessResult:
        given = {"ops": {"gc_sweep": config(options)["ops"]["gc_sweep"]}}
        return sweep.execute_in_process(given, instance=instance, tags=tags, raise_on_error=False)

    assert "launch find_garbage, which begins another" in errors(again(dry_run=True))
    assert "expire_on: give expire_snapshots" in errors(again(expire_on="care"))
    other = again(grace_period="P10D")
    assert other.success, errors(other)
    logs = [record.message for record in instance.all_logs(other.run_id)]
    assert any("has begun with other settings" in line for line in logs)
    facts = metadata(other, "gc_sweep")
    dead = {key: fact["files/dead"] for key, fact in metadata(found, "gc_sweep").items()}
    assert {key: fact["files/dead"] for key, fact in facts.items()} == dead


def test_the_runs_of_a_backfill_share_a_live_set(lake: DiskLake, instance: dg.DagsterInstance) -> None:
    """As when the assets are launched together from their graph: each in a run of its own."""
    tags, before = {BACKFILL_ID_TAG: "abc"}, lake.list_files()
    everything = build().resolve_implicit_global_asset_job_def()
    options = config({})["ops"]

    def launch(*assets: dg.AssetsDefinition, **more: str) -> dg.ExecuteInProcessResult:
        job = everything.get_subset(asset_selection={asset.key for asset in assets})
        given = {
            "ops": {name: value for name, value in options.items() if dg.AssetKey(name) in {a.key for a in assets}}
        }
        return job.execute_in_process(given, instance=instance, tags={**tags, **more}, raise_on_error=False)

    first = launch(gc_plan)
    run(instance, "find_garbage", config({}))  # somebody else's, later
    results = [launch(gc_mark, **ALL), launch(gc_sweep, **ALL), launch(gc_deleted)]
    assert all(result.success for result in results), [errors(result) for result in results]
    id = metadata(first, "gc_plan")[None][LIVE_SET_TAG]
    assert metadata(results[-1], "gc_deleted")[None][LIVE_SET_TAG] == id
    assert set(lake.list_files()) < set(before)
