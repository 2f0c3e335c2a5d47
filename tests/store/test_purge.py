"""`store purge` deletes all that no reference needs, sooner or later, and nothing else, whatever happens meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.errors import BadRequest, ReferenceNotFound, StoreFormatError, StoreUnavailable
from nessie_ops.model import DETACHED, CommitHash, ContentKey, Merge, NewCommit, ReferenceType
from nessie_ops.store import Kind, Store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning import purge as purging
from nessie_ops.versioning.purge import Purged, purge
from nessie_ops.versioning.references import IMPORT
from tests.store.helpers import execute, faults_of, fill, quiet
from tests.versioning.helpers import commit, head, put, table, update

NONE = timedelta(0)
LATER = timedelta(hours=1)  # so that everything written before is old


def run(store: Store, grace: timedelta = NONE, seed: bytes = b"seed", **options: Any) -> Purged:
    """Purge as it would be an hour from now."""
    sleep: Callable[[float], None] = options.pop("sleep", lambda seconds: None)
    now = datetime.now(UTC) + LATER
    options = {"dry_run": False, "progress": quiet} | options
    return purge(store, now=now, grace=grace, new_seed=lambda: seed, sleep=sleep, **options)


def state(versions: VersionStore) -> Any:
    references = versions.list_references()
    contents = [versions.list_entries(reference.hash, with_content=True) for reference in references]
    return references, contents, [versions.list_log(r.hash, with_operations=True) for r in references]


def count(store: Store) -> tuple[int, ...]:
    return tuple(int(str(execute(store, f'SELECT count(*) FROM "{kind.value.name}"')[0][0])) for kind in Kind)


def drop_branch(versions: VersionStore, name: str = "gone", tables: int = 3) -> CommitHash:
    """A branch that had commits of its own, and is deleted; its last head."""
    versions.create_reference(ReferenceType.BRANCH, name, head(versions))
    for n in range(tables):
        update(versions, f"{name}{n}", n, name)
    return versions.delete_reference(name, None).hash


def test_what_no_reference_needs_goes_and_the_rest_stays(store: Store, versions: VersionStore) -> None:
    fill(versions)
    before, rows = state(versions), count(store)
    drop_branch(versions)
    grown = count(store)
    planned = run(store, dry_run=True)
    assert count(store) == grown
    done = run(store)
    assert done.commits == planned.commits == 3 and done.contents == planned.contents == 3
    assert (done.live_commits, done.nodes, done.data_bytes) == (rows[0], planned.nodes, planned.data_bytes)
    assert count(store) == rows and done.data_bytes > 0
    fresh = VersionStore(Store(store._engine, store.dialect))
    assert state(versions) == state(fresh) == before and faults_of(store) == []
    assert run(store) == Purged(False, rows[0], 0, 0, 0, 0)


def test_everything_goes_when_nothing_is_needed(store: Store, versions: VersionStore) -> None:
    fill(versions)
    versions.assign_reference("main", None, versions.resolve("main~100").hash)
    versions.delete_reference("side", None)
    versions.delete_reference("v1", None)
    run(store)
    assert count(store) == (0, 0, 0) and faults_of(store) == []


def test_a_move_within_the_grace_period_can_be_undone(store: Store, versions: VersionStore) -> None:
    fill(versions, range(30))
    gone = drop_branch(versions)
    rows = count(store)
    assert run(store, timedelta(hours=2)).commits == 0 and count(store) == rows
    versions.create_reference(ReferenceType.BRANCH, "again", gone)
    versions.delete_reference("again", None)
    assert run(store, timedelta(minutes=59)).commits == 3 and faults_of(store) == []
    with pytest.raises(ReferenceNotFound, match="not found"):
        versions.create_reference(ReferenceType.BRANCH, "again", gone)


def test_a_purged_commit_that_is_still_cached_cannot_be_built_on(store: Store, versions: VersionStore) -> None:
    fill(versions, range(30))
    gone = drop_branch(versions)
    request = Merge(from_ref="DETACHED", from_hash=gone, meta=NewCommit(message=""))
    writes: list[Callable[[VersionStore], object]] = [
        lambda versions: versions.create_reference(ReferenceType.TAG, "x", gone),
        lambda versions: versions.assign_reference("side", None, gone),
        lambda versions: versions.merge("main", None, request),
    ]
    servers = [VersionStore(Store(store._engine, store.dialect)) for _ in writes]
    for server in servers:
        server.list_entries(gone, with_content=True)  # all of it is now in the cache of this process
        server.get_merge_base(gone, head(versions))
    run(store)
    for write, server in zip(writes, servers):
        assert server.list_entries(gone, with_content=True)
        with pytest.raises(ReferenceNotFound, match="not found"):
            write(server)
    assert faults_of(store) == []


def test_a_commit_saves_again_what_was_purged_though_it_is_cached(store: Store, versions: VersionStore) -> None:
    fill(versions, range(30))
    at = head(versions)
    commit(versions, put("again", table(1)))
    entry = versions.list_entries(head(versions), with_content=True)
    versions.assign_reference("main", None, at)
    assert run(store).commits == 1
    ids = [str(found.content_id) for found in entry if str(found.name) == "again"]
    again = VersionStore(store, new_id=lambda: ids[0])
    commit(again, put("again", table(1)))  # the same leaf, node and content
    assert faults_of(store) == []


def races() -> list[Callable[[VersionStore, CommitHash], object]]:
    """What somebody may do with an old commit between any two transactions of a purge."""

    def merge(versions: VersionStore, at: CommitHash) -> object:
        return versions.merge("main", None, Merge(from_ref="DETACHED", from_hash=at, meta=NewCommit(message="")))

    def work_and_leave(versions: VersionStore, at: CommitHash) -> object:
        versions.create_reference(ReferenceType.BRANCH, "brief", at)
        update(versions, "brief", 1, "brief")
        return versions.delete_reference("brief", None)

    return [
        lambda versions, at: versions.create_reference(ReferenceType.TAG, "kept", at),
        lambda versions, at: versions.assign_reference("side", None, at),
        merge,
        work_and_leave,
    ]


@pytest.mark.parametrize("race", range(len(races())))
def test_an_old_commit_that_is_used_during_a_purge_stays_whole(
    store: Store, versions: VersionStore, race: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each moment of the purge in turn: either it is too late, and the writer is told, or nothing of it is lost."""
    monkeypatch.setattr(purging, "BATCH", 1)
    fill(versions, range(30))
    outcomes = []
    for moment in range(8):
        branch = VersionStore(store)
        gone = drop_branch(branch, f"gone{moment}", 4)
        at = branch.resolve(f"@{gone}~2").hash
        calls = 0

        def meanwhile(seconds: float, at: CommitHash = at, moment: int = moment) -> None:
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                try:
                    races()[race](versions, at)
                    outcomes.append("kept")
                except ReferenceNotFound:
                    outcomes.append("late")

        run(store, sleep=meanwhile)
        assert faults_of(store) == [], (race, moment)
        for reference in versions.list_references():
            if reference.name in ("kept", "brief"):
                versions.delete_reference(reference.name, None)
    assert "late" in outcomes and "kept" in outcomes


def test_objects_that_are_saved_during_a_purge_stay(store: Store, versions: VersionStore, monkeypatch: Any) -> None:
    """Garbage that a new commit needs again, saved by a clock that is far behind."""
    monkeypatch.setattr(purging, "BATCH", 1)
    fill(versions, range(30))
    at = head(versions)
    ids = ["00000000-0000-0000-0000-000000000001"] * 20
    late = VersionStore(Store(store._engine, store.dialect, clock_ns=lambda: 1), new_id=lambda: ids[0])
    if store._engine.url.database is None:
        late = VersionStore(store, new_id=lambda: ids[0])
    made = 0

    def meanwhile(seconds: float) -> None:
        nonlocal made
        made += 1
        if made % 2:
            commit(late, put("again", table(1)), at=at)

    for _ in range(4):
        commit(late, put("again", table(1)), at=at)
        versions.assign_reference("main", None, at)
        run(store, sleep=meanwhile)
        assert faults_of(store) == []
        versions.assign_reference("main", None, at)


def test_a_filter_that_is_too_small_is_made_larger_and_then_given_up(store: Store, versions: VersionStore) -> None:
    fill(versions)
    seeds = []
    done = purge(
        store,
        now=datetime.now(UTC) + LATER,
        grace=NONE,
        dry_run=False,
        progress=quiet,
        capacity=200,
        new_seed=lambda: seeds.append(1) or bytes(len(seeds)),  # type: ignore[func-returns-value]
        sleep=lambda seconds: None,
    )
    assert done.live_commits and 1 < len(seeds) <= purging.FILTERS and faults_of(store) == []
    with pytest.raises(StoreUnavailable, match="too small"):
        run(store, capacity=3)
    assert faults_of(store) == []


def test_what_the_filter_keeps_by_mistake_goes_with_another_seed(
    store: Store, versions: VersionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "ERROR_RATE", 0.5)
    fill(versions, range(30))
    rows = count(store)
    for n in range(20):
        drop_branch(versions, f"b{n}", 1)
    run(store, capacity=60)
    kept = count(store)
    assert kept[0] == rows[0] and kept[1:] > rows[1:], "commits are marked exactly, the rest is not"
    run(store, capacity=60)
    assert count(store) == kept
    for n in range(100):
        run(store, capacity=60, seed=bytes([n]))
    assert count(store) == rows and faults_of(store) == []


def test_purge_refuses_to_work_amid_an_import(store: Store, versions: VersionStore) -> None:
    with store.write() as tx:
        tx.put_setting(IMPORT, "x")
    with pytest.raises(StoreFormatError, match="import"):
        run(store)
    with pytest.raises(BadRequest, match="grace"):
        run(store, timedelta(-1))


def test_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    versions = VersionStore.open(url)
    fill(versions, range(30))
    drop_branch(versions)
    versions.close()
    app = build_app(lambda **options: None)

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["store", "purge", "--store", url, *words])

    assert invoke().stdout.startswith("deleted 0 commits")
    assert invoke("--grace", "PT0S", "--dry-run").stdout.startswith("would delete 3 commits, ")
    assert json.loads(invoke("--grace", "PT0S", "--json").stdout)["commits"] == 3
    assert isinstance(invoke("--grace", "a week").exception, BadRequest)


def test_what_another_process_purged_is_not_found_though_its_commit_is_in_memory(tmp_path: Path) -> None:
    """A commit and a part of its index may be in a server's memory long after `store purge`."""
    url = f"sqlite:///{tmp_path}/catalog.db"
    with closing(VersionStore.open(url)) as server, closing(VersionStore.open(url)) as other:
        update(server, "t", 0)
        gone = drop_branch(other)
        key = ContentKey.of("gone0")
        request = Merge(from_ref=DETACHED, from_hash=gone, meta=NewCommit(message=""))
        server.get_commit(gone)  # and no more
        run(other.store)
        reads: list[Callable[[], object]] = [
            lambda: server.list_entries(gone),
            lambda: server.get_contents(gone, [key]),
            lambda: server.diff(gone, head(server)),
            lambda: server.merge("main", None, request),
        ]
        for read in reads:
            with pytest.raises(ReferenceNotFound, match="not found"):
                read()
        assert server.list_log(head(server)) == other.list_log(head(other))
