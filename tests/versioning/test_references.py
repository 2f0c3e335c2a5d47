"""Branches and tags, their properties, and the log of everything that happens to them."""

from __future__ import annotations

import pytest

from nessie_ops.errors import BadRequest, ReferenceAlreadyExists, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import NO_ANCESTOR, Branch, ReferenceType, Tag
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, head, put, table, update

BRANCH, TAG = ReferenceType.BRANCH, ReferenceType.TAG


def test_a_new_repository_has_an_empty_main(versions: VersionStore) -> None:
    assert versions.list_references() == [Branch("main", NO_ANCESTOR)]
    assert versions.get_info().default_branch == "main"


def test_branches_come_before_tags_each_by_name(versions: VersionStore) -> None:
    at = commit(versions, put("t", table(1)))
    for kind, name in [(TAG, "a"), (BRANCH, "z"), (BRANCH, "run/1"), (BRANCH, "Run/1"), (TAG, "b")]:
        versions.create_reference(kind, name, at)
    assert [r.name for r in versions.list_references()] == ["Run/1", "main", "run/1", "z", "a", "b"]
    assert [r.name for r in versions.list_references(prefix="run/")] == ["run/1"]
    assert [r.name for r in versions.list_references(prefix="Run")] == ["Run/1"]
    assert versions.list_references(prefix="run_") == versions.list_references(prefix="\x00") == []
    assert [r.name for r in versions.list_references(after=(BRANCH, "run/1"), limit=2)] == ["z", "a"]
    assert versions.get_reference("a") == Tag("a", at)


def test_names_share_one_space(versions: VersionStore) -> None:
    versions.create_reference(BRANCH, "x", NO_ANCESTOR)
    with pytest.raises(ReferenceAlreadyExists):
        versions.create_reference(TAG, "x", NO_ANCESTOR)


@pytest.mark.parametrize(
    "name",
    ["", "-", "1x", "x.", "x/", "a..b", "HEAD", "head", "detached", "deadbeef", "DEADBEEF00", "a b", "ü", "a" * 1001],
)
def test_names_that_cannot_be(versions: VersionStore, name: str) -> None:
    with pytest.raises(BadRequest, match="name"):
        versions.create_reference(BRANCH, name, NO_ANCESTOR)


@pytest.mark.parametrize("name", ["deadbee", "a", "run/2013-01_x.y-z", "x" * 600])
def test_names_that_can(versions: VersionStore, name: str) -> None:
    assert versions.create_reference(BRANCH, name, NO_ANCESTOR).name == name


def test_a_reference_to_an_unknown_commit(versions: VersionStore) -> None:
    with pytest.raises(ReferenceNotFound):
        versions.create_reference(BRANCH, "x", "ab" * 32)  # type: ignore[arg-type]


def test_assign_and_delete_expect_the_head(versions: VersionStore) -> None:
    first = commit(versions, put("t", table(1)))
    second = update(versions, "t", 2)
    versions.create_reference(BRANCH, "x", second)
    for move in (
        lambda: versions.assign_reference("x", first, first),
        lambda: versions.delete_reference("x", first),
        lambda: versions.update_properties("x", {}, expected=first),
    ):
        with pytest.raises(ReferenceConflict) as caught:
            move()
        assert [c.conflict_type for c in caught.value.conflicts] == ["UNEXPECTED_HASH"]
    assert versions.assign_reference("x", second, first) == Branch("x", first)
    assert versions.delete_reference("x", first) == Branch("x", first)
    with pytest.raises(ReferenceNotFound):
        versions.get_reference("x")


def test_the_default_branch_stays(versions: VersionStore) -> None:
    with pytest.raises(BadRequest, match="Default branch 'main' cannot be deleted"):
        versions.delete_reference("main", head(versions))


def test_properties(versions: VersionStore) -> None:
    versions.create_reference(BRANCH, "x", NO_ANCESTOR, properties={"run": "1"})
    versions.update_properties("x", {"quarantined": "why", "b": "2"}, ["run"])
    assert versions.get_reference("x").properties == {"quarantined": "why", "b": "2"}
    update(versions, "t", 1, "x")
    assert versions.get_reference("x").properties == {"quarantined": "why", "b": "2"}
    with pytest.raises(BadRequest, match="properties"):
        versions.update_properties("x", {"big": "x" * 20_000})


def test_every_change_is_logged(versions: VersionStore) -> None:
    first = update(versions, "t", 1)
    versions.create_reference(BRANCH, "x", first)
    second = update(versions, "t", 2, "x")
    versions.update_properties("x", {"a": "b"})
    versions.update_properties("x", {"a": "b"})
    versions.assign_reference("x", None, first)
    versions.delete_reference("x", None)
    moves = versions.list_moves(name="x")
    assert [(m.action, m.before, m.after) for m in moves] == [
        ("CREATED", None, first),
        ("COMMITTED", first, second),
        ("PROPERTIES", second, second),
        ("ASSIGNED", second, first),
        ("DELETED", first, None),
    ]
    assert [m.seq for m in moves] == sorted(m.seq for m in moves)
    assert versions.list_moves(after_seq=moves[0].seq, limit=2) == moves[1:3]
    assert [m.action for m in versions.list_moves(newest_first=True, limit=1)] == ["DELETED"]
    assert [m.action for m in versions.list_moves(name="main")] == ["CREATED", "COMMITTED"]
