"""What becomes of a transaction whose target is set back, or changed in ways that a merge alone gets wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.errors import BadRequest, TransactionConflict
from nessie_ops.model import NO_ANCESTOR, Isolation, Merge, NewCommit, Transplant
from tests.transactions.test_transactions import LEVELS, READ_COMMITTED, REPEATED_READ, World
from tests.versioning.helpers import commit, delete, head, key, put


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(f"sqlite:///{tmp_path}/catalog.db")
    yield made
    made.versions.close()


@pytest.mark.parametrize("level", LEVELS)
def test_what_the_target_has_given_up_does_not_come_back(world: World, level: Isolation) -> None:
    before = head(world.versions)
    world.write("main", "a", 2)
    begun = world.begin(level)
    world.write(begun.branch, "c", 5)
    world.versions.assign_reference("main", None, before)
    if level is READ_COMMITTED:
        assert world.read(begun.branch, "a", "b", "c") == [1, 1, 5]
    world.commit(begun)
    assert world.read("main", "a", "b", "c") == [1, 1, 5]


@pytest.mark.parametrize("level", LEVELS)
def test_a_table_that_was_set_back_is_in_conflict(world: World, level: Isolation) -> None:
    before = head(world.versions)
    world.write("main", "a", 2)
    begun = world.begin(level)
    world.write(begun.branch, "a", 3)
    world.versions.assign_reference("main", None, before)
    if level is READ_COMMITTED:
        assert world.read(begun.branch, "a") == [3]
    with pytest.raises(TransactionConflict, match="key 'a'") as caught:
        world.commit(begun)
    assert caught.value.changes == ()  # no commit did it
    assert world.read("main", "a") == [1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_target_that_was_emptied(world: World, level: Isolation) -> None:
    begun = world.begin(level)
    world.write(begun.branch, "c", 5)
    world.versions.assign_reference("main", None, NO_ANCESTOR)
    if level is READ_COMMITTED:
        assert world.read(begun.branch, "a", "c") == [None, 5]
    world.commit(begun)
    assert world.list("main") == ["c"]


def test_a_table_that_the_target_renamed(world: World) -> None:
    """It stays where the transaction wrote it, and all else is taken up."""
    begun = world.begin(READ_COMMITTED)
    world.write(begun.branch, "a", 3)
    a = world.versions.get_contents(head(world.versions), [key("a")])[key("a")]
    commit(world.versions, delete("a"), put("moved", a))
    world.write("main", "b", 7)
    assert world.read(begun.branch, "a", "b", "moved") == [3, 7, None]
    with pytest.raises(TransactionConflict, match="key 'a'"):
        world.commit(begun)


def test_only_commit_merges_a_transaction(world: World) -> None:
    begun = world.begin(REPEATED_READ)
    world.write(begun.branch, "a", 2)
    source = world.versions.resolve(begun.branch).hash
    meta = NewCommit(message="m")
    with pytest.raises(BadRequest, match="its COMMIT merges it"):
        world.versions.merge("main", None, Merge(from_ref=begun.branch, from_hash=source, meta=meta))
    with pytest.raises(BadRequest, match="its COMMIT merges it"):
        world.versions.transplant("main", None, Transplant(from_ref=begun.branch, hashes=(source,), meta=meta))
    world.commit(begun)
    assert world.read("main", "a") == [2]
