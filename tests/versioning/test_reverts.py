"""Reverts of commits and of single keys: one new commit, decided by value, with the old content ids."""

from __future__ import annotations

import pytest

from nessie_ops.errors import BadRequest, Forbidden, MergeConflict, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import NO_ANCESTOR, CommitHash, Merge, MergeResult, NewCommit, ReferenceType
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import (
    commit,
    conflicts_of,
    content_id,
    delete,
    head,
    key,
    namespace,
    put,
    table,
    unchanged,
    update,
    view,
)


@pytest.fixture
def filled(versions: VersionStore) -> VersionStore:
    commit(versions, put("a", table(1)), put("b", table(1)), put("c", table(1)))
    return versions


def state(versions: VersionStore, branch: str = "main") -> dict[str, object]:
    entries = versions.list_entries(head(versions, branch), with_content=True)
    return {str(entry.name): getattr(entry.content, "snapshot_id", entry.type) for entry in entries}


def ids(versions: VersionStore) -> dict[str, str]:
    return {str(entry.name): entry.content_id for entry in versions.list_entries(head(versions))}


def revert(versions: VersionStore, commit: CommitHash, **options: bool) -> MergeResult:
    return versions.revert("main", None, commit, **options)  # type: ignore[arg-type]


def test_a_revert_is_one_commit_that_restores_values_and_ids(filled: VersionStore) -> None:
    before, old = state(filled), ids(filled)
    a = filled.get_contents(head(filled), [key("a")])[key("a")]
    undone = commit(
        filled,
        delete("a"),
        put("renamed", a),
        put("b", table(2, old["b"])),
        delete("c"),
        put("c", view(1)),
        put("new", table(1)),
    )
    last = update(filled, "other", 1)
    result = filled.revert("main", undone, undone, meta=NewCommit(message="", authors=("ann",)))
    assert (result.was_applied, result.was_successful, result.common_ancestor) == (True, True, None)
    assert (result.resultant_target_hash, result.effective_target_hash) == (head(filled), last)
    assert result.expected_hash == undone
    assert [str(row.key) for row in result.details] == ["a", "b", "c", "new", "renamed"]
    assert state(filled) == before | {"other": 1}
    assert ids(filled).items() >= old.items()
    meta = filled.get_commit(head(filled))
    assert (meta.message, meta.authors) == (f"Reverted {undone}: m", ("ann",))
    assert meta.parent_commit_hashes == (last,)
    (move,) = filled.list_moves(name="main", newest_first=True, limit=1)
    assert (move.action, move.before, move.after) == ("REVERTED", last, head(filled))


def test_the_revert_of_a_revert(filled: VersionStore) -> None:
    update(filled, "a", 2)
    after = state(filled)
    revert(filled, head(filled))
    assert state(filled)["a"] == 1
    revert(filled, head(filled))
    assert state(filled) == after


def test_a_key_that_changed_since_is_a_conflict(filled: VersionStore) -> None:
    undone = commit(filled, put("a", table(2, ids(filled)["a"])), put("b", table(2, ids(filled)["b"])), delete("c"))
    update(filled, "a", 3)
    before = commit(filled, put("c", table(7)))
    conflicts = [("VALUE_DIFFERS", "a"), ("KEY_EXISTS", "c")]
    assert conflicts_of(lambda: revert(filled, undone)) == conflicts
    with pytest.raises(MergeConflict, match=r"changed in conflict: 'a', 'c'$"):
        revert(filled, undone, dry_run=True)
    result = revert(filled, undone, conflicts_as_result=True)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, False, None)
    assert head(filled) == before
    update(filled, "a", 2)
    commit(filled, delete("c"))
    assert revert(filled, undone).was_applied, "by value: all keys are as the commit left them"
    assert state(filled) == {"a": 1, "b": 1, "c": 1}


def test_what_is_put_back_already_is_a_conflict(filled: VersionStore) -> None:
    undone = update(filled, "a", 2)
    revert(filled, undone)
    assert conflicts_of(lambda: revert(filled, undone)) == [("VALUE_DIFFERS", "a")]


def test_a_merge_is_undone_against_its_direct_parent(filled: VersionStore) -> None:
    filled.create_reference(ReferenceType.BRANCH, "f", head(filled))
    update(filled, "b", 5)
    before = state(filled)
    inner = update(filled, "a", 2, "f")
    update(filled, "new", 1, "f")
    request = Merge(from_ref="f", from_hash=head(filled, "f"), meta=NewCommit(message=""))
    filled.merge("main", None, request)
    merged = head(filled)
    revert(filled, merged)
    assert state(filled) == before
    revert(filled, head(filled))
    revert(filled, inner)
    assert state(filled) == before | {"new": 1}, "a commit that came by a merge can be undone alone"


def test_dry_runs_and_nothing_to_do(filled: VersionStore) -> None:
    undone = update(filled, "a", 2)
    result = revert(filled, undone, dry_run=True)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, None)
    empty = commit(filled, unchanged("a"))
    for dry_run in (False, True):
        result = revert(filled, empty, dry_run=dry_run)
        assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, empty)
    assert head(filled) == empty


def test_namespaces_are_guarded(filled: VersionStore) -> None:
    made = commit(filled, put("n", namespace("n")))
    commit(filled, put("n.t", table(1)))
    assert conflicts_of(lambda: revert(filled, made, conflicts_as_result=True)) == [("NAMESPACE_NOT_EMPTY", "n")]
    dropped = commit(filled, delete("n.t"))
    commit(filled, delete("n"))
    with pytest.raises(ReferenceConflict):
        revert(filled, dropped)


def test_a_content_that_lives_elsewhere_by_now_does_not_come_back(filled: VersionStore) -> None:
    at, a = head(filled), filled.get_contents(head(filled), [key("a")])[key("a")]
    commit(filled, delete("a"), put("moved", a))
    before = head(filled)
    conflicts = [("KEY_CONFLICT", "a")]
    assert conflicts_of(lambda: filled.revert_contents("main", None, [key("a")], at)) == conflicts
    assert head(filled) == before
    both = [key("a"), key("moved")]
    assert filled.revert_contents("main", None, both, at, allow_deletes=True).was_applied
    assert sorted(ids(filled)) == ["a", "b", "c"]


def test_only_commits_of_the_history_can_be_undone(filled: VersionStore) -> None:
    filled.create_reference(ReferenceType.BRANCH, "f", head(filled))
    elsewhere = update(filled, "a", 2, "f")
    for wrong in (elsewhere, NO_ANCESTOR, CommitHash("ab" * 32)):
        with pytest.raises(ReferenceNotFound):
            revert(filled, wrong)
    with pytest.raises(ReferenceNotFound, match="Could not find commit"):
        filled.revert("main", elsewhere, head(filled))
    filled.create_reference(ReferenceType.TAG, "v1", head(filled))
    with pytest.raises(BadRequest, match="must be a branch"):
        filled.revert("v1", None, head(filled))


def test_the_first_commit_can_be_undone(filled: VersionStore) -> None:
    revert(filled, head(filled))
    assert state(filled) == {}


def test_single_keys_go_back_to_an_older_state(filled: VersionStore) -> None:
    at, old = head(filled), ids(filled)
    update(filled, "a", 2)
    commit(filled, delete("b"))
    update(filled, "c", 2)
    keys = [key("b"), key("a"), key("a")]
    result = filled.revert_contents("main", head(filled), keys, at)
    assert result.was_applied and [str(row.key) for row in result.details] == ["a", "b"]
    assert (state(filled), ids(filled)) == ({"a": 1, "b": 1, "c": 2}, old)
    assert filled.get_commit(head(filled)).message == f"Reverted 'a', 'b' to the state at {at}"
    assert filled.list_moves(name="main", newest_first=True, limit=1)[0].action == "REVERTED"
    again = filled.revert_contents("main", None, keys, at)
    assert (again.was_applied, again.resultant_target_hash) == (False, head(filled))


def test_a_key_that_the_caller_has_not_seen_is_a_conflict(filled: VersionStore) -> None:
    at = head(filled)
    seen = update(filled, "a", 2)
    update(filled, "a", 3)
    assert conflicts_of(lambda: filled.revert_contents("main", seen, [key("a")], at)) == [("VALUE_DIFFERS", "a")]
    update(filled, "a", 2)
    assert filled.revert_contents("main", seen, [key("a")], at, dry_run=True).resultant_target_hash is None
    assert filled.revert_contents("main", seen, [key("a")], at).was_applied


def test_deletes_must_be_allowed(filled: VersionStore) -> None:
    at = head(filled)
    update(filled, "new", 1)
    wanted = [key("new"), key("a")]
    with pytest.raises(BadRequest, match="'new' did not exist"):
        filled.revert_contents("main", None, wanted, at)
    assert filled.revert_contents("main", None, wanted, at, allow_deletes=True).was_applied
    assert "new" not in state(filled)
    assert filled.revert_contents("main", None, [key("a")], NO_ANCESTOR, allow_deletes=True).was_applied
    with pytest.raises(BadRequest, match="keys: 0 keys"):
        filled.revert_contents("main", None, [], at)


def test_a_state_from_a_branch_in_quarantine_is_refused(filled: VersionStore) -> None:
    filled.create_reference(ReferenceType.BRANCH, "f", head(filled))
    bad = update(filled, "a", 2, "f")
    filled.update_properties("f", {"quarantined": "nulls"})
    with pytest.raises(Forbidden, match="nulls"):
        filled.revert_contents("main", None, [key("a")], bad)
    mended = filled.revert_contents("f", None, [key("a")], head(filled))
    assert mended.was_applied, "the branch itself can be mended"
    assert content_id(filled, "a") == content_id(filled, "a", head(filled, "f"))
