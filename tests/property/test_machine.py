"""Random histories of commits, merges, branches, assigns, deletions and reopenings agree with the oracle."""

from __future__ import annotations

import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from nessie_ops.errors import BadRequest, MergeConflict, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    NO_ANCESTOR,
    CommitHash,
    Content,
    ContentKey,
    Delete,
    IcebergTable,
    Merge,
    MergeBehavior,
    NewCommit,
    Operation,
    Put,
    ReferenceType,
    with_id,
)
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.objects import StoredNodes, find_commit, root_of
from tests.property.oracle import Oracle

Changes = dict[str, int | None]

KEYS = "abcdef"
states = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(1, 2), min_size=1, max_size=4)


def content_of(key: str, version: int) -> Content:
    made = IcebergTable(metadata_location=f"m{version}", snapshot_id=version, schema_id=0, spec_id=0, sort_order_id=0)
    return with_id(made, str(UUID(int=ord(key))))  # one id per key: each key is one table for ever


class CatalogMachine(RuleBasedStateMachine):
    branches: Bundle[str] = Bundle("branches")
    commits: Bundle[CommitHash] = Bundle("commits")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name)}/catalog.db"
        self.oracle = Oracle()
        self.named = 0
        self.ids: list[str] = []
        self.thresholds = list(tree.THRESHOLDS)
        tree.THRESHOLDS[:] = tree._thresholds(3)  # several levels with eight keys
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.url)
        self.versions = VersionStore(self.store, new_id=lambda: self.ids.pop(0))

    def teardown(self) -> None:
        tree.THRESHOLDS[:] = self.thresholds
        self.store.close()
        self.folder.cleanup()

    @initialize(target=branches, changes=states)
    def main(self, changes: Changes) -> str:
        self.commit("main", {"a": 1, **changes}, 0)
        return "main"

    @rule(target=commits, branch=branches, changes=states, back=st.integers(0, 4))
    def commit(self, branch: str, changes: Changes, back: int) -> object:
        """Commit against the head or an older commit of the branch."""
        expected = self.versions.resolve(f"{branch}~{back}" if back else branch).hash
        base = self.oracle.state(expected)
        changes = {key: value for key, value in changes.items() if value is not None or key in base}
        operations: list[Operation] = []
        self.ids = []
        for key, value in changes.items():
            name = ContentKey((key,))
            if value is None:
                operations.append(Delete(name))
            elif key in base:
                operations.append(Put(name, content_of(key, value)))
            else:
                made = content_of(key, value)
                self.ids.append(str(made.id))
                operations.append(Put(name, with_id(made, "")))
        head = self.oracle.heads[branch]
        conflicts = self.oracle.conflicts(branch, expected, changes)
        try:
            result = self.versions.commit(branch, expected, NewCommit(message="m"), operations)
        except BadRequest:
            assert not operations
            return multiple()
        except ReferenceConflict as error:
            assert {str(conflict.key) for conflict in error.conflicts} == conflicts
            assert conflicts and self.versions.get_reference(branch).hash == head
            return multiple()
        assert not conflicts
        self.oracle.apply(branch, result.target_branch.hash, changes)
        return result.target_branch.hash

    @rule(branch=branches, source=branches, force=st.booleans())
    def merge(self, branch: str, source: str, force: bool) -> None:
        theirs, ours = self.oracle.heads[source], self.oracle.heads[branch]
        behavior = MergeBehavior.FORCE if force else MergeBehavior.NORMAL
        request = Merge(from_ref=source, from_hash=theirs, meta=NewCommit(message=""), default_behavior=behavior)
        base = self.versions.get_merge_base(ours, theirs)
        common = self.oracle.ancestors(ours) & self.oracle.ancestors(theirs)
        assert (base in common) if base else not common
        if theirs != NO_ANCESTOR and not base:
            with pytest.raises(ReferenceNotFound, match="No common ancestor"):
                self.versions.merge(branch, ours, request)
            return
        before = self.oracle.state(base) if base else {}
        after, target = self.oracle.state(theirs), self.oracle.state(ours)
        changes = {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        conflicts = {key for key in changes if before.get(key) != target.get(key)}
        conflicts -= {key for key in changes if key not in before and after.get(key) == target.get(key)}
        try:
            result = self.versions.merge(branch, ours, request)
        except MergeConflict as error:
            assert {str(conflict.key) for conflict in error.conflicts} == conflicts and not force
            assert self.versions.get_reference(branch).hash == ours
            return
        assert force or not conflicts
        real = {key: value for key, value in changes.items() if target.get(key) != value}
        assert result.was_applied == bool(real)
        if real:
            assert result.resultant_target_hash
            self.oracle.apply(branch, result.resultant_target_hash, real, theirs)

    @rule(target=branches, branch=branches, ours=states, theirs=states, force=st.booleans())
    def diverge_and_merge(self, branch: str, ours: Changes, theirs: Changes, force: bool) -> str:
        """What people do most: a branch, work on both sides, a merge."""
        side = self.branch(branch)
        self.commit(branch, ours, 0)
        self.commit(side, theirs, 0)
        self.merge(branch, side, force)
        return side

    @rule(target=branches, source=branches)
    def branch(self, source: str) -> str:
        self.named += 1
        name = f"run/{self.named}"
        self.versions.create_reference(ReferenceType.BRANCH, name, self.oracle.heads[source])
        self.oracle.heads[name] = self.oracle.heads[source]
        self.oracle.moves += 1
        return name

    @rule(branch=branches, commit=commits)
    def assign(self, branch: str, commit: CommitHash) -> None:
        self.versions.assign_reference(branch, self.oracle.heads[branch], commit)
        self.oracle.heads[branch] = commit
        self.oracle.moves += 1

    @rule(target=branches, branch=consumes(branches))
    def delete(self, branch: str) -> object:
        if branch == "main":
            with pytest.raises(BadRequest):
                self.versions.delete_reference(branch, None)
            return branch
        self.versions.delete_reference(branch, self.oracle.heads.pop(branch))
        self.oracle.moves += 1
        return multiple()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(a=commits, b=commits)
    def diff(self, a: CommitHash, b: CommitHash) -> None:
        before, after = self.oracle.state(a), self.oracle.state(b)
        got = {
            str(row.key): (getattr(row.before, "snapshot_id", None), getattr(row.after, "snapshot_id", None))
            for row in self.versions.diff(a, b)
        }
        keys = before.keys() | after.keys()
        assert got == {k: (before.get(k), after.get(k)) for k in keys if before.get(k) != after.get(k)}

    @invariant()
    def agrees(self) -> None:
        references = {reference.name: reference.hash for reference in self.versions.list_references()}
        assert references == self.oracle.heads
        for head in references.values():
            entries = self.versions.list_entries(head, with_content=True)
            assert {str(e.name): getattr(e.content, "snapshot_id", None) for e in entries} == self.oracle.state(head)
        assert len(self.versions.list_moves()) == self.oracle.moves

    @rule(commit=commits)
    def shape_is_canonical(self, commit: CommitHash) -> None:
        """The index is the one that a fresh build of the same entries gives."""
        with self.store.write() as tx:
            nodes = StoredNodes(tx)
            root = root_of(find_commit(tx, commit))
            assert tree.apply(nodes, tree.EMPTY_ID, dict(tree.scan(nodes, root))) == root


TestCatalog = CatalogMachine.TestCase
TestCatalog.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
