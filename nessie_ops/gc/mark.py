"""Mark: which versions of tables and views are live, over all references, each commit fetched once.

A reference is walked from the commit it is pinned at along direct parents.  Its head is live whatever its
policy; the walk ends before the first commit past the cutoff.  Live is what live commits put, and all that is
visible at the last live commit, because what was last put before the cutoff is read there, too.

Where two references share history, the second walk stops at a commit from which an earlier walk went on at
least as far: with no cutoff, with as many commits left, or to as old an instant.  Then nothing is missing: what
is visible here was put by a commit that the earlier walk kept, or is visible at the last commit that it kept.
Where the cutoffs are of different kinds, the walk goes on, over commits that are remembered, not fetched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import Commit, Put, Source
from nessie_ops.model import NO_ANCESTOR, CommitHash


class Pinned(NamedTuple):
    """A reference with the commit that it is marked from, and its cutoff."""

    name: str
    hash: CommitHash
    bound: Bound


class Live(NamedTuple):
    """A live version and why: the commit that put it, or at which it is visible, and the reference that kept it."""

    put: Put
    commit: CommitHash
    reference: str


class Marked(NamedTuple):
    """What the walk of one reference found.  `commits` are live ones that no earlier walk had found."""

    live: list[Live]
    commits: int
    last: CommitHash
    """The oldest live commit of the walk; where it joined an earlier walk, the commit at which it did."""


class _Reach:
    """How far earlier walks went on from a commit."""

    __slots__ = ("all", "left", "since")

    def __init__(self) -> None:
        self.all = False
        self.left = 0
        self.since: datetime | None = None

    def covers(self, bound: Bound, position: int) -> bool:
        """Whether a walk at `position` with `bound` finds nothing new from here on."""
        if self.all or bound is None:
            return self.all
        if isinstance(bound, int):
            return self.left > bound - position
        return self.since is not None and self.since <= bound

    def add(self, bound: Bound, position: int) -> None:
        if bound is None:
            self.all = True
        elif isinstance(bound, int):
            self.left = max(self.left, bound - position + 1)
        else:
            self.since = bound if self.since is None else min(self.since, bound)


class Marker:
    """Walks references one after the other.  Memory: some 300 bytes for each distinct commit."""

    def __init__(self, source: Source, progress: Callable[[str, int], None] = lambda step, count: None) -> None:
        self._source = source
        self._progress = progress
        self._reached: dict[CommitHash, _Reach] = {}
        self._known: dict[CommitHash, Commit] = {}  # fetched; without its puts once it is live
        self._passed: set[CommitHash] = set()  # by `rest`
        self._shown: set[CommitHash] = set()  # commits whose visible contents are live

    def assume(self, reference: Pinned) -> None:
        """Take a reference for marked already, so that walks which come to its commit stop there."""
        self._reached.setdefault(reference.hash, _Reach()).add(reference.bound, 1)

    def mark(self, reference: Pinned) -> Marked:
        """Walk one reference."""
        live: list[Live] = []
        commits = 0
        last = reference.hash
        for position, commit in enumerate(self._line(reference.hash), start=1):
            if position > 1 and _is_past(commit, reference.bound, position):
                live += self._show(last, reference)
                break
            reached = self._reached.get(commit.hash)
            if reached is None:
                reached = self._reached[commit.hash] = _Reach()
                live += [Live(put, commit.hash, reference.name) for put in commit.puts]
                self._known[commit.hash] = Commit(commit.hash, commit.parent, commit.time, ())
                commits += 1
                self._progress("commits marked", len(self._reached))
            elif reached.covers(reference.bound, position):
                last = commit.hash
                break
            reached.add(reference.bound, position)
            last = commit.hash
        else:
            if last in self._reached:  # where a server has cut its history off, older puts are visible there alone
                live += self._show(last, reference)
        return Marked(live, commits, last)

    def before(self, at: CommitHash, since: datetime) -> CommitHash | None:
        """The parent of a commit of an earlier walk, if the commit was made at `since` or later."""
        found = self._known.get(at)
        return found.parent if found and found.time >= since and found.parent != NO_ANCESTOR else None

    def rest(self, at: CommitHash) -> Iterator[Commit]:
        """Commits on the line from `at` that no walk found live, each once over all calls."""
        for commit in self._line(at):
            if commit.hash in self._passed:
                return
            self._passed.add(commit.hash)
            if commit.hash not in self._reached:
                yield commit

    def _line(self, at: CommitHash) -> Iterator[Commit]:
        """The line from `at`, over what is known already and what has to be fetched."""
        while at != NO_ANCESTOR:
            known = self._known.get(at)
            if known is not None:
                yield known
                at = known.parent
                continue
            for commit in self._source.line(at):
                if commit.hash in self._known:  # joined a line that is known
                    at = commit.hash
                    break
                self._known[commit.hash] = commit
                yield commit
                at = commit.parent
            else:
                return

    def _show(self, at: CommitHash, reference: Pinned) -> Iterable[Live]:
        if at in self._shown:
            return
        self._shown.add(at)
        for put in self._source.visible(at):
            yield Live(put, at, reference.name)


def _is_past(commit: Commit, bound: Bound, position: int) -> bool:
    if bound is None:
        return False
    return position > bound if isinstance(bound, int) else commit.time < bound
