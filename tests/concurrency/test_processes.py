"""Threads and processes on one store: no lost update, no spurious conflict, a conserved total."""

from __future__ import annotations

import multiprocessing
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from nessie_ops.errors import ReferenceConflict
from nessie_ops.model import NewCommit, ReferenceType, with_id
from nessie_ops.store import dialects, tables
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, content_id, head, key, put, table, update

ACCOUNTS, TOTAL = 6, 600


def transfer(url: str, seed: int, times: int) -> int:
    """Move amounts between accounts, two tables in one commit, retrying conflicts; how many conflicts there were."""
    versions = VersionStore.open(url)
    random_ = random.Random(seed)
    conflicts = 0
    for _ in range(times):
        source, target = random_.sample(range(ACCOUNTS), 2)
        while True:
            at = head(versions)
            keys = [key(f"account{source}"), key(f"account{target}")]
            found = versions.get_contents(at, keys)
            assert sum(_balances(versions, at)) == TOTAL, "every commit is a consistent state"
            puts = [
                put(str(name), with_id(table(found[name].snapshot_id + change), str(found[name].id)))  # type: ignore[union-attr]
                for name, change in zip(keys, (-1, 1))
            ]
            try:
                versions.commit("main", at, NewCommit(message=f"{seed}"), puts)
                break
            except ReferenceConflict:
                conflicts += 1
    versions.close()
    return conflicts


def _balances(versions: VersionStore, at: str) -> list[int]:
    entries = versions.list_entries(at, with_content=True)  # type: ignore[arg-type]
    return [entry.content.snapshot_id for entry in entries]  # type: ignore[union-attr]


def test_processes_transfer_and_conserve_the_total(database_url: str) -> None:
    versions = VersionStore.open(database_url)
    commit(versions, *(put(f"account{n}", table(TOTAL // ACCOUNTS)) for n in range(ACCOUNTS)))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(transfer, [(database_url, seed, 25) for seed in range(3)])
    at = head(versions)
    assert sum(_balances(versions, at)) == TOTAL
    assert len(versions.list_log(at)) == 1 + 75, "each transfer is one commit, none lost, none twice"
    versions.close()


def test_writers_of_different_tables_never_conflict(database_url: str) -> None:
    versions = VersionStore.open(database_url)
    start = commit(versions, put("t", table(0)))

    def write(name: int) -> None:
        for n in range(10):
            at = start if n % 2 else head(versions)
            commit(versions, put(f"t{name}-{n}", table(n)), at=at)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    assert len(versions.list_entries(head(versions))) == 81
    versions.close()


def test_one_of_many_racing_updates_wins(database_url: str) -> None:
    versions = VersionStore.open(database_url)
    at = commit(versions, put("t", table(0)))
    id = content_id(versions, "t")
    barrier = threading.Barrier(6)

    def race(n: int) -> bool:
        barrier.wait()
        try:
            commit(versions, put("t", table(n, id)), at=at)
            return True
        except ReferenceConflict:
            return False

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(race, range(1, 7))) == 1
    versions.close()


def test_many_processes_open_a_new_store_at_once(database_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        pool.starmap(_open_and_write, [(database_url, n) for n in range(4)])
    versions = VersionStore.open(database_url)
    assert {r.name for r in versions.list_references()} == {"main", "b0", "b1", "b2", "b3"}
    assert [move.action for move in versions.list_moves(name="main")] == ["CREATED"]
    versions.close()


def _open_and_write(url: str, n: int) -> None:
    versions = VersionStore.open(url)
    versions.create_reference(ReferenceType.BRANCH, f"b{n}", head(versions))
    update(versions, "t", n, f"b{n}")
    versions.close()


def test_a_creation_that_was_cut_short_is_taken_up(database_url: str) -> None:
    """As a kill leaves it where each CREATE TABLE is committed by itself."""
    url, dialect = dialects.parse_url(database_url)
    engine = dialect.open_engine(url, create=True)
    with engine.begin() as connection:
        tables.setting.create(connection)
        tables.commit.create(connection)
    engine.dispose()
    with closing(VersionStore.open(database_url)) as versions:
        assert update(versions, "t", 1)
    with closing(VersionStore.open(database_url)) as again:
        assert [reference.name for reference in again.list_references()] == ["main"]
