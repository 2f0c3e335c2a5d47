"""A mark reads the same from a server that speaks Nessie's REST API v2 as from the version store itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nessie_ops.client import NessieClient
from nessie_ops.errors import ContentNotFound, StoreUnavailable
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import ENTRIES, Catalog, Version
from nessie_ops.model import (
    NO_ANCESTOR,
    CommitHash,
    Content,
    ContentKey,
    Delete,
    Entry,
    IcebergTable,
    LogEntry,
    Namespace,
    NewCommit,
    Put,
    Reference,
    ReferenceType,
    wire,
)
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


class Foreign:
    """A catalog as another server tells it: its page tokens are its own, and it leaves out what it need not say."""

    def __init__(self, versions: VersionStore, *, omits: str = "") -> None:
        self.versions, self.omits = versions, omits

    def list_references(self, *, after: object = None, limit: int, hidden: bool) -> list[Reference]:
        assert after is None and hidden, "our own token; a reference that it must know"
        return self.versions.list_references(limit=limit, hidden=hidden)

    def list_log(self, at: CommitHash, *, limit: int, with_operations: bool) -> list[LogEntry]:
        """With a history that begins at the third commit, as after `cut-history`, or without operations."""
        found = self.versions.list_log(at, limit=limit, with_operations=with_operations)
        if self.omits == "operations":
            return [replace(entry, operations=None) for entry in found]
        whole = self.versions.list_log(self.versions.get_reference("main").hash, limit=10_000)
        first = whole[-3].commit_meta.hash if self.omits == "history" else None
        place = next((n for n, entry in enumerate(found) if entry.commit_meta.hash == first), len(found))
        return [*found[:place], *(replace(entry, parent_commit_hash=NO_ANCESTOR) for entry in found[place : place + 1])]

    def list_entries(self, at: CommitHash, **options: Any) -> list[Entry]:
        found = self.versions.list_entries(at, **options)
        return [replace(row, content=None) for row in found] if self.omits == "contents" else found

    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        return self.versions.get_contents(at, keys)


@pytest.fixture(scope="module")
def filled() -> Iterator[VersionStore]:
    versions = VersionStore.open("sqlite://")
    fill(versions)
    yield versions
    versions.close()


@pytest.mark.parametrize("bound", [None, 20])
@pytest.mark.parametrize("omits", ["", "operations", "contents"])
def test_what_a_server_leaves_out_is_asked_for(filled: VersionStore, omits: str, bound: Bound) -> None:
    """Tables whose contents are not listed, or that commits of unknown operations put, counted as none at all."""
    assert marked(Catalog(Foreign(filled, omits=omits)), bound) == marked(Catalog(filled), bound)


def test_what_was_put_before_a_history_was_cut_off(filled: VersionStore) -> None:
    """Only the oldest commit that is left shows it."""
    missing = marked(Catalog(filled), None) - marked(Catalog(Foreign(filled, omits="history")), None)
    assert {version.snapshot_id for version in missing} == {0}  # dropped by that commit


def test_a_content_that_a_server_does_not_tell_ends_the_mark(filled: VersionStore) -> None:
    class Mute(Foreign):
        def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
            return {}

    with pytest.raises(ContentNotFound, match="but not its content"):
        marked(Catalog(Mute(filled, omits="contents")), 1)


def test_more_references_than_a_page_of_a_server_has(tmp_path: Path) -> None:
    """The server's own tokens are followed; one that has more and gives none is not taken for one that has no more."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    versions = VersionStore.open(url)
    for n in range(ENTRIES + 5):
        versions.create_reference(ReferenceType.TAG, f"t{n}", NO_ANCESTOR)
    versions.close()
    with running_server(url) as base_uri, NessieClient(base_uri) as client:
        assert len({each.name for each in Catalog(client).references()}) == ENTRIES + 6
        page = wire.ReferencePage(references=(), has_more=True, token=None)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "_get", lambda *given: page)
            with pytest.raises(StoreUnavailable, match="more rows"):
                list(Catalog(client).references())
