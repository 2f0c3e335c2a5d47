"""A naive catalog: every commit holds a whole dict.  What the kernel must agree with, written for clarity only."""

from __future__ import annotations

from dataclasses import dataclass, field

from nessie_ops.model import NO_ANCESTOR, CommitHash

State = dict[str, int]  # key -> version of the content under it


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

    def is_on(self, commit: CommitHash, branch: str) -> bool:
        """Whether `commit` is on the branch's line of direct parents."""
        at = self.heads[branch]
        while at != NO_ANCESTOR and at != commit:
            at = self.commits[at].parents[0]
        return at == commit

    def ancestors(self, commit: CommitHash) -> set[CommitHash]:
        seen: set[CommitHash] = set()
        todo = [commit]
        while todo:
            at = todo.pop()
            if at != NO_ANCESTOR and at not in seen:
                seen.add(at)
                todo += self.commits[at].parents
        return seen

    def conflicts(self, branch: str, expected: CommitHash, changes: dict[str, int | None]) -> set[str]:
        """Keys whose value at the head is not the one at the expected commit."""
        base, head = self.state(expected), self.state(self.heads[branch])
        return {key for key in changes if base.get(key) != head.get(key)}

    def apply(self, branch: str, new: CommitHash, changes: dict[str, int | None], *merged: CommitHash) -> None:
        before = self.heads[branch]
        after = {**self.state(before), **changes}
        state = {key: value for key, value in after.items() if value is not None}
        self.commits[new] = OracleCommit(state, (before, *merged))
        self.heads[branch] = new
        self.moves += 1
