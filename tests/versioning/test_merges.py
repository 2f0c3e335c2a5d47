"""Merges: best base over both parents, per-key behaviour, conflicts as data, quarantined sources."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nessie_ops.errors import BadRequest, Forbidden, MergeConflict, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    DETACHED,
    NO_ANCESTOR,
    CommitHash,
    ConflictType,
    KeyMergeMode,
    Merge,
    MergeBehavior,
    MergeResult,
    NewCommit,
    ReferenceType,
)
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
    update,
    view,
)


@pytest.fixture
def forked(versions: VersionStore) -> VersionStore:
    """A branch `f` from a main that holds the tables a, b and c."""
    base = commit(versions, put("a", table(1)), put("b", table(1)), put("c", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "f", base)
    return versions


def merge(versions: VersionStore, source: str = "f", target: str = "main", **options: object) -> MergeResult:
    request = Merge(from_ref=source, from_hash=head(versions, source), meta=NewCommit(message=""))
    return versions.merge(target, head(versions, target), msgspec.structs.replace(request, **options))


def state(versions: VersionStore, branch: str = "main") -> dict[str, object]:
    entries = versions.list_entries(head(versions, branch), with_content=True)
    return {str(entry.name): getattr(entry.content, "snapshot_id", entry.type) for entry in entries}


def test_a_merge_is_one_commit_with_two_parents(forked: VersionStore) -> None:
    before = head(forked)
    update(forked, "a", 2, "f")
    update(forked, "new", 7, "f")
    source = commit(forked, delete("b"), branch="f")
    result = merge(forked)
    assert result.was_applied and result.was_successful and result.common_ancestor == before
    assert result.resultant_target_hash == head(forked)
    assert [str(row.key) for row in result.details] == ["a", "b", "new"]
    assert state(forked) == {"a": 2, "c": 1, "new": 7}
    meta = forked.get_commit(head(forked))
    assert meta.parent_commit_hashes == (before, source)
    assert meta.message == f"Merged f at {source} into main at {before}"
    assert len(forked.list_log(head(forked))) == 2, "the log follows direct parents"


def test_the_second_merge_starts_at_what_the_first_merged(forked: VersionStore) -> None:
    first = update(forked, "a", 2, "f")
    merge(forked)
    update(forked, "b", 5)
    update(forked, "a", 3, "f")
    result = merge(forked)
    assert (result.common_ancestor, result.was_applied) == (first, True)
    assert state(forked) == {"a": 3, "b": 5, "c": 1}


def test_nothing_to_merge(forked: VersionStore) -> None:
    before = head(forked)
    result = merge(forked)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, before)
    update(forked, "a", 2, "f")
    merge(forked)
    assert not merge(forked, "main", "f").was_applied, "merging back brings nothing that is not there"
    assert head(forked, "f") != head(forked)


def test_no_fast_forward(forked: VersionStore) -> None:
    source = update(forked, "a", 2, "f")
    assert merge(forked).resultant_target_hash != source


Change = Callable[[VersionStore, str], CommitHash]


def _retype(versions: VersionStore, branch: str) -> CommitHash:
    return commit(versions, delete("a"), put("a", view(1)), branch=branch)


def _recreate(versions: VersionStore, branch: str) -> CommitHash:
    return commit(versions, delete("a"), put("a", table(1)), branch=branch)


def _drop(versions: VersionStore, branch: str) -> CommitHash:
    return commit(versions, delete("a"), branch=branch)


def _add(n: int) -> Change:
    return lambda versions, branch: commit(versions, put("new", table(n)), branch=branch)


def _set(n: int) -> Change:
    return lambda versions, branch: update(versions, "a", n, branch)


@pytest.mark.parametrize(
    ("on_source", "on_target", "conflict"),
    [
        (_set(2), _set(3), ("VALUE_DIFFERS", "a")),
        (_set(2), _set(2), ("VALUE_DIFFERS", "a")),
        (_set(2), _recreate, ("CONTENT_ID_DIFFERS", "a")),
        (_set(2), _retype, ("PAYLOAD_DIFFERS", "a")),
        (_set(2), _drop, ("KEY_DOES_NOT_EXIST", "a")),
        (_drop, _set(2), ("VALUE_DIFFERS", "a")),
        (_drop, _drop, ("KEY_DOES_NOT_EXIST", "a")),
        (_add(1), _add(1), ("KEY_EXISTS", "new")),
    ],
)
def test_both_sides_changed_a_key(
    forked: VersionStore, on_source: Change, on_target: Change, conflict: tuple[str, str]
) -> None:
    on_source(forked, "f")
    before = on_target(forked, "main")
    assert conflicts_of(lambda: merge(forked)) == [conflict]
    with pytest.raises(MergeConflict, match=f"The following keys have been changed in conflict: '{conflict[1]}'$"):
        merge(forked, dry_run=True)
    result = merge(forked, conflicts_as_result=True)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, False, None)
    assert [row.conflict.conflict_type for row in result.details if row.conflict] == [conflict[0]]
    assert head(forked) == before

    forced = merge(forked, default_behavior=MergeBehavior.FORCE)
    assert forced.was_successful
    assert state(forked).get(conflict[1]) == state(forked, "f").get(conflict[1])


def test_drop_leaves_the_key_out(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    update(forked, "b", 2, "f")
    update(forked, "a", 3)
    mode = KeyMergeMode(key=key("a"), merge_behavior=MergeBehavior.DROP)
    result = merge(forked, key_modes=(mode,))
    assert result.was_applied and state(forked) == {"a": 3, "b": 2, "c": 1}


def test_resolved_content(forked: VersionStore) -> None:
    id = content_id(forked, "a")
    update(forked, "a", 2, "f")
    update(forked, "a", 3)
    stale = KeyMergeMode(key=key("a"), expected_target_content=table(1, id), resolved_content=table(9, id))
    assert conflicts_of(lambda: merge(forked, key_modes=(stale,))) == [("VALUE_DIFFERS", "a")]
    right = msgspec.structs.replace(stale, expected_target_content=table(3, id))
    assert merge(forked, key_modes=(right,)).was_applied
    assert state(forked)["a"] == 9


def test_modes_that_contradict_themselves(forked: VersionStore) -> None:
    id = content_id(forked, "a")
    update(forked, "a", 2, "f")
    resolved = KeyMergeMode(key=key("a"), resolved_content=table(9, id))
    full = msgspec.structs.replace(resolved, expected_target_content=table(1, id))
    force = msgspec.structs.replace(full, merge_behavior=MergeBehavior.FORCE)
    for modes, message in [
        ((KeyMergeMode(key=key("c")),), "not used: 'c'"),
        ((full, full), "occurs twice"),
        ((resolved,), "needs expectedTargetContent"),
        ((force,), "needs the merge behavior NORMAL"),
        ((msgspec.structs.replace(full, resolved_content=table(9)),), "no content ID"),
        ((msgspec.structs.replace(full, resolved_content=view(9, id)),), "is a ICEBERG_VIEW"),
    ]:
        with pytest.raises(BadRequest, match=message):
            merge(forked, key_modes=modes)


def test_a_dry_run_writes_nothing(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    before = head(forked)
    result = merge(forked, dry_run=True)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, None)
    assert head(forked) == before


def test_a_namespace_made_on_both_sides_is_the_sources(forked: VersionStore) -> None:
    commit(forked, put("n", namespace("n", by="source")), put("n.t", table(1)), branch="f")
    commit(forked, put("n", namespace("n", by="target")))
    result = merge(forked)
    assert [str(row.key) for row in result.details] == ["n.t"]
    found = forked.get_contents(head(forked), [key("n")])[key("n")]
    assert found == forked.get_contents(head(forked, "f"), [key("n")])[key("n")]


def test_namespace_rules_hold_after_a_merge(forked: VersionStore) -> None:
    base = commit(forked, put("n", namespace("n")))
    forked.create_reference(ReferenceType.BRANCH, "g", base)
    commit(forked, put("n.t", table(1)), branch="g")
    commit(forked, delete("n"))
    assert conflicts_of(lambda: merge(forked, "g", conflicts_as_result=True)) == [("NAMESPACE_ABSENT", "n")]
    forked.create_reference(ReferenceType.BRANCH, "h", base)
    commit(forked, delete("n"), branch="h")
    forked.create_reference(ReferenceType.BRANCH, "target", base)
    commit(forked, put("n.u", table(1)), branch="target")
    assert conflicts_of(lambda: merge(forked, "h", "target")) == [("NAMESPACE_NOT_EMPTY", "n")]


def test_histories_without_a_common_commit(forked: VersionStore) -> None:
    forked.create_reference(ReferenceType.BRANCH, "empty", NO_ANCESTOR)
    with pytest.raises(ReferenceNotFound, match="No common ancestor in parents of"):
        merge(forked, "f", "empty")
    before = state(forked)
    assert not merge(forked, "empty").was_applied, "an empty branch brings nothing, and deletes nothing"
    assert state(forked) == before


def test_criss_cross_takes_one_of_the_two_youngest_bases(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    update(forked, "b", 2)
    f, main = head(forked, "f"), head(forked)
    merge(forked)
    forked.merge("f", f, Merge(from_ref="main", from_hash=main, meta=NewCommit(message="")))
    update(forked, "c", 2, "f")
    assert forked.get_merge_base(head(forked), head(forked, "f")) in (f, main)
    # What both sides took from each other is, against one base, a change on both sides.
    assert conflicts_of(lambda: merge(forked)) in ([("VALUE_DIFFERS", "a")], [("VALUE_DIFFERS", "b")])
    assert merge(forked, default_behavior=MergeBehavior.FORCE).was_applied
    assert state(forked) == {"a": 2, "b": 2, "c": 2}


def test_a_quarantined_branch_is_no_source(forked: VersionStore) -> None:
    source = update(forked, "a", 2, "f")
    forked.update_properties("f", {"quarantined": "3 rows without carrier"})
    with pytest.raises(Forbidden, match="quarantined and cannot be merged: 3 rows without carrier"):
        merge(forked)
    with pytest.raises(Forbidden, match="quarantined"):
        forked.merge("main", None, Merge(from_ref=DETACHED, from_hash=source, meta=NewCommit(message="")))
    with pytest.raises(Forbidden, match="quarantined"):
        forked.merge("main", None, Merge(from_ref="main", from_hash=source, meta=NewCommit(message="")))
    forked.update_properties("f", {}, ["quarantined"])
    assert merge(forked).was_applied


def test_a_branch_in_quarantine_taints_no_other_at_the_same_commit(forked: VersionStore) -> None:
    update(forked, "a", 2)
    forked.create_reference(ReferenceType.BRANCH, "g", head(forked), properties={"quarantined": "failed at once"})
    assert merge(forked, "main", "f").was_applied


def test_the_expected_hash_is_checked_and_echoed(forked: VersionStore) -> None:
    expected = head(forked)
    update(forked, "b", 2)
    source = update(forked, "a", 2, "f")
    request = Merge(from_ref="f", from_hash=source, meta=NewCommit(message="why", authors=("ann",)))
    with pytest.raises(ReferenceNotFound, match="Could not find commit"):
        forked.merge("main", source, request)
    result = forked.merge("main", expected, request)
    assert (result.expected_hash, result.was_applied) == (expected, True)
    meta = forked.get_commit(head(forked))
    assert (meta.message, meta.authors) == ("why", ("ann",))


def test_only_while_the_source_ends_there(forked: VersionStore) -> None:
    validated = update(forked, "a", 2, "f")
    update(forked, "b", 2, "f")
    before = head(forked)
    with pytest.raises(ReferenceConflict, match="not at expected hash") as caught:
        merge(forked, from_hash=validated, only_head=True)
    assert caught.value.conflicts[0].conflict_type is ConflictType.UNEXPECTED_HASH
    assert head(forked) == before
    assert merge(forked, only_head=True).was_applied
