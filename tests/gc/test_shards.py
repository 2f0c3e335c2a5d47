"""A collection in shards finds what one without finds, whatever fails between them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from nessie_ops.gc import expire
from nessie_ops.gc import identify as runs
from nessie_ops.gc.expire import Hooks, SweepSettings
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.shards import Shard
from nessie_ops.gc.source import Catalog, Commit
from nessie_ops.gc.storage import Stores
from nessie_ops.model import CommitHash, ReferenceType
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning.versionstore import VersionStore
from tests.gc.disk import DiskLake, small_lake

PARTS = 8
SHARDS = [Shard(number, PARTS) for number in range(PARTS)]


class ConnectionLost(Exception):
    """What ends a walk in a test."""


class Unsteady(Catalog):
    """A catalog that once cannot say what commit comes at `lost`."""

    def __init__(self, versions: VersionStore, lost: CommitHash | None = None) -> None:
        super().__init__(versions)
        self._lost = lost

    def line(self, at: CommitHash) -> Iterator[Commit]:
        for commit in super().line(at):
            if commit.hash == self._lost:
                self._lost = None
                raise ConnectionLost
            yield commit


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DiskLake]:
    with small_lake(tmp_path) as lake:
        yield lake


@pytest.fixture
def sets() -> Iterator[LiveSets]:
    opened = LiveSets.open("sqlite://")
    yield opened
    opened.close()


def context_of(lake: DiskLake) -> Context:
    return Context(lambda: lake.now, "me", lambda step, count: None)


def begin(lake: DiskLake, sets: LiveSets, source: Catalog, id: str, default: str = "NONE") -> int:
    return runs.begin(sets, source, id, MarkSettings("test", Policies(lake.now, default)), context_of(lake)).number


def shard_of(name: str) -> Shard:
    [found] = [shard for shard in SHARDS if shard.holds(name)]  # in one, and no other
    return found


def versions_of(sets: LiveSets, number: int) -> set[tuple[str, str, int]]:
    return {(row.content_id, row.metadata_location, row.snapshot_id) for row in sets.list_versions(number)}


def log_of(lake: DiskLake) -> list[CommitHash]:
    head = lake.versions.get_reference("main").hash
    return [entry.commit_meta.hash for entry in lake.versions.list_log(head, limit=100)]


def test_a_walk_that_failed_hides_nothing_from_the_others(lake: DiskLake, sets: LiveSets) -> None:
    newest = log_of(lake)
    middle = len(newest) // 2
    other = next(name for name in ("b", "c", "d", "e") if shard_of(name) != shard_of("main"))
    lake.versions.create_reference(ReferenceType.BRANCH, other, newest[middle - 1])
    source, context = Unsteady(lake.versions, lost=newest[middle]), context_of(lake)
    whole, sharded = begin(lake, sets, source, "whole"), begin(lake, sets, source, "sharded")
    with pytest.raises(ConnectionLost):
        runs.identify(sets, source, "sharded", context, [shard_of("main"), shard_of(other)])
    assert {row.name: row.is_done for row in sets.list_references(sharded)} == {"main": 0, other: 1}
    assert runs.get_live_set(sets, "sharded").status == runs.IDENTIFY_FAILED
    done = runs.identify(sets, source, "sharded", context, [shard_of("main")])
    runs.identify(sets, source, "whole", context)
    assert done.status == runs.IDENTIFY_SUCCESS
    assert versions_of(sets, sharded) == versions_of(sets, whole)


def test_each_commit_is_fetched_once_over_all_shards(lake: DiskLake, sets: LiveSets) -> None:
    commits = log_of(lake)
    for number, hash in enumerate(commits):
        lake.versions.create_reference(ReferenceType.TAG, f"tag{number}", hash)
    source = Catalog(lake.versions)
    number = begin(lake, sets, source, "id")
    runs.identify(sets, source, "id", context_of(lake), SHARDS)
    assert sum(row.commits for row in sets.list_references(number)) == len(commits)


def test_nothing_is_deleted_until_all_shards_are_listed(lake: DiskLake, sets: LiveSets) -> None:
    before = set(lake.list_files())
    lake.now += timedelta(days=2)
    source, context = Catalog(lake.versions), context_of(lake)
    begin(lake, sets, source, "id", "1")
    runs.identify(sets, source, "id", context)
    settings = SweepSettings(max_share=1.0)
    base = f"{lake.root}/a"
    parts = next(
        count for count in range(2, 100) if Shard(0, count).holds(base) != Shard(0, count).holds(f"{lake.root}/b")
    )
    first = next(shard for shard in (Shard(number, parts) for number in range(parts)) if shard.holds(base))
    part = expire.sweep(sets, "id", source, Stores(), settings, context, Hooks(shards=[first]))
    assert part.stopped == "1 folders, of other shards, are still to be listed."
    assert part.record.status == runs.EXPIRY_FAILED
    assert set(lake.list_files()) == before
    whole = expire.sweep(sets, "id", source, Stores(), settings, context, Hooks(shards=SHARDS))
    assert whole.record.status == runs.EXPIRY_SUCCESS
    assert len(set(lake.list_files())) < len(before)
