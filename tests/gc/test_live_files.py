"""No live file is deleted: what stores, tables, runs and catalogs may do that makes one look dead."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from nessie_ops.gc import ageing, expire, identify
from nessie_ops.gc.identify import MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.storage import OtherFiles, StorageError, Stores
from nessie_ops.model import UDF, ContentKey, Put
from nessie_ops.store.livesets import BaseRecord, LiveSets
from tests.gc.lake import HOUR, Lake, State
from tests.gc.lakes import Collection
from tests.gc.test_defects import live_files, put, rewrite


class Forgetful(OtherFiles):
    """A store that cannot find some files for so many reads, or for ever, though they are there."""

    def __init__(self, times: int, *names: str) -> None:
        super().__init__("memory")
        self.left = dict.fromkeys(names, times)

    def read(self, location: str) -> bytes:
        if self.left.get(location, 0):
            self.left[location] -= 1
            raise FileNotFoundError(location)
        return super().read(location)


def head_of(lake: Lake, key: str) -> str:
    content = lake.content("main", key)
    assert content is not None
    return content.metadata_location


@pytest.mark.parametrize("times", [1, 2, 100])
@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest"])
def test_what_a_store_cannot_find_for_a_moment(lake: Lake, sets: LiveSets, times: int, kind: str) -> None:
    """A head's object counted as collected by an earlier run when it was there again at the second look."""
    state = put(lake, "a", "t")
    put(lake, "b", "u")
    snapshot = state.snapshots[-1]
    names = {"metadata": head_of(lake, "a"), "manifest list": snapshot.list_location}
    files = Forgetful(times, names.get(kind, next(iter(snapshot.manifests))))
    lake.write(f"{lake.root}/t/data/junk")
    junk = lake.write(f"{lake.root}/u/data/junk")
    before = set(lake.list_files())
    swept = Collection(lake, sets, stores=Stores({"memory": files})).sweep_all()
    assert [row.why for row in swept.expansion.broken.values()] == [
        "StorageError: could not be found at first, and is there"
    ]
    assert before - set(lake.list_files()) == {junk}


def test_an_old_version_that_a_store_cannot_find_for_a_moment(lake: Lake, sets: LiveSets) -> None:
    """No head shows it, so that it counted as collected by an earlier run."""
    put(lake, "a", "t")
    files = Forgetful(1, head_of(lake, "a"))
    lake.put("main", "a", lake.append(State(f"{lake.root}/t"), ["x"]))
    before = set(lake.list_files())
    swept = Collection(lake, sets, stores=Stores({"memory": files})).sweep_all("NONE")
    assert len(swept.expansion.broken) == 1
    assert set(lake.list_files()) == before


def test_a_store_that_cannot_say_whether_an_object_is_gone(lake: Lake, sets: LiveSets) -> None:
    class Unsure(Forgetful):
        def is_gone(self, location: str) -> bool:
            raise StorageError(f"{location}: 503")

    put(lake, "a", "t")
    lake.write(f"{lake.root}/t/data/junk")
    before = set(lake.list_files())
    swept = Collection(lake, sets, stores=Stores({"memory": Unsure(1, head_of(lake, "a"))})).sweep_all()
    assert "503" in next(iter(swept.expansion.broken.values())).why
    assert set(lake.list_files()) == before


def test_what_can_be_read_again_when_a_run_is_taken_up(lake: Lake, sets: LiveSets) -> None:
    """Files that were recorded as dead, and that the next run of the same live set finds live."""
    put(lake, "a", "t")
    first = head_of(lake, "a")
    needed = live_files(lake, "a")
    lake.put("main", "a", lake.append(State(f"{lake.root}/t"), ["x"]))
    lake.now += 30 * HOUR
    raw = lake.fs.cat_file(first)
    lake.fs.rm(first)
    collection = Collection(lake, sets)
    swept = collection.sweep_all("NONE", max_files=0, is_forced=False, grace=expire.GRACE)
    assert "--force" in swept.stopped
    assert needed - {first} == set(collection.states())
    lake.write(first, raw)
    collection.sweep(grace=expire.GRACE)
    assert needed <= set(lake.list_files())
    assert set(collection.states().values()) == {"kept"}


# -- where files lie --------------------------------------------------------------------------


def hide(lake: Lake, key: str, place: str) -> str:
    """Commit a table anew whose metadata lies apart and is damaged; its location."""
    state = put(lake, key, place)
    apart = lake.write(f"{lake.root}/apart/{key}.json", lake.fs.cat_file(head_of(lake, key)))
    lake.needs[apart] = state
    lake.put_location("main", key, apart)
    return apart


def test_a_broken_table_whose_location_nothing_tells(lake: Lake, sets: LiveSets) -> None:
    """Another table has the same one, so its folder is listed: as long as nothing tells, all of the store stays."""
    apart = hide(lake, "a", "t")
    put(lake, "b", "t")
    put(lake, "c", "u")
    raw = lake.fs.cat_file(apart)
    lake.write(apart, b"no metadata")
    junk = [lake.write(f"{lake.root}/{place}/data/junk") for place in ("t", "u")]
    before = set(lake.list_files())
    swept = Collection(lake, sets).sweep_all()
    assert len(swept.expansion.broken) == 1
    assert set(lake.list_files()) == before
    lake.write(apart, raw)
    Collection(lake, sets, id="whole").sweep_all()
    assert not set(junk) & set(lake.list_files())
    junk = [lake.write(f"{lake.root}/{place}/data/junk") for place in ("t", "u")]
    lake.write(apart, b"no metadata again")
    before = set(lake.list_files())
    Collection(lake, sets, id="remembered").sweep_all()
    assert before - set(lake.list_files()) == {junk[1]}


def test_a_broken_table_whose_files_lie_at_an_earlier_location(lake: Lake, sets: LiveSets) -> None:
    """Its manifest there cannot be read, and the folder is another table's by now."""
    state = put(lake, "a", "old")
    lake.put("main", "a", lake.append(State(f"{lake.root}/new", True, state.snapshots), ["x"]))
    put(lake, "b", "old")
    lake.write(next(iter(state.snapshots[-1].manifests)), b"no manifest")
    before = set(lake.list_files())
    swept = Collection(lake, sets).sweep_all()
    assert len(swept.expansion.broken) == 1
    assert set(lake.list_files()) == before


def test_a_folder_that_was_allowed_once(lake: Lake, sets: LiveSets) -> None:
    """It was remembered as if it were the table's own, and listed by runs that did not allow it."""
    put(lake, "a", "t")
    rewrite(lake, "a", {"properties": {"write.data.path": f"{lake.root}/objects", "odd": 1}})
    first = lake.write(f"{lake.root}/objects/junk")
    assert Collection(lake, sets).run(allowed_locations=(lake.root,)) == {first}
    lake.write(f"{lake.root}/objects/junk")
    assert Collection(lake, sets, id="later").run() == set()


def test_bases_of_a_dry_run_are_forgotten(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "t")
    collection = Collection(lake, sets)
    record = collection.mark()
    collection.sweep(is_dry_run=True)
    assert sets.list_bases(record.number) == []


def test_a_clone_of_a_catalog_has_tables_of_the_same_ids(lake: Lake, sets: LiveSets) -> None:
    """Where the other one's tables lie is not remembered for this one."""
    put(lake, "a", "t")
    content = lake.content("main", "a")
    assert content is not None
    identify.begin(
        sets,
        Collection(lake, sets).source,
        "clone",
        MarkSettings("clone", Policies(lake.now)),
        Collection(lake, sets).context,
    )
    sets.add_bases(1, [BaseRecord(str(content.id), f"{lake.root}/clone")])
    theirs = lake.write(f"{lake.root}/clone/data/x")
    Collection(lake, sets).run()
    assert theirs in lake.list_files()


def test_each_catalog_keeps_its_newest_live_set(lake: Lake, sets: LiveSets) -> None:
    for source in ("one", "two", "two"):
        settings = MarkSettings(source, Policies(lake.now))
        id = f"{source}-{len(sets.list_live_sets())}"
        record = identify.begin(sets, Collection(lake, sets).source, id, settings, Collection(lake, sets).context)
        sets.change(record.number, expected={}, status=identify.EXPIRY_SUCCESS)
        lake.now += HOUR
    lake.now += timedelta(days=100)
    assert ageing.age_out(sets, ageing.KEEP, Collection(lake, sets).context) == ["two-1"]


# -- what else a catalog has ------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [{"location": "t/f"}, {"uuid": "x"}])
def test_metadata_of_functions(lake: Lake, sets: LiveSets, metadata: dict[str, Any]) -> None:
    """A function's metadata may lie in a table's folder; it need not say where it lies itself."""
    put(lake, "a", "t")
    if "location" in metadata:
        metadata = {"location": f"{lake.root}/t/f"}
    location = lake.write(f"{lake.root}/t/f/metadata/1.json", json.dumps(metadata).encode())
    lake.commit("main", Put(key=ContentKey.of("f"), content=UDF(metadata_location=location, version_id="1")))
    junk = lake.write(f"{lake.root}/t/f/junk")
    assert Collection(lake, sets).run() == {junk}


def test_a_table_whose_metadata_has_no_location_is_broken(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "t")
    rewrite(lake, "a", {"location": None})
    lake.write(f"{lake.root}/t/data/junk")
    before = set(lake.list_files())
    swept = Collection(lake, sets).sweep_all()
    assert [row.why for row in swept.expansion.broken.values()] == ["DamagedFile: has no location"]
    assert set(lake.list_files()) == before
