"""Transactions in one process: what each level of isolation sees, what it refuses, and how transactions end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest

from nessie_ops.errors import (
    BadRequest,
    ReferenceNotFound,
    TransactionConflict,
    TransactionNotFound,
    TransactionNotOpen,
)
from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    Isolation,
    NewCatalogTransaction,
    NewCommit,
    ReferenceType,
)
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, delete, head, key, namespace, put, table, update

T = TypeVar("T")
LEVELS = list(Isolation)
READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Isolation
OPEN, COMMITTED, ROLLED_BACK, EXPIRED = CatalogTransactionState
STRICT = [REPEATED_READ, SERIALIZABLE]


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class World:
    """A catalog with accounts a and b at 1, and its transactions."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.versions = VersionStore.open(url, clock=self.clock)
        self.transactions = Transactions(self.versions, clock=self.clock)
        commit(self.versions, put("a", table(1)), put("b", table(1)))

    def begin(self, isolation: Isolation = SERIALIZABLE, **more: object) -> CatalogTransaction:
        return self.transactions.begin_transaction(NewCatalogTransaction(isolation=isolation, **more))  # type: ignore[arg-type]

    def read(self, ref: str, *names: str) -> list[int | None]:
        """The snapshots of tables, as a request reads them."""
        keys = [key(name) for name in names]
        found = self._request(lambda: self.versions.get_contents(self.versions.resolve(ref).hash, keys))
        return [getattr(found[each], "snapshot_id", 0) if each in found else None for each in keys]

    def list(self, ref: str, prefix: str = "", *, with_content: bool = False) -> list[str]:
        start = key(prefix) if prefix else None
        rows = self._request(
            lambda: self.versions.list_entries(self.versions.resolve(ref).hash, prefix=start, with_content=with_content)
        )
        return [str(row.name) for row in rows]

    def _request(self, read: Callable[[], T]) -> T:
        """Requests have contexts of their own."""
        return copy_context().run(read)

    def write(self, ref: str, name: str, n: int) -> None:
        self._request(lambda: update(self.versions, name, n, ref))

    def commit(self, transaction: CatalogTransaction, **words: str) -> CatalogTransaction:
        return self.transactions.commit_transaction(transaction.id, **words)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(f"sqlite:///{tmp_path}/catalog.db")
    yield made
    made.versions.close()


@pytest.mark.parametrize("isolation", LEVELS)
def test_what_is_written_becomes_one_commit(world: World, isolation: Isolation) -> None:
    begun = world.begin(isolation, author="ann", message="move")
    before = head(world.versions)
    world.write(begun.branch, "a", 2)
    world.write(begun.branch, "b", 2)
    commit(world.versions, put("c", table(1)), branch=begun.branch)
    assert world.read("main", "a", "b", "c") == [1, 1, None]
    assert world.read(begun.branch, "a", "b", "c") == [2, 2, 1]
    done = world.commit(begun)
    assert done.state is COMMITTED and done.commit_hash == head(world.versions)
    assert world.read("main", "a", "b", "c") == [2, 2, 1]
    [newest, older] = world.versions.list_log(head(world.versions), limit=2)
    assert older.commit_meta.hash == before
    meta = newest.commit_meta
    assert (meta.message, meta.authors) == ("move", ("ann",))
    assert meta.all_properties["nessie_ops.transaction"] == (begun.id,)
    with pytest.raises(ReferenceNotFound):
        world.versions.get_reference(begun.branch)


@pytest.mark.parametrize("isolation", LEVELS)
def test_to_commit_again_is_to_learn_of_it(world: World, isolation: Isolation) -> None:
    begun = world.begin(isolation)
    world.write(begun.branch, "a", 2)
    done = world.commit(begun)
    world.write("main", "a", 3)
    assert world.commit(begun) == done == world.transactions.get_transaction(begun.id)
    with pytest.raises(TransactionNotOpen, match="is COMMITTED since"):
        world.transactions.rollback_transaction(begun.id)


@pytest.mark.parametrize("isolation", LEVELS)
def test_no_update_is_lost(world: World, isolation: Isolation) -> None:
    begun = world.begin(isolation)
    assert world.read(begun.branch, "a") == [1]
    world.write(begun.branch, "a", 2)
    meta = NewCommit(message="pay", authors=("bob",))
    old = world.versions.get_contents(head(world.versions), [key("a")])[key("a")]
    world.versions.commit("main", head(world.versions), meta, [put("a", table(3, str(old.id)))])
    assert world.read(begun.branch, "a") == [2]  # its own, at each level
    before = head(world.versions)
    with pytest.raises(TransactionConflict, match=rf"key 'a'.* by bob in {before[:16]} at 2026-01-01") as caught:
        world.commit(begun)
    assert {str(conflict.key) for conflict in caught.value.conflicts} == {"a"}
    [change] = caught.value.changes
    assert (change.key, change.author, change.commit_hash, change.message) == ("a", "bob", before, "pay")
    assert head(world.versions) == before
    assert world.transactions.rollback_transaction(begun.id).state is ROLLED_BACK
    assert world.read("main", "a") == [3]


@pytest.mark.parametrize("isolation", LEVELS)
def test_what_others_commit_meanwhile_is_seen_or_not(world: World, isolation: Isolation) -> None:
    begun = world.begin(isolation)
    world.write(begun.branch, "a", 2)
    world.write("main", "b", 5)
    assert world.read(begun.branch, "a", "b") == [2, 5 if isolation is READ_COMMITTED else 1]
    world.write("main", "b", 6)
    assert world.read(begun.branch, "b") == [6 if isolation is READ_COMMITTED else 1]
    if isolation is SERIALIZABLE:
        with pytest.raises(TransactionConflict, match="key 'b' was read, and has been changed"):
            world.commit(begun)
    else:
        world.commit(begun)
        assert world.read("main", "a", "b") == [2, 6]


@pytest.mark.parametrize("isolation", LEVELS)
def test_write_skew(world: World, isolation: Isolation) -> None:
    """Each reads both and changes one: only one of them may, if they are to look as if one came after the other."""
    first, second = world.begin(isolation), world.begin(isolation)
    for begun, own in ((first, "a"), (second, "b")):
        assert world.read(begun.branch, "a", "b") == [1, 1]
        world.write(begun.branch, own, 0)
    world.commit(first)
    if isolation is SERIALIZABLE:
        with pytest.raises(TransactionConflict, match="key 'a' was read"):
            world.commit(second)
    else:
        world.commit(second)
        assert world.read("main", "a", "b") == [0, 0]


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_phantom(world: World, isolation: Isolation) -> None:
    commit(world.versions, put("n", namespace("n")), put("n.x", table(1)))
    begun = world.begin(isolation)
    assert world.list(begun.branch, "n") == ["n", "n.x"]
    world.write(begun.branch, "a", 2)
    commit(world.versions, put("n.y", table(1)))
    assert world.list(begun.branch, "n") == (["n", "n.x", "n.y"] if isolation is READ_COMMITTED else ["n", "n.x"])
    if isolation is SERIALIZABLE:
        with pytest.raises(TransactionConflict, match=r"key 'n\.y' was read as absent, and exists now"):
            world.commit(begun)
    else:
        world.commit(begun)


def test_what_a_serializable_one_has_read(world: World) -> None:
    """A listing is about which keys there are, one with contents about their values, a key about itself alone."""
    commit(world.versions, put("n", namespace("n")), put("n.x", table(1)), put("m", table(1)))

    def try_(read: Callable[[str], object], change: Callable[[], object]) -> str:
        begun = world.begin()
        read(begun.branch)
        world.write(begun.branch, "mine", int(world.clock.now.microsecond) + 1)
        change()
        try:
            world.commit(begun)
        except TransactionConflict as error:
            world.transactions.rollback_transaction(begun.id)
            return ", ".join(str(conflict.key) for conflict in error.conflicts)
        return ""

    count = iter(range(100, 200))
    assert try_(lambda ref: world.list(ref, "n"), lambda: world.write("main", "n.x", next(count))) == ""
    assert (
        try_(lambda ref: world.list(ref, "n", with_content=True), lambda: world.write("main", "n.x", next(count)))
        == "n.x"
    )
    assert try_(lambda ref: world.list(ref), lambda: world.write("main", "new", 1)) == "new"
    assert try_(lambda ref: world.list(ref, "n"), lambda: world.write("main", "new2", 1)) == ""
    assert try_(lambda ref: world.read(ref, "n"), lambda: world.write("main", "n.x", next(count))) == ""
    assert try_(lambda ref: world.read(ref, "later"), lambda: world.write("main", "later", 1)) == "later"
    assert try_(lambda ref: world.read(ref, "m"), lambda: commit(world.versions, delete("m"))) == "m"

    def change_and_back() -> None:
        [was] = world.read("main", "a")
        world.write("main", "a", 77)
        world.write("main", "a", was or 0)

    assert try_(lambda ref: world.read(ref, "a"), change_and_back) == ""  # the same value: nobody can tell


def test_reading_elsewhere_is_not_recorded(world: World) -> None:
    begun = world.begin()
    world.read(begun.branch, "a")
    world.read("main", "b")  # after a read through the branch
    world.write(begun.branch, "mine", 1)
    world.write("main", "b", 9)
    world.commit(begun)


def test_a_key_is_recorded_once(world: World) -> None:
    begun = world.begin()
    for _ in range(3):
        world.read(begun.branch, "a", "b")
    with world.versions.store.read() as tx:
        assert len(tx.list_reads(begun.id)) == 2
    world.commit(begun)
    with world.versions.store.read() as tx:
        assert tx.list_reads(begun.id) == []


def test_what_is_remembered_of_reads_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was forgotten is recorded again, and is there once."""
    monkeypatch.setattr("nessie_ops.transactions.recording._MOST", 3)
    begun = [world.begin() for _ in range(3)]
    for _ in range(2):
        for one in begun:
            world.read(one.branch, "a", "b")
    assert sum(map(len, world.transactions._recorder._known.values())) <= 3
    with world.versions.store.read() as tx:
        assert [len(tx.list_reads(one.id)) for one in begun] == [2, 2, 2]


@pytest.mark.parametrize("isolation", LEVELS)
def test_nothing_written_is_no_commit(world: World, isolation: Isolation) -> None:
    before = head(world.versions)
    begun = world.begin(isolation)
    world.read(begun.branch, "a")
    assert world.commit(begun).commit_hash == before == head(world.versions)


def test_read_committed_remembers_what_it_was_overtaken_in(world: World) -> None:
    begun = world.begin(READ_COMMITTED)
    world.write(begun.branch, "a", 2)
    world.write("main", "a", 3)
    world.write("main", "b", 3)
    assert world.read(begun.branch, "a", "b") == [2, 3]
    found = world.transactions.get_transaction(begun.id)
    assert [str(conflict.key) for conflict in found.overtaken] == ["a"] and found.base_hash == head(world.versions)
    world.write("main", "c", 1)
    assert world.read(begun.branch, "c") == [1]
    with pytest.raises(TransactionConflict, match="key 'a'"):
        world.commit(begun)


def test_read_committed_writes_on_what_it_saw_last(world: World) -> None:
    begun = world.begin(READ_COMMITTED)
    world.write("main", "a", 5)
    assert world.read(begun.branch, "a") == [5]
    world.write(begun.branch, "a", 6)
    world.commit(begun)
    assert world.read("main", "a") == [6]


def test_namespaces_in_the_way(world: World) -> None:
    commit(world.versions, put("n", namespace("n")))
    begun = world.begin(REPEATED_READ)
    commit(world.versions, put("n.t", table(1)), branch=begun.branch)
    commit(world.versions, delete("n"))
    with pytest.raises(TransactionConflict, match="namespace 'n' must exist"):
        world.commit(begun)


@pytest.mark.parametrize("isolation", LEVELS)
def test_a_namespace_that_two_create(world: World, isolation: Isolation) -> None:
    """A merge takes one of them; a transaction's commit would lose the other's properties."""
    begun, late = world.begin(isolation), world.begin(isolation)
    for one in (begun, late):
        commit(world.versions, put("n", namespace("n", of=one.id)), branch=one.branch)
    world.commit(begun)
    [own] = world._request(
        lambda: world.versions.list_entries(
            world.versions.resolve(late.branch).hash, prefix=key("n"), with_content=True
        )
    )
    assert own.content.properties == {"of": late.id}
    with pytest.raises(TransactionConflict, match=r"key 'n' .* exists( now)? by somebody in"):
        world.commit(late)


def test_rollback_and_renew(world: World) -> None:
    begun = world.begin(lease_seconds=60)
    world.write(begun.branch, "a", 2)
    assert world.transactions.list_transactions() == [begun]
    done = world.transactions.rollback_transaction(begun.id)
    assert done == world.transactions.rollback_transaction(begun.id)
    assert world.transactions.list_transactions() == []
    assert world.transactions.list_transactions(state=ROLLED_BACK) == [done]
    assert world.read("main", "a") == [1]
    with pytest.raises(TransactionNotOpen, match="ROLLED_BACK"):
        world.commit(begun)
    with pytest.raises(TransactionNotOpen):
        world.transactions.renew_transaction(begun.id, 60)
    with pytest.raises(TransactionNotFound, match="'nobody'"):
        world.transactions.get_transaction("nobody")


def test_a_lease_ends(world: World) -> None:
    short, long, done = world.begin(lease_seconds=60), world.begin(lease_seconds=600), world.begin(lease_seconds=60)
    world.write(short.branch, "a", 2)
    world.commit(done)
    world.clock.pass_(50)
    renewed = world.transactions.renew_transaction(short.id, 60)
    assert renewed.expires_at > short.expires_at
    world.clock.pass_(50)
    assert world.transactions.reap_transactions() == []
    world.clock.pass_(50)
    with pytest.raises(TransactionNotOpen, match=r"lease of transaction .* ended at"):
        world.commit(short)
    with pytest.raises(TransactionNotOpen, match="lease"):
        world.transactions.renew_transaction(short.id, 60)
    assert world.transactions.reap_transactions() == [short.id]
    assert world.transactions.get_transaction(short.id).state is EXPIRED
    assert world.transactions.get_transaction(long.id).state is OPEN
    with pytest.raises(ReferenceNotFound):
        world.versions.get_reference(short.branch)
    assert world.transactions.reap_transactions() == []


def test_a_branch_that_somebody_deleted(world: World) -> None:
    begun = world.begin()
    world.versions.delete_reference(begun.branch, None)
    with pytest.raises(TransactionNotOpen, match="deleted the branch"):
        world.commit(begun)
    assert world.transactions.rollback_transaction(begun.id).state is ROLLED_BACK


def test_bad_input(world: World) -> None:
    with pytest.raises(BadRequest, match="leaseSeconds: 0"):
        world.begin(lease_seconds=0)
    with pytest.raises(BadRequest, match="author: has more than"):
        world.begin(author="x" * 2_000)
    with pytest.raises(ReferenceNotFound, match="nowhere"):
        world.begin(target="nowhere")
    world.versions.create_reference(ReferenceType.TAG, "v1", head(world.versions))
    with pytest.raises(BadRequest, match="must be a branch"):
        world.begin(target="v1")
    with pytest.raises(BadRequest, match="a transaction's own branch"):
        world.begin(target=world.begin().branch)
    with pytest.raises(BadRequest, match="names that begin with txn/"):
        world.versions.create_reference(ReferenceType.BRANCH, "txn/mine", head(world.versions))
