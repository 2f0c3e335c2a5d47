"""Complexity, guarded by counting rows: at 1e5 tables a commit, a branch, a lookup and a diff stay small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.kernel import fill, key, table
from nessie_ops.model import NewCommit, Put, ReferenceType, with_id
from nessie_ops.store import Cache, Store
from nessie_ops.versioning import VersionStore

TABLES = 100_000


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = f"sqlite:///{tmp_path_factory.mktemp('large')}/catalog.db"
    store = Store.open(made)
    fill(VersionStore(store), TABLES)
    store.close()
    return made


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    """The large store with cold, empty caches and counters at zero."""
    opened = Store.open(url, cache=Cache())
    yield opened
    opened.close()


def update(versions: VersionStore, n: int, state: int) -> str:
    head = versions.get_reference("main").hash
    id = str(versions.get_contents(head, [key(n)])[key(n)].id)
    put = Put(key(n), with_id(table(state), id))
    return versions.commit("main", head, NewCommit(message="update"), [put]).target_branch.hash


def test_a_commit_of_one_key_writes_at_most_six_nodes(store: Store) -> None:
    versions = VersionStore(store)
    for n in range(0, TABLES, 9_973):
        store.writes.clear()
        update(versions, n, TABLES + n)
        assert store.writes["node"] <= 6
        assert (store.writes["commit"], store.writes["content"]) == (1, 1)
        assert (store.writes["reference"], store.writes["reference_log"]) == (1, 1)


def test_a_branch_is_one_row_and_one_log_row(store: Store) -> None:
    versions = VersionStore(store)
    head = versions.get_reference("main").hash
    store.writes.clear()
    store.reads.clear()
    versions.create_reference(ReferenceType.BRANCH, "x", head)
    assert dict(store.writes) == {"reference": 1, "reference_log": 1}
    assert store.reads["node"] == 0


def test_a_lookup_reads_at_most_four_nodes_once(store: Store) -> None:
    versions = VersionStore(store)
    head = versions.get_reference("main").hash
    assert key(4711) in versions.get_contents(head, [key(4711)])
    assert 1 <= store.reads["node"] <= 4
    store.reads.clear()
    assert key(4711) in versions.get_contents(head, [key(4711)])
    assert store.reads.total() == 0


def test_a_diff_reads_in_proportion_to_what_differs(store: Store) -> None:
    versions = VersionStore(store)
    before = versions.get_reference("main").hash
    changed = [n * 9_001 for n in range(10)]
    for n in changed:
        after = update(versions, n, 2 * TABLES + n)
    store.close()
    cold = Store.open(str(store._engine.url), cache=Cache())
    rows = VersionStore(cold).diff(before, after)  # type: ignore[arg-type]
    assert [row.key for row in rows] == sorted(key(n) for n in changed)
    depth = 4
    assert cold.reads["node"] <= 2 * depth * len(changed)
    cold.close()


def test_a_page_of_entries_reads_a_page_of_leaves(store: Store) -> None:
    versions = VersionStore(store)
    head = versions.get_reference("main").hash
    entries = versions.list_entries(head, first=key(50_000), limit=100)
    assert [entry.name for entry in entries] == [key(n) for n in range(50_000, 50_100)]
    assert store.reads["node"] <= 10
