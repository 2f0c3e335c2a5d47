"""No write leaves one content id under two keys of a commit, whatever moved where before."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    Conflict,
    ConflictType,
    KeyMergeMode,
    Merge,
    MergeBehavior,
    NewCommit,
    ReferenceType,
    Transplant,
)
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, content_id, delete, head, key, put, table, update

DROP, FORCE, NORMAL = MergeBehavior.DROP, MergeBehavior.FORCE, MergeBehavior.NORMAL


@pytest.fixture
def forked(versions: VersionStore) -> VersionStore:
    base = commit(versions, put("a", table(1)), put("z", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "f", base)
    return versions


def rename(versions: VersionStore, before: str, after: str, branch: str) -> None:
    content = versions.get_contents(head(versions, branch), [key(before)])[key(before)]
    commit(versions, delete(before), put(after, content), branch=branch)


def merge(versions: VersionStore, default: MergeBehavior = NORMAL, **modes: MergeBehavior) -> tuple[Conflict, ...]:
    """Merge f into main; the conflicts."""
    by_key = tuple(KeyMergeMode(key=key(name), merge_behavior=mode) for name, mode in modes.items())
    request = Merge(from_ref="f", from_hash=head(versions, "f"), meta=NewCommit(message=""), key_modes=by_key)
    request = msgspec.structs.replace(request, default_behavior=default, conflicts_as_result=True)
    result = versions.merge("main", None, request)
    assert result.was_successful is not any(row.conflict for row in result.details)
    return tuple(row.conflict for row in result.details if row.conflict)


def assert_ids_are_unique(versions: VersionStore, branch: str = "main") -> None:
    ids = Counter(entry.content_id for entry in versions.list_entries(head(versions, branch)))
    assert max(ids.values()) == 1


def told(conflicts: tuple[Conflict, ...]) -> list[tuple[ConflictType, str]]:
    return [(conflict.conflict_type, str(conflict.key)) for conflict in conflicts]


def test_a_rename_of_which_only_half_is_taken(forked: VersionStore) -> None:
    rename(forked, "a", "b", "f")
    (conflict,) = merge(forked, a=DROP)
    assert (conflict.conflict_type, conflict.key) == (ConflictType.KEY_CONFLICT, key("b"))
    assert "'a'" in conflict.message
    assert merge(forked, a=DROP, b=DROP) == ()
    assert merge(forked) == ()
    assert_ids_are_unique(forked)


@pytest.mark.parametrize("default", [FORCE, NORMAL])
def test_both_sides_renamed_a_table(forked: VersionStore, default: MergeBehavior) -> None:
    rename(forked, "a", "b", "f")
    rename(forked, "a", "c", "main")
    before = head(forked)
    conflicts = told(merge(forked, default))
    assert (ConflictType.KEY_CONFLICT, "b") in conflicts
    assert head(forked) == before
    assert merge(forked, default, a=DROP, b=DROP) == ()
    assert_ids_are_unique(forked)


def test_the_source_forces_an_update_of_what_the_target_renamed(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    rename(forked, "a", "c", "main")
    assert told(merge(forked, FORCE)) == [(ConflictType.KEY_CONFLICT, "a")]
    assert_ids_are_unique(forked)


def test_what_was_transplanted_and_renamed_then_comes_by_a_merge(forked: VersionStore) -> None:
    added = update(forked, "new", 1, "f")
    forked.transplant("main", None, Transplant(from_ref="f", hashes=(added,), meta=NewCommit(message="")))
    rename(forked, "new", "renamed", "f")
    assert told(merge(forked)) == [(ConflictType.KEY_CONFLICT, "renamed")]
    assert_ids_are_unique(forked)


def test_a_transplant_of_half_a_move(forked: VersionStore) -> None:
    rename(forked, "a", "b", "f")
    rename(forked, "b", "c", "f")
    second = head(forked, "f")
    request = Transplant(
        from_ref="f",
        hashes=(second,),
        meta=NewCommit(message=""),
        default_behavior=FORCE,
        conflicts_as_result=True,
    )
    result = forked.transplant("main", None, request)
    assert told(tuple(row.conflict for row in result.details if row.conflict)) == [(ConflictType.KEY_CONFLICT, "c")]
    first = forked.get_commit(second).parent_commit_hashes[0]
    assert forked.transplant("main", None, msgspec.structs.replace(request, hashes=(first, second))).was_applied
    assert_ids_are_unique(forked)


def test_resolved_content_has_an_id_of_its_own_key(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    expected, foreign = table(1, content_id(forked, "a")), table(9, content_id(forked, "z"))
    mode = KeyMergeMode(key=key("a"), expected_target_content=expected, resolved_content=foreign)
    request = Merge(from_ref="f", from_hash=head(forked, "f"), meta=NewCommit(message=""), key_modes=(mode,))
    with pytest.raises(BadRequest, match="content ID that the key has on neither side"):
        forked.merge("main", None, request)
