"""Random histories of writes, moves of references, purges and reopenings agree with the oracle, on two databases."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from msgspec import UNSET, structs

from nessie_ops.errors import BadRequest, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    NO_ANCESTOR,
    CommitHash,
    ConflictType,
    Content,
    ContentKey,
    Delete,
    Entry,
    IcebergTable,
    Merge,
    MergeBehavior,
    MergeResult,
    Namespace,
    NewCommit,
    Operation,
    Put,
    ReferenceType,
    Transplant,
    with_id,
)
from nessie_ops.store import Store, figures
from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.check import check
from nessie_ops.versioning.objects import StoredNodes, find_commit, root_of
from nessie_ops.versioning.purge import purge
from tests.databases import Databases
from tests.property.oracle import (
    NAMESPACES,
    Changes,
    Oracle,
    State,
    apply_to,
    breaks_namespaces,
    created_in,
    differences,
    merge_conflicts,
    real_changes,
)

KEYS = ("a", "b", "c", "d", "n", "n.m", "n.x", "n.m.y", "n.m.z")
OF_NAMESPACES = {ConflictType.NAMESPACE_ABSENT, ConflictType.NAMESPACE_NOT_EMPTY}
NO_WORDS = NewCommit(message="")
states = st.dictionaries(st.sampled_from(KEYS), st.none() | st.integers(1, 2), min_size=1, max_size=4)
MakeDatabase = Callable[[], AbstractContextManager[str]]


def content_of(key: str, version: int) -> Content:
    """One id per key: each key is one table, or one namespace, for ever."""
    id = str(UUID(int=KEYS.index(key) + 1))
    if key in NAMESPACES:
        return with_id(Namespace(elements=tuple(key.split(".")), properties={"version": str(version)}), id)
    made = IcebergTable(metadata_location=f"m{version}", snapshot_id=version, schema_id=0, spec_id=0, sort_order_id=0)
    return with_id(made, id)


def version_of(content: Content | None) -> int | None:
    if isinstance(content, Namespace):
        return int(content.properties["version"])
    return content.snapshot_id if isinstance(content, IcebergTable) else None


def to_state(entries: Iterable[Entry]) -> dict[str, int | None]:
    return {str(entry.name): version_of(entry.content) for entry in entries}


class CatalogMachine(RuleBasedStateMachine):
    branches: Bundle[str] = Bundle("branches")
    commits: Bundle[CommitHash] = Bundle("commits")  # some of which are purged

    def __init__(self, make_database: MakeDatabase) -> None:
        super().__init__()
        self.database = make_database()
        self.url = self.database.__enter__()
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
        try:
            assert list(check(self.store, lambda what, count: None)) == []
        finally:
            tree.THRESHOLDS[:] = self.thresholds
            self.store.close()
            self.database.__exit__(None, None, None)

    @initialize(target=branches, changes=states)
    def main(self, changes: Changes) -> str:
        self.commit("main", {"a": 1, "n": 1, "n.m": 1}, 0)
        self.commit("main", changes, 0)
        return "main"

    def head(self, branch: str) -> CommitHash:
        return self.oracle.heads[branch]

    def expect_refusal(self, branch: str, namespaces: bool, conflicts: set[str], write: Callable[[], object]) -> None:
        """The write fails with just these conflicts, or for its namespaces, and changes nothing."""
        head = self.head(branch)
        with pytest.raises(ReferenceConflict) as caught:
            write()
        found = caught.value.conflicts
        if namespaces:
            assert found and {conflict.conflict_type for conflict in found} <= {
                "NAMESPACE_ABSENT",
                "NAMESPACE_NOT_EMPTY",
            }
        else:
            assert {str(conflict.key) for conflict in found} == conflicts
        assert self.versions.get_reference(branch).hash == head

    def expect(self, branch: str, result: MergeResult, changes: Changes, *merged: CommitHash) -> None:
        """The result of a write that had no conflict."""
        assert result.was_applied == bool(changes)
        if changes:
            assert result.resultant_target_hash
            self.oracle.apply(branch, result.resultant_target_hash, changes, *merged)

    @rule(target=commits, branch=branches, changes=states, back=st.integers(0, 4))
    def commit(self, branch: str, changes: Changes, back: int) -> object:
        """Commit against the head or an older commit of the branch."""
        expected = self.versions.resolve(f"{branch}~{back}" if back else branch).hash
        base = self.oracle.state(expected)
        changes = {key: value for key, value in changes.items() if value is not None or key in base}
        operations = self.to_operations(base, changes)

        def write() -> CommitHash:
            result = self.versions.commit(branch, expected, NewCommit(message="m"), operations)
            return result.target_branch.hash

        if not operations:
            with pytest.raises(BadRequest):
                write()
            return multiple()
        conflicts = self.oracle.conflicts(branch, expected, changes)
        namespaces = breaks_namespaces(self.oracle.state(self.head(branch)), changes, created_in(base, changes))
        if conflicts or namespaces:
            self.expect_refusal(branch, namespaces, conflicts, write)
            return multiple()
        new = write()
        self.oracle.apply(branch, new, changes)
        return new

    def to_operations(self, base: State, changes: Changes) -> list[Operation]:
        operations: list[Operation] = []
        self.ids = []
        for key, value in changes.items():
            name = ContentKey(tuple(key.split(".")))
            if value is None:
                operations.append(Delete(name))
            elif key in base:
                operations.append(Put(name, content_of(key, value)))
            else:
                made = content_of(key, value)
                self.ids.append(str(made.id))
                operations.append(Put(name, structs.replace(made, id=UNSET)))
        return operations

    @rule(branch=branches, source=branches, force=st.booleans())
    def merge(self, branch: str, source: str, force: bool) -> None:
        theirs, ours = self.head(source), self.head(branch)
        behavior = MergeBehavior.FORCE if force else MergeBehavior.NORMAL
        request = Merge(from_ref=source, from_hash=theirs, meta=NO_WORDS, default_behavior=behavior)
        base = self.versions.get_merge_base(ours, theirs)
        common = self.oracle.ancestors(ours) & self.oracle.ancestors(theirs)
        assert (base in common) if base else not common
        if theirs != NO_ANCESTOR and not base:
            with pytest.raises(ReferenceNotFound, match="No common ancestor"):
                self.versions.merge(branch, ours, request)
            return
        before, target = self.oracle.state(base) if base else {}, self.oracle.state(ours)
        changes = differences(before, self.oracle.state(theirs))
        conflicts = set() if force else merge_conflicts(before, changes, target)
        real = real_changes(changes, target)
        namespaces = not conflicts and breaks_namespaces(target, real, created_in(target, real))
        if conflicts or namespaces:
            self.expect_refusal(branch, namespaces, conflicts, lambda: self.versions.merge(branch, ours, request))
        else:
            self.expect(branch, self.versions.merge(branch, ours, request), real, theirs)

    @rule(branch=branches, source=branches, count=st.integers(1, 3), force=st.booleans())
    def transplant(self, branch: str, source: str, count: int, force: bool) -> None:
        """The last commits of a branch, one by one, on top of another."""
        hashes = self.oracle.line(source)[:count][::-1]
        if not hashes:
            return
        behavior = MergeBehavior.FORCE if force else MergeBehavior.NORMAL
        request = Transplant(from_ref=source, hashes=tuple(hashes), meta=NO_WORDS, default_behavior=behavior)
        state = self.oracle.state(self.head(branch))
        conflicts: set[str] = set()
        written: list[Changes] = []
        for hash in hashes:
            before = self.oracle.state(self.oracle.commits[hash].parents[0])
            changes = differences(before, self.oracle.state(hash))
            conflicts |= set() if force else merge_conflicts(before, changes, state)
            real = real_changes(changes, state)
            if not conflicts and breaks_namespaces(state, real, created_in(state, real)):
                self.expect_refusal(branch, True, set(), lambda: self.versions.transplant(branch, None, request))
                return
            written += [real] if real else []
            state = apply_to(state, real)
        if conflicts:
            self.expect_refusal(branch, False, conflicts, lambda: self.versions.transplant(branch, None, request))
            return
        self.versions.transplant(branch, None, request)
        log = self.versions.list_log(self.versions.get_reference(branch).hash, limit=max(1, len(written)))
        for changes, entry in zip(written, reversed(log)):
            assert entry.commit_meta.hash
            self.oracle.apply(branch, entry.commit_meta.hash, changes)
        self.oracle.moves -= max(0, len(written) - 1)  # they are one move

    @rule(branch=branches, back=st.integers(0, 3))
    def revert(self, branch: str, back: int) -> None:
        """Undo one of the last commits of a branch."""
        line = self.oracle.line(branch)
        if back >= len(line):
            return
        undone, head = self.oracle.state(line[back]), self.oracle.state(self.head(branch))
        changes = differences(undone, self.oracle.state(self.oracle.commits[line[back]].parents[0]))
        conflicts = {key for key in changes if head.get(key) != undone.get(key)}
        real = real_changes(changes, head)
        namespaces = not conflicts and breaks_namespaces(head, real, created_in(head, real))
        if conflicts or namespaces:
            self.expect_refusal(branch, namespaces, conflicts, lambda: self.versions.revert(branch, None, line[back]))
        else:
            self.expect(branch, self.versions.revert(branch, None, line[back]), real)

    @rule(target=branches, branch=branches, ours=states, theirs=states, force=st.booleans())
    def diverge_and_merge(self, branch: str, ours: Changes, theirs: Changes, force: bool) -> str:
        """What people do most: a branch, work on both sides, a merge."""
        side = self.branch(branch)
        self.commit(branch, ours, 0)
        self.commit(side, theirs, 0)
        self.merge(branch, side, force)
        return side

    @rule(branch=branches, ours=states, theirs=states, is_published=st.booleans())
    def work_on_a_brief_branch(self, branch: str, ours: Changes, theirs: Changes, is_published: bool) -> None:
        """A branch that is merged, or not, and deleted; then only a merge, if any, leads to its commits."""
        side = self.branch(branch)
        self.commit(side, theirs, 0)
        self.commit(branch, ours, 0)
        if is_published:
            self.merge(branch, side, True)
        self.delete(side)
        self.purge()

    @rule(target=branches, source=branches)
    def branch(self, source: str) -> str:
        self.named += 1
        name = f"run/{self.named}"
        self.versions.create_reference(ReferenceType.BRANCH, name, self.head(source))
        self.oracle.move(name, self.head(source))
        return name

    @rule(branch=branches, commit=commits)
    def assign(self, branch: str, commit: CommitHash) -> None:
        if commit not in self.oracle.commits:
            with pytest.raises(ReferenceNotFound):
                self.versions.assign_reference(branch, self.head(branch), commit)
            return
        self.versions.assign_reference(branch, self.head(branch), commit)
        self.oracle.move(branch, commit)

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

    @rule()
    def purge(self) -> None:
        """What no branch needs goes, whatever the cache still has; writing goes on from there."""
        later = datetime.now(UTC) + timedelta(hours=1)
        purge(
            self.store,
            now=later,
            grace=timedelta(0),
            dry_run=False,
            progress=lambda what, count: None,
            sleep=lambda seconds: None,
        )
        with self.store.read() as tx:
            assert figures.count_rows(tx)["commit"] == self.oracle.purge()

    @rule(a=commits, b=commits)
    def diff(self, a: CommitHash, b: CommitHash) -> None:
        if not {a, b} <= self.oracle.commits.keys():
            return
        before, after = self.oracle.state(a), self.oracle.state(b)
        got = {str(row.key): (version_of(row.before), version_of(row.after)) for row in self.versions.diff(a, b)}
        assert got == {key: (before.get(key), after.get(key)) for key in differences(before, after)}

    @invariant()
    def agrees(self) -> None:
        references = {reference.name: reference.hash for reference in self.versions.list_references()}
        assert references == self.oracle.heads
        for head in references.values():
            assert to_state(self.versions.list_entries(head, with_content=True)) == self.oracle.state(head)
        assert len(self.versions.list_moves()) == self.oracle.moves

    @rule(commit=commits)
    def shape_is_canonical(self, commit: CommitHash) -> None:
        """The index is the one that a fresh build of the same entries gives."""
        if commit not in self.oracle.commits:
            return
        with self.store.write() as tx:
            nodes = StoredNodes(tx)
            root = root_of(find_commit(tx, commit))
            assert tree.apply(nodes, tree.EMPTY_ID, dict(tree.scan(nodes, root))) == root


@contextmanager
def sqlite_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{Path(folder)}/catalog.db"


def run(make_database: MakeDatabase, examples: int) -> None:
    bounds = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(lambda: CatalogMachine(make_database), settings=bounds)


def test_on_sqlite() -> None:
    run(sqlite_file, 50)


def test_on_postgresql(postgresql_databases: Databases) -> None:
    run(postgresql_databases.database, 12)
