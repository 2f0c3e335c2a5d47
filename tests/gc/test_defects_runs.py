"""What nessie-gc gets wrong about runs and time, each under the name of the defect: commits that land meanwhile, other
runs, failures half way, broken tables."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.gc import expire, identify
from nessie_ops.gc.storage import Deleted, LocalFiles, StorageError, Stores
from nessie_ops.gc.sweep import count_candidates
from nessie_ops.model import ReferenceType
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import HOUR, Lake, State
from tests.gc.lakes import Collection, LocalLake
from tests.gc.test_defects import live_files, put, rewrite


def append(lake: Lake, key: str, *, keep_old: bool = False) -> set[str]:
    """One more state of a table, in whose metadata the old snapshots are not; what only the old one needs."""
    before, state = live_files(lake, key), lake.state("main", key)
    assert state is not None
    grown = lake.append(state, ["x"])
    lake.put("main", key, grown if keep_old else State(state.location, True, grown.snapshots[-1:]))
    return before - live_files(lake, key)


# -- broken tables ----------------------------------------------------------------------------


def test_metadata_that_is_gone(lake: Lake, sets: LiveSets) -> None:
    """A version that an earlier run collected is no error; the location that later versions say is listed."""
    put(lake, "a", "t")
    content = lake.content("main", "a")
    assert content is not None
    append(lake, "a", keep_old=True)
    lake.fs.rm(content.metadata_location)
    junk = lake.write(f"{lake.root}/t/data/junk")
    assert Collection(lake, sets).run("NONE") == {junk}


def test_a_location_that_only_earlier_metadata_said(lake: Lake, sets: LiveSets) -> None:
    """Once the metadata that named it was collected, its files were never found again."""
    state = put(lake, "a", "old")
    lake.put("main", "a", lake.append(State(f"{lake.root}/new"), ["x"]))
    assert Collection(lake, sets, id="first").run("NONE") == set()
    for file in state.snapshots[-1].files:
        assert file in lake.list_files()
    first = Collection(lake, sets, id="second").run("1")
    assert state.snapshots[-1].files <= first
    junk = lake.write(f"{lake.root}/old/data/late")
    assert Collection(lake, sets, id="third").run("1") == {junk}


@pytest.mark.parametrize("what", ["metadata", "manifest list", "manifest", "garbage", "encrypted"])
def test_a_broken_table_ended_the_run(lake: Lake, sets: LiveSets, what: str) -> None:
    """It is named, its files and those of whoever shares its location stay, the rest goes on."""
    state = put(lake, "broken", "t")
    put(lake, "shares", "t")
    put(lake, "well", "w")
    content = lake.content("main", "broken")
    assert content is not None
    manifest = next(iter(state.snapshots[-1].manifests))
    if what == "garbage":
        lake.write(manifest, b"Obj\x01 and then nothing")
    elif what == "encrypted":
        lake.write(state.snapshots[-1].list_location, b"AGS1" + bytes(100))
    else:
        lake.fs.rm(
            {"metadata": content.metadata_location, "manifest list": state.snapshots[-1].list_location}.get(
                what, manifest
            )
        )
    lake.write(f"{lake.root}/t/data/junk")
    junk = lake.write(f"{lake.root}/w/data/junk")
    collection = Collection(lake, sets)
    collection.mark()
    before = lake.list_files()
    swept = collection.sweep()
    assert list(swept.expansion.broken) == [str(content.id)]
    assert set(before) - set(lake.list_files()) == {junk}


def test_a_folder_that_cannot_be_listed(local: LocalLake, sets: LiveSets) -> None:
    class Refusing(LocalFiles):
        def list_files(self, base: str):  # type: ignore[no-untyped-def]
            if base.endswith("/a"):
                raise StorageError(f"{base}: Permission denied")
            yield from super().list_files(base)

    put(local, "a", "a")
    put(local, "b", "b")
    local.write(f"{local.root}/a/data/junk")
    junk = local.write(f"{local.root}/b/data/junk")
    collection = Collection(local, sets, stores=Stores({"file": Refusing()}))
    assert collection.run() == {junk}
    assert [listing.place.rpartition("/")[2] for listing in sets.list_listings(1)] == ["b"]


def test_files_that_cannot_be_deleted(local: LocalLake, sets: LiveSets) -> None:
    """They were counted, their names and the reasons lost."""

    class Refusing(LocalFiles):
        is_open = False

        def _delete(self, location: str) -> Deleted:
            if location.endswith("stuck") and not self.is_open:
                return Deleted(location, "failed", "Permission denied")
            return super()._delete(location)

    put(local, "a", "a")
    stuck, junk = (local.write(f"{local.root}/a/data/{name}") for name in ("stuck", "junk"))
    files = Refusing()
    collection = Collection(local, sets, stores=Stores({"file": files}))
    assert collection.run() == {junk}
    failed = next(iter(sets.list_files(1, ["failed"])))
    assert (failed.location, failed.error) == (stuck, "Permission denied")
    files.is_open = True
    assert collection.delete_deferred().files["deleted"] == 1
    assert collection.states() == dict.fromkeys((stuck, junk), "deleted")


# -- time -------------------------------------------------------------------------------------


def test_time_zones(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard was shifted by hours when the sweep ran in another zone than the mark."""
    put(lake, "a", "t")
    old = lake.write(f"{lake.root}/t/data/junk")
    url = f"sqlite:///{tmp_path}/zones.db"
    try:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
        marked = LiveSets.open(url)
        created = Collection(lake, marked).mark().created_at
        marked.close()
        young = lake.now + timedelta(seconds=1)
        lake.now = young
        lake.write(f"{lake.root}/t/data/young")
        monkeypatch.setenv("TZ", "America/New_York")
        time.tzset()
        swept = LiveSets.open(url)
        collection = Collection(lake, swept)
        assert identify.get_live_set(swept, "id").created_at == created
        assert collection.deleted() == {old}
        swept.close()
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_cutoff_in_another_zone(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "t")
    dead = append(lake, "a")
    cutoff = lake.now.astimezone(datetime.strptime("+0900", "%z").tzinfo)
    collection = Collection(lake, sets)
    collection.mark(cutoff.isoformat())
    assert collection.deleted() == dead


def test_files_of_a_commit_that_came_after_the_mark(lake: Lake, sets: LiveSets) -> None:
    """Written before the mark, committed after it: all of them were deleted, and the table could not be read."""
    put(lake, "a", "t")
    state = lake.state("main", "a")
    assert state is not None
    grown = lake.append(state, ["staged"])
    location = lake.save(grown, None)
    junk = lake.write(f"{lake.root}/t/data/junk")
    collection = Collection(lake, sets)
    collection.mark()
    lake.put_location("main", "a", location)
    assert collection.deleted() == {junk}
    assert live_files(lake, "a") <= set(lake.list_files())
    assert set(collection.states().values()) == {"deleted", "kept"}


def test_no_grace(lake: Lake, sets: LiveSets) -> None:
    """Nothing protected what is written but not committed yet; a day does, and only --force makes it less."""
    put(lake, "a", "t")
    lake.write(f"{lake.root}/t/data/staged")
    lake.now += 22 * HOUR
    collection = Collection(lake, sets)
    collection.mark()
    for unsafe in ({"grace": timedelta(0)}, {"max_modified_at": identify.to_micros(lake.now)}):
        with pytest.raises(BadRequest, match="--force"):
            collection.sweep(**{"grace": expire.GRACE} | unsafe | {"is_forced": False})
    assert collection.deleted(grace=expire.GRACE, is_forced=False) == set()
    lake.now += 2 * HOUR
    later = Collection(lake, sets, id="later").run(grace=expire.GRACE, is_forced=False)
    assert later == {f"{lake.root}/t/data/staged"}


def test_an_unreadable_default_cutoff(lake: Lake, sets: LiveSets) -> None:
    """It was parsed only within the walk, and left a failed live set."""
    with pytest.raises(BadRequest, match="default-cutoff"):
        Collection(lake, sets).mark("one")
    assert sets.list_live_sets() == []


# -- what happens meanwhile -------------------------------------------------------------------


def test_a_branch_on_an_old_commit(lake: Lake, sets: LiveSets) -> None:
    """Created after the mark: it shows files that the mark found dead."""
    put(lake, "a", "t")
    old = lake.versions.get_reference("main").hash
    dead = append(lake, "a")
    assert dead
    collection = Collection(lake, sets)
    collection.mark()
    lake.versions.create_reference(ReferenceType.BRANCH, "rescue", old)
    assert collection.deleted() == set()
    assert dead == {name for name, state in collection.states().items() if state == "kept"}


def test_deferred_deletion_checks_nothing(lake: Lake, sets: LiveSets) -> None:
    """Neither liveness nor anything else was looked at again when recorded files were deleted at last."""
    put(lake, "a", "t")
    old = lake.versions.get_reference("main").hash
    dead = append(lake, "a")
    junk = lake.write(f"{lake.root}/t/data/junk")
    collection = Collection(lake, sets)
    assert collection.run(is_deferred=True) == set()
    lake.versions.create_reference(ReferenceType.TAG, "rescue", old)
    outcome = collection.delete_deferred()
    assert (outcome.files["kept"], outcome.files["deleted"]) == (len(dead), 1)
    assert junk not in lake.list_files()
    assert dead <= set(lake.list_files())


def test_two_runs_at_once(local: LocalLake, sets: LiveSets) -> None:
    """Two live sets are swept at the same time: what the other one deleted first is gone, which is no error."""
    put(local, "a", "t")
    append(local, "a")
    for n in range(50):
        local.write(f"{local.root}/t/data/junk-{n}")
    needed = live_files(local, "a")
    collections = [Collection(local, sets, id=id, owner=id) for id in ("one", "two")]
    for collection in collections:
        collection.mark()
    outcomes = []
    threads = [threading.Thread(target=lambda each=each: outcomes.append(each.sweep())) for each in collections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert set(local.list_files()) == needed
    assert all(state in ("deleted", "gone") for each in collections for state in each.states().values())


def test_two_runs_of_one_live_set(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "t")
    collection = Collection(lake, sets)
    record = collection.mark()
    now = collection.context.now()
    assert sets.take(record.number, "other", now, now + 1_000_000)
    with pytest.raises(BadRequest, match="another run works on the live set"):
        collection.sweep()


def test_a_killed_run_stays_in_progress_for_ever(lake: Lake, sets: LiveSets) -> None:
    """Neither it nor a failed one could be taken up."""
    put(lake, "a", "t")
    junk = {lake.write(f"{lake.root}/t/data/junk-{n}") for n in range(3)}
    killed = Collection(lake, sets, owner="killed")
    record = killed.mark()
    now = killed.context.now()
    sets.take(record.number, "killed", now, now + identify.LEASE // timedelta(microseconds=1))
    sets.change(record.number, expected={}, status=identify.EXPIRY_IN_PROGRESS, expiry_started_at=now)
    successor = Collection(lake, sets, owner="successor")
    with pytest.raises(BadRequest, match="another run"):
        successor.sweep()
    lake.now += identify.LEASE + timedelta(seconds=1)
    assert successor.deleted() == junk
    assert identify.get_live_set(sets, "id").status == identify.EXPIRY_SUCCESS


def test_a_dry_run_with_other_settings(lake: Lake, sets: LiveSets) -> None:
    """What a dry run recorded under looser settings is not deleted by a sweep under stricter ones."""
    put(lake, "a", "t")
    append(lake, "a", keep_old=True)
    junk = lake.write(f"{lake.root}/t/data/junk")
    collection = Collection(lake, sets)
    collection.mark()
    tried = collection.sweep(only_named=True, is_dry_run=True)
    assert count_candidates(tried.verdicts)[0] > 1
    assert collection.deleted() == {junk}
    assert live_files(lake, "a") <= set(lake.list_files())


def test_snapshots_that_an_earlier_collector_took(lake: Lake, sets: LiveSets) -> None:
    """nessie-gc deletes the files of snapshots that the metadata goes on to list: such a table is not broken."""
    state = put(lake, "a", "t")
    append(lake, "a", keep_old=True)
    lake.fs.rm(state.snapshots[-1].list_location)
    junk = lake.write(f"{lake.root}/t/data/junk")
    assert junk in Collection(lake, sets).run()
    later = lake.state("main", "a")
    assert later is not None
    assert later.snapshots[-1].files <= set(lake.list_files())


def test_a_branch_on_a_snapshot_that_an_earlier_collector_took(lake: Lake, sets: LiveSets) -> None:
    """What nobody needed when it was first looked for is needed now: then the table is broken."""
    state = put(lake, "a", "t")
    append(lake, "a", keep_old=True)
    lake.fs.rm(state.snapshots[-1].list_location)
    lake.write(f"{lake.root}/t/data/junk")
    collection = Collection(lake, sets)
    record = collection.mark()
    old = lake.versions.list_log(lake.versions.get_reference("main").hash)[1].commit_meta.hash
    recheck = expire.make_recheck(sets, record, collection.source, collection.stores, expire.SweepSettings())
    append(lake, "a", keep_old=True)
    assert recheck.refresh() == []
    lake.versions.create_reference(ReferenceType.BRANCH, "rescue", old)
    assert [broken.location for broken in recheck.refresh()] == [state.snapshots[-1].list_location]


def test_metadata_of_a_head_that_is_rewritten_meanwhile(lake: Lake, sets: LiveSets) -> None:
    """A reference moves to what cannot be read: what may be of that table stays, and the run can be taken up."""
    put(lake, "a", "t")
    put(lake, "c", "u/nested")
    gone = lake.write(f"{lake.root}/t/data/junk")
    junk = lake.write(f"{lake.root}/u/nested/data/junk")
    collection = Collection(lake, sets)
    collection.mark()
    put(lake, "b", "u")
    good = rewrite(lake, "b", {})
    raw = lake.fs.cat_file(good)
    lake.write(good, b"no metadata")
    swept = collection.sweep()
    assert "cannot be read" in swept.stopped
    assert identify.get_live_set(sets, "id").status == identify.EXPIRY_FAILED
    assert gone not in lake.list_files()
    assert collection.states() == {gone: "deleted", junk: "pending"}
    lake.write(good, raw)
    assert collection.deleted() == {junk}


def test_mtime_in_the_future_is_too_young(local: LocalLake, sets: LiveSets) -> None:
    put(local, "a", "t")
    now, local.now = local.now, datetime(2100, 1, 1, tzinfo=UTC)
    local.write(f"{local.root}/t/data/future")
    local.now = now
    assert Collection(local, sets).run() == set()
