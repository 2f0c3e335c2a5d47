"""A mark reads the same from a server that speaks Nessie's REST API v2 as from the version store itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import ENTRIES, Catalog, Version
from nessie_ops.model import ContentKey, Delete, IcebergTable, Namespace, NewCommit, Put, ReferenceType
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore
from tests.gc.lake import Lake, State
from tests.gc.lakes import Collection
from tests.server.helpers import running_server


def table(n: int) -> IcebergTable:
    return IcebergTable(metadata_location=f"s3://b/t/{n}.json", snapshot_id=n, schema_id=0, spec_id=0, sort_order_id=0)


def fill(versions: VersionStore) -> None:
    """More commits, tables and references than one page holds; names that are quoted in URLs."""
    keys = [ContentKey.of("a.b/c", f"t {n}%") for n in range(ENTRIES + 3)]
    head = versions.get_reference("main").hash

    def commit(branch: str, at: object, *operations: Put | Delete) -> object:
        made = versions.commit(branch, at, NewCommit(message="m", committer="c"), operations)  # type: ignore[arg-type]
        return made.target_branch.hash

    at = commit("main", head, Put(key=ContentKey.of("a.b/c"), content=Namespace(elements=("a.b/c",))))
    at = commit("main", at, *(Put(key=key, content=table(n)) for n, key in enumerate(keys)))
    for n in range(40):
        at = commit("main", at, Delete(key=keys[n]))
    for n in range(5):
        name = f"dev/b-{n}"
        versions.create_reference(ReferenceType.BRANCH, name, at)  # type: ignore[arg-type]
        commit(name, at, Put(key=ContentKey.of("new"), content=table(10_000 + n)))
    versions.create_reference(ReferenceType.TAG, "v1", at)  # type: ignore[arg-type]


def marked(source: Catalog, bound: Bound) -> set[Version]:
    marker = Marker(source)
    references = [Pinned(each.name, each.hash, bound) for each in source.references()]
    assert len(references) == 7
    return {live.put.version for each in references for live in marker.mark(each).live}


@pytest.mark.parametrize("bound", [None, 1, 20])
def test_a_mark_over_http_finds_the_same(tmp_path: Path, bound: Bound) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    versions = VersionStore.open(url)
    fill(versions)
    expected = marked(Catalog(versions), bound)
    versions.close()
    with running_server(url) as base_uri, NessieClient(base_uri) as client:
        assert marked(Catalog(client), bound) == expected


def test_a_lake_is_collected_through_a_server(sets: LiveSets, tmp_path: Path) -> None:
    """Mark, sweep and the look at the references before each batch all go over HTTP."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    lake = Lake()
    lake.versions.close()
    lake.versions = VersionStore.open(url, clock=lambda: lake.now)
    state = lake.append(State(f"{lake.root}/t"), ["one"])
    lake.put("main", "a", state)
    old = lake.versions.get_reference("main").hash
    lake.put("main", "a", lake.append(State(f"{lake.root}/t"), ["two"]))
    junk = lake.write(f"{lake.root}/t/data/junk")
    with running_server(url) as base_uri, NessieClient(base_uri) as client:
        collection = Collection(lake, sets, source=Catalog(client))
        collection.mark("1")
        client.create_reference(ReferenceType.TAG, "rescue", old)
        assert collection.deleted() == {junk}
    assert state.snapshots[-1].files <= set(lake.list_files())
    lake.close()
