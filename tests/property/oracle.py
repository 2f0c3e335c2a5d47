"""A naive catalog: every commit holds a whole dict.  What the kernel must agree with, written for clarity only."""

from __future__ import annotations

from dataclasses import dataclass, field

from nessie_ops.model import NO_ANCESTOR, CommitHash

State = dict[str, int]  # key -> version of the content under it
Changes = dict[str, int | None]  # None deletes
NAMESPACES = ("n", "n.m")


def breaks_namespaces(head: State, changes: Changes, created: set[str]) -> bool:
    """Whether a created key would have no parent, or a deleted namespace would leave something behind."""
    after = {key for key, value in {**head, **changes}.items() if value is not None}
    if any(key.rpartition(".")[0] not in after for key in created if "." in key):
        return True
    gone = {key for key in NAMESPACES if key in head and changes.get(key, 0) is None}
    return any(key.startswith(f"{namespace}.") for namespace in gone for key in after)


def created_in(head: State, changes: Changes) -> set[str]:
    return {key for key, value in changes.items() if value is not None and key not in head}


def differences(before: State, after: State) -> Changes:
    keys = before.keys() | after.keys()
    return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}


def merge_conflicts(base: State, changes: Changes, target: State) -> set[str]:
    """Keys of a merge that cannot be decided: neither equal additions, nor a namespace that both sides created."""
    changed = {key for key in changes if base.get(key) != target.get(key)}
    added = {key for key in changed if key not in base}
    return changed - {key for key in added if changes[key] == target.get(key) or key in NAMESPACES}


def real_changes(changes: Changes, target: State) -> Changes:
    return {key: value for key, value in changes.items() if target.get(key) != value}


def apply_to(state: State, changes: Changes) -> State:
    return {key: value for key, value in {**state, **changes}.items() if value is not None}


@dataclass
class OracleCommit:
    state: State
    parents: tuple[CommitHash, ...]


@dataclass
class Oracle:
    heads: dict[str, CommitHash] = field(default_factory=lambda: {"main": NO_ANCESTOR})
    commits: dict[CommitHash, OracleCommit] = field(default_factory=lambda: {NO_ANCESTOR: OracleCommit({}, ())})
    moves: int = 1  # rows of the reference log

    def state(self, at: CommitHash) -> State:
        return self.commits[at].state

    def line(self, branch: str) -> list[CommitHash]:
        """The branch's commits along direct parents, newest first."""
        found = []
        at = self.heads[branch]
        while at != NO_ANCESTOR:
            found.append(at)
            at = self.commits[at].parents[0]
        return found

    def ancestors(self, commit: CommitHash) -> set[CommitHash]:
        seen: set[CommitHash] = set()
        todo = [commit]
        while todo:
            at = todo.pop()
            if at != NO_ANCESTOR and at not in seen:
                seen.add(at)
                todo += self.commits[at].parents
        return seen

    def conflicts(self, branch: str, expected: CommitHash, changes: Changes) -> set[str]:
        """Keys whose value at the head is not the one at the expected commit."""
        base, head = self.state(expected), self.state(self.heads[branch])
        return {key for key in changes if base.get(key) != head.get(key)}

    def apply(self, branch: str, new: CommitHash, changes: Changes, *merged: CommitHash) -> None:
        before = self.heads[branch]
        self.commits[new] = OracleCommit(apply_to(self.state(before), changes), (before, *merged))
        self.move(branch, new)

    def move(self, branch: str, to: CommitHash) -> None:
        self.heads[branch] = to
        self.moves += 1

    def purge(self) -> int:
        """Forget commits that no branch needs; how many stay."""
        live = set().union(*(self.ancestors(head) for head in self.heads.values()))
        self.commits = {id: commit for id, commit in self.commits.items() if id in live or id == NO_ANCESTOR}
        return len(live)
