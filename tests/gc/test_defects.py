"""What nessie-gc gets wrong about files and places, each under the name of the defect: live files that it loses, dead
ones that it never finds, and tables that end its run."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from nessie_ops.gc.policies import Policies
from nessie_ops.gc.storage import Stores
from nessie_ops.model import ContentKey, Put, ReferenceType
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import _MANIFEST, HOUR, Lake, State, avro
from tests.gc.lakes import Collection, LocalLake


def put(lake: Lake, key: str, place: str, names: Iterable[str] = ("new",), branch: str = "main") -> State:
    """A new table at a place below the lake's root, with one snapshot."""
    location = place if "://" in place or place.startswith("file:") else f"{lake.root}/{place}"
    state = lake.append(State(location), list(names), statistics=True)
    lake.put(branch, key, state)
    return state


def live_files(lake: Lake, *keys: str, branch: str = "main") -> set[str]:
    """All that the tables need now."""
    found = set()
    for key in keys:
        content, state = lake.content(branch, key), lake.state(branch, key)
        assert content is not None and state is not None
        found |= {content.metadata_location, *state.log}.union(*(each.files for each in state.snapshots))
    return found


def rewrite(lake: Lake, key: str, change: dict[str, Any], pack: bool = False) -> str:
    """Change fields of the metadata that a table is at, in place."""
    content = lake.content("main", key)
    assert content is not None
    raw = Stores().of(content.metadata_location).read(content.metadata_location)
    changed = json.dumps(json.loads(raw) | change).encode()
    return lake.write(content.metadata_location, gzip.compress(changed) if pack else changed)


# -- where files lie --------------------------------------------------------------------------


def test_two_contents_at_one_location(lake: Lake, sets: LiveSets) -> None:
    """Each content's sweep deleted the files of the other one."""
    put(lake, "a", "shared")
    put(lake, "b", "shared")
    junk = lake.write(f"{lake.root}/shared/data/junk")
    needed = live_files(lake, "a", "b")
    assert Collection(lake, sets).run() == {junk}
    assert needed <= set(lake.list_files())


def test_two_contents_at_one_location_on_two_branches(lake: Lake, sets: LiveSets) -> None:
    lake.versions.create_reference(ReferenceType.BRANCH, "dev", lake.versions.get_reference("main").hash)
    put(lake, "a", "t")
    put(lake, "a", "t", branch="dev")
    needed = live_files(lake, "a") | live_files(lake, "a", branch="dev")
    assert Collection(lake, sets).run() == set()
    assert needed <= set(lake.list_files())


def test_nested_locations(lake: Lake, sets: LiveSets) -> None:
    put(lake, "outer", "t")
    put(lake, "inner", "t/data/inner")
    junk = {lake.write(f"{lake.root}/{name}") for name in ("t/junk", "t/data/inner/data/junk")}
    collection = Collection(lake, sets)
    collection.mark()
    swept = collection.sweep()
    assert swept.bases.listed == [f"{lake.root}/t"]
    assert set(collection.states()) == junk
    assert live_files(lake, "outer", "inner") <= set(lake.list_files())


@pytest.mark.parametrize(("old", "new"), [("t", "t/child"), ("t/child", "t"), ("t", "elsewhere")])
def test_location_moved_to_parent_or_child(lake: Lake, sets: LiveSets, old: str, new: str) -> None:
    """Paths relative to the old and the new location were taken for each other."""
    state = put(lake, "a", old)
    lake.write(f"{lake.root}/{new}/data/junk")
    moved = lake.append(State(f"{lake.root}/{new}", True, state.snapshots, state.log), ["new"])
    lake.put("main", "a", moved)
    needed = live_files(lake, "a")
    assert Collection(lake, sets).run("NONE") == {f"{lake.root}/{new}/data/junk"}
    assert needed <= set(lake.list_files())


def test_namesakes_below_two_locations(lake: Lake, sets: LiveSets) -> None:
    """A path that is live below one location kept its namesake below another one."""
    state = put(lake, "a", "old")
    lake.put("main", "a", lake.append(State(f"{lake.root}/new", True, state.snapshots), ["new"]))
    data = next(file for file in live_files(lake, "a") if "/old/data/" in file)
    namesake = lake.write(data.replace("/old/", "/new/"))
    assert Collection(lake, sets).run("NONE") == {namesake}


def test_root_of_a_store_as_location(lake: Lake, sets: LiveSets) -> None:
    """Everything in the bucket was listed, and what belongs to no table deleted."""
    put(lake, "a", "memory:///")
    put(lake, "b", "t")
    foreign = lake.write(f"{lake.root}/nobody/knows")
    collection = Collection(lake, sets)
    assert collection.run() == set()
    assert foreign in lake.list_files()
    assert "root of a store" in collection.sweep_refused()["memory:///"]


def test_sibling_prefixes(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "orders")
    lake.write(f"{lake.root}/orders2/data/other")
    junk = lake.write(f"{lake.root}/orders/data/junk")
    assert Collection(lake, sets).run() == {junk}


def test_files_outside_the_location(lake: Lake, sets: LiveSets) -> None:
    """What engines were told to write elsewhere ended the run; it is neither listed nor lost, unless allowed."""
    state = put(lake, "a", "t")
    data = lake.write(f"{lake.root}/objects/0101/live")
    manifest = lake._manifest(state, (data,))
    lake.put("main", "a", lake._with_snapshot(state, {**state.snapshots[-1].manifests, **manifest}, False))
    rewrite(lake, "a", {"properties": {"write.data.path": f"{lake.root}/objects"}})
    outside = lake.write(f"{lake.root}/objects/0101/junk")
    junk = lake.write(f"{lake.root}/t/data/junk")
    collection = Collection(lake, sets)
    assert collection.run("NONE") == {junk}
    assert "not the table's own location" in collection.sweep_refused()[f"{lake.root}/objects"]
    other = Collection(lake, sets, id="allowed")
    assert other.run("NONE", allowed_locations=(lake.root,)) == {outside}
    assert data in lake.list_files()


def test_blanks_and_percent_signs_in_local_paths(local: LocalLake, sets: LiveSets) -> None:
    """A blank ended the run; live files with `%` counted as dead, and dead ones stayed."""
    put(local, "a", "a b/%3A", ["p=x%3A y/part", "ü ?#", "100%"])
    junk = {local.write(f"{local.root}/a b/%3A/data/{name}") for name in ("p=x%3A y/junk", "junk %20", "p=x: y")}
    needed = live_files(local, "a")
    assert Collection(local, sets).run() == junk
    assert set(local.list_files()) == needed


@pytest.mark.parametrize("prefix", ["", "file:", "file://", "file://localhost"])
def test_spellings_of_local_locations(local: LocalLake, sets: LiveSets, prefix: str) -> None:
    put(local, "a", "t")
    rewrite(local, "a", {"location": f"{prefix}{local.folder}//t/"})
    junk = local.write(f"{local.root}/t/data/junk")
    assert Collection(local, sets).run() == {junk}


def test_long_relative_paths(lake: Lake, sets: LiveSets) -> None:
    """More than 250 characters ended the deferred sweep."""
    put(lake, "a", "t")
    junk = lake.write(f"{lake.root}/t/data/" + "/".join(f"partition_{n}=" + "ü" * 40 for n in range(30)) + "/junk")
    collection = Collection(lake, sets)
    assert collection.run(is_deferred=True) == set()
    assert collection.states() == {junk: "pending"}
    collection.delete_deferred()
    assert junk not in lake.list_files()


# -- which files are live ---------------------------------------------------------------------


def test_statistics_files(lake: Lake, sets: LiveSets) -> None:
    """Statistics of tables and of partitions were deleted, since no manifest names them."""
    state = put(lake, "a", "t")
    found = lake.write(f"{lake.root}/t/metadata/partitions.stats")
    rewrite(
        lake,
        "a",
        {"partition-statistics": [{"snapshot-id": state.snapshots[-1].id, "statistics-path": found}]},
    )
    needed = live_files(lake, "a") | {found}
    junk = lake.write(f"{lake.root}/t/metadata/junk.stats")
    for id, only_named in (("all", False), ("named", True)):
        Collection(lake, sets, id=id).run(only_named=only_named)
        assert needed <= set(lake.list_files())
    assert junk not in lake.list_files()


def test_snapshots_of_version_1_with_embedded_manifests(lake: Lake, sets: LiveSets) -> None:
    state = put(lake, "a", "t")
    snapshot = state.snapshots[-1]
    embedded = {"snapshot-id": snapshot.id, "manifests": list(snapshot.manifests)}
    rewrite(lake, "a", {"format-version": 1, "snapshots": [embedded]})
    assert Collection(lake, sets).run() == {snapshot.list_location}


def test_a_negative_snapshot_id_means_the_current_one(lake: Lake, sets: LiveSets) -> None:
    put(lake, "a", "t")
    rewrite(lake, "a", {"current-snapshot-id": lake.needs[_at(lake, "a")].snapshots[-1].id})
    content = lake.content("main", "a")
    assert content is not None
    lake.commit("main", Put(key=ContentKey.of("a"), content=replace(content, snapshot_id=-1)))
    needed = live_files(lake, "a")
    Collection(lake, sets).run(only_named=True)
    assert needed <= set(lake.list_files())


def _at(lake: Lake, key: str) -> str:
    content = lake.content("main", key)
    assert content is not None
    return content.metadata_location


def test_files_of_deleted_entries(lake: Lake, sets: LiveSets) -> None:
    """They are not live for the snapshot that deleted them; another one that the metadata lists may need them."""
    state = put(lake, "a", "t", ["one", "two", "three"])
    removed = lake.delete(state, 1)
    lake.put("main", "a", removed)
    gone = {file for file in state.snapshots[-1].files if "/two-" in file or "/three-" in file}
    assert Collection(lake, sets).run() == set()
    assert gone <= Collection(lake, sets, id="named").run(only_named=True)


def test_deletion_vectors_that_share_a_puffin_file(lake: Lake, sets: LiveSets) -> None:
    """One of two vectors in a file is dropped: the file is live for the other one."""
    state = put(lake, "a", "t")
    puffin = lake.write(f"{lake.root}/t/data/vectors.puffin")
    rows = [
        {"status": status, "data_file": {"content": 1, "file_path": puffin, "file_size_in_bytes": 1}}
        for status in (2, 1, 2)
    ]
    manifest = lake.write(f"{lake.root}/t/metadata/dv.avro", avro(_MANIFEST, rows))
    lake.put("main", "a", lake._with_snapshot(state, {manifest: (puffin,)}, False))
    Collection(lake, sets).run(only_named=True)
    assert {puffin, manifest} <= set(lake.list_files())


@pytest.mark.parametrize("suffix", [".gz.metadata.json", ".metadata.json.gz"])
def test_compressed_metadata(lake: Lake, sets: LiveSets, suffix: str) -> None:
    state = lake.append(State(f"{lake.root}/t"), ["new"])
    location = lake.save(state, None)
    packed = location.replace(".metadata.json", suffix)
    lake.needs[packed] = lake.needs[location]
    lake.put_location("main", "a", packed)
    lake.write(packed, gzip.compress(Stores().of(location).read(location)))
    needed = live_files(lake, "a")
    assert Collection(lake, sets).run() == {location}
    assert needed <= set(lake.list_files())


def test_views(lake: Lake, sets: LiveSets) -> None:
    lake.put("main", "v", State(f"{lake.root}/v", is_table=False))
    first = _at(lake, "v")
    lake.put("main", "v", State(f"{lake.root}/v", is_table=False))
    rewrite(lake, "v", {"versions": [{"version-id": 1}]})
    assert Collection(lake, sets).run() == {first}


def test_patterns_with_alternatives(lake: Lake, sets: LiveSets) -> None:
    """`main|zzz` hit every name that begins with main, so old files of main-2 were deleted."""
    put(lake, "a", "t")
    first = _at(lake, "a")
    lake.versions.create_reference(ReferenceType.BRANCH, "main-2", lake.versions.get_reference("main").hash)
    lake.put("main-2", "a", State(f"{lake.root}/t"))
    lake.put("main", "a", State(f"{lake.root}/t"))
    lake.now += HOUR
    policies = Policies(lake.now, "NONE", (("main|zzz", "1"),))
    assert policies.of("main-2") is None
    collection = Collection(lake, sets)
    collection.mark("NONE", (("main|zzz", "1"),))
    collection.deleted(only_named=True)
    assert first in lake.list_files()


def test_an_overfull_filter_is_rebuilt(lake: Lake, sets: LiveSets) -> None:
    """The content was left out without a word."""
    put(lake, "a", "t", [f"{n}" for n in range(300)])
    junk = {lake.write(f"{lake.root}/t/data/junk-{n}") for n in range(50)}
    needed = live_files(lake, "a")
    filtered = {"is_exact": False, "expected_files": 1, "fpp": 1e-9, "allowed_fpp": 1e-8}
    assert Collection(lake, sets).run(**filtered) == junk
    assert needed <= set(lake.list_files())


def test_a_manifest_of_many_snapshots_is_read_once(lake: Lake, sets: LiveSets) -> None:
    """Reads grew with the square of the appends."""
    put(lake, "a", "t")
    for _ in range(20):
        state = lake.state("main", "a")
        assert state is not None
        lake.put("main", "a", lake.append(state, ["x"]))
    collection = Collection(lake, sets)
    collection.mark("NONE")
    reads = collection.sweep().expansion.reads
    assert {str(kind): count for kind, count in reads.items()} == {"metadata": 21, "manifest list": 21, "manifest": 21}
