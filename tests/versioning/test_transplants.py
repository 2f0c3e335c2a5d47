"""Transplants: one new commit per source commit, judged by the value in that commit's own parent, all or nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from nessie_ops.errors import BadRequest, Forbidden, MergeConflict, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    DETACHED,
    NO_ANCESTOR,
    CommitHash,
    KeyMergeMode,
    MergeBehavior,
    MergeResult,
    NewCommit,
    ReferenceType,
    Transplant,
)
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.transplanting import MAX_TRANSPLANTED
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
)


@pytest.fixture
def forked(versions: VersionStore) -> VersionStore:
    """A branch `f` from a main that holds the tables a, b and c."""
    base = commit(versions, put("a", table(1)), put("b", table(1)), put("c", table(1)))
    versions.create_reference(ReferenceType.BRANCH, "f", base)
    return versions


def transplant(
    versions: VersionStore, *hashes: CommitHash, target: str = "main", message: str = "", **options: object
) -> MergeResult:
    request = Transplant(from_ref="f", hashes=hashes, meta=NewCommit(message=message))
    return versions.transplant(target, head(versions, target), msgspec.structs.replace(request, **options))


def state(versions: VersionStore, branch: str = "main") -> dict[str, object]:
    entries = versions.list_entries(head(versions, branch), with_content=True)
    return {str(entry.name): getattr(entry.content, "snapshot_id", entry.type) for entry in entries}


def test_each_commit_becomes_one_with_its_own_words(forked: VersionStore) -> None:
    before, time = head(forked), datetime(2021, 4, 7, tzinfo=UTC)
    words = NewCommit(message="one", authors=("ann",), author_time=time, properties={"k": ("v",)}, committer="bot")
    first = forked.commit("f", before, words, [put("n", table(1))]).target_branch.hash
    second = update(forked, "a", 2, "f")
    third = commit(forked, delete("b"), branch="f")
    result = transplant(forked, first, second, third, message="left out for more than one")
    assert (result.was_applied, result.was_successful, result.common_ancestor) == (True, True, None)
    assert (result.resultant_target_hash, result.effective_target_hash) == (head(forked), before)
    assert [str(row.key) for row in result.details] == ["a", "b", "n"]
    assert state(forked) == {"a": 2, "c": 1, "n": 1}
    assert content_id(forked, "n") == content_id(forked, "n", first)
    metas = [entry.commit_meta for entry in forked.list_log(head(forked))][::-1]
    assert [meta.message for meta in metas] == ["m", "one", "m", "m"]
    assert (metas[1].authors, metas[1].author_time, metas[1].all_properties) == (("ann",), time, {"k": ("v",)})
    assert metas[1].committer == "" and metas[1].hash != first
    assert [meta.parent_commit_hashes for meta in metas[1:]] == [(meta.hash,) for meta in metas[:-1]]
    assert [(move.action, move.before, move.after) for move in forked.list_moves(name="main")][-1] == (
        "TRANSPLANTED",
        before,
        head(forked),
    )


def test_the_message_is_for_one_commit_and_the_rest_of_the_meta_is_added(forked: VersionStore) -> None:
    first = update(forked, "a", 2, "f")
    meta = NewCommit(message="mine", authors=("bob",), signed_off_by=("s",), properties={"run": ("7",)}, committer="c")
    transplant(forked, first, meta=meta)
    made = forked.get_commit(head(forked))
    assert (made.message, made.authors, made.all_signed_off_by) == ("mine", ("", "bob"), ("s",))
    assert (made.all_properties, made.committer) == ({"run": ("7",)}, "c")


def test_a_part_of_a_branch_and_hashes_of_another_one(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    wanted = [update(forked, "b", n, "f") for n in (2, 3)]
    update(forked, "c", 2, "f")
    assert transplant(forked, *wanted, from_ref="main").was_applied, "the commits need not be on the named reference"
    assert state(forked) == {"a": 1, "b": 3, "c": 1}


def test_what_brings_nothing_is_left_out(forked: VersionStore) -> None:
    before = head(forked)
    empty = commit(forked, unchanged("a"), branch="f")
    result = transplant(forked, empty)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, before)
    assert result.details == () and head(forked) == before
    added = update(forked, "new", 1, "f")
    assert transplant(forked, empty, added).was_applied
    assert len(forked.list_log(head(forked))) == 2
    assert not transplant(forked, added).was_applied, "an addition that is there already"


def test_a_value_is_expected_as_the_commits_parent_has_it(forked: VersionStore) -> None:
    update(forked, "a", 2, "f")
    third = update(forked, "a", 3, "f")
    assert conflicts_of(lambda: transplant(forked, third)) == [("VALUE_DIFFERS", "a")]
    update(forked, "a", 2)
    assert transplant(forked, third).was_applied, "by value: main has what the commit's parent has"
    assert state(forked)["a"] == 3


def test_all_conflicts_are_told_and_nothing_is_written(forked: VersionStore) -> None:
    ours = [update(forked, name, n, "f") for name, n in (("new", 1), ("a", 2), ("a", 3), ("b", 2))]
    update(forked, "a", 9)
    before = update(forked, "b", 9)
    with pytest.raises(MergeConflict, match=r"changed in conflict: 'a', 'b'$") as refused:
        transplant(forked, *ours)
    assert refused.value.result.details == transplant(forked, *ours, conflicts_as_result=True).details
    for dry_run in (False, True):
        result = transplant(forked, *ours, conflicts_as_result=True, dry_run=dry_run)
        assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, False, None)
        rows = [(str(row.key), row.conflict and row.conflict.conflict_type) for row in result.details]
        assert rows == [("a", "VALUE_DIFFERS"), ("b", "VALUE_DIFFERS"), ("new", None)]
    assert head(forked) == before and "new" not in state(forked)
    forced = transplant(forked, *ours, default_behavior=MergeBehavior.FORCE)
    assert forced.was_applied and state(forked) == {"a": 3, "b": 2, "c": 1, "new": 1}


def test_modes_by_key(forked: VersionStore) -> None:
    source = commit(
        forked, put("a", table(2, content_id(forked, "a"))), put("b", table(2, content_id(forked, "b"))), branch="f"
    )
    update(forked, "a", 9)
    drop = KeyMergeMode(key=key("a"), merge_behavior=MergeBehavior.DROP)
    unused = KeyMergeMode(key=key("c"), merge_behavior=MergeBehavior.DROP)
    assert transplant(forked, source, key_modes=(drop, unused)).was_applied
    assert state(forked) == {"a": 9, "b": 2, "c": 1}
    id = content_id(forked, "a")
    resolved = KeyMergeMode(key=key("a"), expected_target_content=table(9, id), resolved_content=table(10, id))
    other = msgspec.structs.replace(drop, key=key("b"))
    assert transplant(forked, source, key_modes=(resolved, other)).was_applied
    assert state(forked) == {"a": 10, "b": 2, "c": 1}
    with pytest.raises(BadRequest, match="occurs twice"):
        transplant(forked, source, key_modes=(drop, drop))


def test_a_dry_run_writes_nothing(forked: VersionStore) -> None:
    source, before, log = update(forked, "a", 2, "f"), head(forked), forked.list_moves()
    result = transplant(forked, source, dry_run=True)
    assert (result.was_applied, result.was_successful, result.resultant_target_hash) == (False, True, None)
    assert [str(row.key) for row in result.details] == ["a"]
    assert head(forked) == before and forked.list_moves() == log
    result = transplant(forked, commit(forked, unchanged("a"), branch="f"), dry_run=True)
    assert (result.was_applied, result.resultant_target_hash, head(forked)) == (False, None, before)


def test_namespaces_are_guarded_even_with_conflicts_as_result(forked: VersionStore) -> None:
    space = commit(forked, put("n", namespace("n")), branch="f")
    inside = commit(forked, put("n.t", table(1)), branch="f")
    assert conflicts_of(lambda: transplant(forked, inside, conflicts_as_result=True)) == [("NAMESPACE_ABSENT", "n")]
    assert transplant(forked, space, inside).was_applied
    gone = [commit(forked, delete("n.t"), branch="f"), commit(forked, delete("n"), branch="f")]
    with pytest.raises(ReferenceConflict):
        transplant(forked, gone[1])
    assert transplant(forked, *gone).was_applied and "n" not in state(forked)


def test_hashes_that_are_no_sequence(forked: VersionStore) -> None:
    first, second, third = (update(forked, "a", n, "f") for n in (2, 3, 4))
    for hashes in ((first, third), (second, first), (first, first)):
        with pytest.raises(BadRequest, match="Sequence of hashes is not contiguous"):
            transplant(forked, *hashes)
    for hashes in ((), (first,) * (MAX_TRANSPLANTED + 1)):
        with pytest.raises(BadRequest, match="hashesToTransplant"):
            transplant(forked, *hashes)
    for unknown in (NO_ANCESTOR, CommitHash("ab" * 32), CommitHash(first[:16])):
        with pytest.raises(ReferenceNotFound, match="not found"):
            transplant(forked, unknown)
    with pytest.raises(BadRequest):
        transplant(forked, CommitHash("x"))


def test_the_target_is_a_branch_with_the_expected_commit(forked: VersionStore) -> None:
    source = update(forked, "a", 2, "f")
    request = Transplant(from_ref="f", hashes=(source,), meta=NewCommit(message=""))
    forked.create_reference(ReferenceType.TAG, "v1", head(forked))
    with pytest.raises(BadRequest, match="Reference to transplant into must be a branch"):
        forked.transplant("v1", head(forked), request)
    with pytest.raises(ReferenceNotFound, match="Could not find commit"):
        forked.transplant("main", source, request)
    with pytest.raises(ReferenceNotFound, match="'nope' not found"):
        forked.transplant("main", None, msgspec.structs.replace(request, from_ref="nope"))
    expected = head(forked)
    update(forked, "b", 2)
    assert forked.transplant("main", expected, request).expected_hash == expected


def test_a_quarantined_branch_is_no_source(forked: VersionStore) -> None:
    source = update(forked, "a", 2, "f")
    forked.update_properties("f", {"quarantined": "3 rows without carrier"})
    for from_ref in ("f", "main", DETACHED):
        with pytest.raises(Forbidden, match="quarantined"):
            transplant(forked, source, from_ref=from_ref)
    forked.update_properties("f", {}, ["quarantined"])
    assert transplant(forked, source, from_ref=DETACHED).was_applied


def test_a_root_commit_goes_to_an_empty_branch(forked: VersionStore) -> None:
    root = forked.list_log(head(forked))[-1].commit_meta.hash
    forked.create_reference(ReferenceType.BRANCH, "empty", NO_ANCESTOR)
    assert transplant(forked, root, target="empty").was_applied
    assert state(forked, "empty") == state(forked)
