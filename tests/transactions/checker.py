"""Judges a history: what transactions saw and did, against the log of the branch that they committed to.

Pure, and knows nothing of servers or of how isolation is made: a history is plain values.  Every value is written
once, so a value tells who wrote it.  The log is the truth: `states[n]` is what there is after its first n commits.
What must hold at each level follows Adya's phenomena: `G0` dirty writes, `G1` reads of what was not committed, was not
final, or goes in circles, `P4` lost updates, `G-single` read skew, `G2` write skew and phantoms.  In the graph of
dependencies a transaction answers for what it overlooked only if it is serializable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

Value = str | None
"""What is under a key; None: nothing."""


class Level(StrEnum):
    READ_COMMITTED = "READ_COMMITTED"
    REPEATED_READ = "REPEATED_READ"
    SERIALIZABLE = "SERIALIZABLE"


class Outcome(StrEnum):
    """How a transaction ended, as far as its client was told."""

    COMMITTED = "COMMITTED"
    REFUSED = "REFUSED"
    DROPPED = "DROPPED"
    UNKNOWN = "UNKNOWN"


class Look(NamedTuple):
    """What one request saw: values of keys, and all the keys from a prefix on.

    `since` commits were there before it was sent, and no more than `until` when it was answered.
    """

    values: Mapping[str, Value] = {}
    listed: Mapping[str, frozenset[str]] = {}
    since: int = 0
    until: int = 0


class Write(NamedTuple):
    """What one request wrote, and what its writer had seen under these keys, as far as that is known."""

    values: Mapping[str, Value]
    over: Mapping[str, Value] = {}


@dataclass
class Told:
    """A transaction as its client tells it: it started from the first `start` commits.

    `commit` is how many commits there were with its own; it was asked for when there were `since` at least, and
    answered when there were `until` at most.
    """

    id: str
    level: Level
    start: int
    events: list[Look | Write] = field(default_factory=list)
    outcome: Outcome = Outcome.UNKNOWN
    commit: int | None = None
    since: int = 0
    until: int | None = None

    @property
    def looks(self) -> Iterator[tuple[Look, dict[str, Value]]]:
        """What it saw, with what it had written before."""
        own: dict[str, Value] = {}
        for event in self.events:
            if isinstance(event, Look):
                yield event, dict(own)
            else:
                own |= event.values

    @property
    def written(self) -> dict[str, Value]:
        """The last that it wrote to each key."""
        return {key: value for event in self.events if isinstance(event, Write) for key, value in event.values.items()}

    @property
    def seen_before_writing(self) -> dict[str, Value]:
        """What it knew to be under the keys that it wrote."""
        found: dict[str, Value] = {}
        for event in self.events:
            if isinstance(event, Write):
                found = {**event.over, **found}
        return found


class Commit(NamedTuple):
    """A commit of the log: what it wrote, and the transaction whose it says it is."""

    values: Mapping[str, Value]
    by: str = ""


class Anomaly(NamedTuple):
    name: str
    transaction: str
    text: str


def check(log: Sequence[Commit], transactions: Sequence[Told]) -> list[Anomaly]:
    """All that is wrong with a history; nothing, when it is as each transaction's level promises."""
    history = _History(log, transactions)
    return [*_check_commits(history), *_check_updates(history), *_check_reads(history), *_check_cycles(history)]


class _History:
    def __init__(self, log: Sequence[Commit], transactions: Sequence[Told]) -> None:
        self.log, self.told = log, {one.id: one for one in transactions}
        assert len(self.told) == len(transactions)
        self.states: list[dict[str, str]] = [{}]
        for commit in log:
            after = {**self.states[-1], **commit.values}
            self.states.append({key: value for key, value in after.items() if value is not None})
        self.places: dict[str, list[int]] = {}  # of a transaction's commits in the log
        for place, commit in enumerate(log):
            self.places.setdefault(commit.by, []).append(place)
        self.committed_at = {value: at for at, one in enumerate(log) for value in one.values.values() if value}
        self.writers = {
            value: one
            for one in transactions
            for event in one.events
            if isinstance(event, Write)
            for value in event.values.values()
            if value
        }

    def place(self, one: Told) -> int | None:
        """How many commits were before its own; None when it has none, and did not commit."""
        found = self.places.get(one.id)
        if found:
            return found[0]
        return min(one.commit or 0, len(self.log)) if one.outcome is Outcome.COMMITTED else None

    @property
    def committed(self) -> Iterator[tuple[Told, int]]:
        for one in self.told.values():
            place = self.place(one)
            if place is not None:
                yield one, place


# -- what was committed ---------------------------------------------------------------------------


def _check_commits(history: _History) -> Iterator[Anomaly]:
    for by in history.places:
        if by and by not in history.told:
            yield Anomaly("unexplained commit", by, "nobody tells of it")
    for one in history.told.values():
        places = history.places.get(one.id, [])
        if len(places) > 1:
            yield Anomaly("double commit", one.id, f"commits {places}")
        elif places:
            yield from _check_commit(history, one, places[0])
        elif one.outcome is Outcome.COMMITTED and _net(history, one, history.place(one) or 0):
            yield Anomaly("lost commit", one.id, f"{one.written} is in no commit")


def _check_commit(history: _History, one: Told, place: int) -> Iterator[Anomaly]:
    commit = history.log[place]
    if one.outcome in (Outcome.REFUSED, Outcome.DROPPED):
        yield Anomaly("commit of what was dropped", one.id, f"commit {place} although it was {one.outcome}")
    for key, value in commit.values.items():
        writer = history.writers.get(value or "")
        if writer and writer is not one:
            yield Anomaly("dirty write (G0)", one.id, f"its commit {place} has {writer.id}'s {key}={value}")
    wanted = _net(history, one, place)
    if dict(commit.values) != wanted:
        yield Anomaly("partial commit", one.id, f"commit {place} has {dict(commit.values)}, it wrote {wanted}")
    if one.outcome is Outcome.COMMITTED and one.commit != place + 1:
        yield Anomaly("wrong answer", one.id, f"it was told of commit {one.commit}, and is {place + 1}")
    if place < max(one.since, one.start) or (one.until is not None and place >= one.until):
        yield Anomaly("commit out of time", one.id, f"{place} is not within {one.since}…{one.until}")


def _net(history: _History, one: Told, place: int) -> dict[str, Value]:
    """What it wrote, but for what it both created and deleted."""
    return {k: v for k, v in one.written.items() if v is not None or history.states[place].get(k) is not None}


def _check_updates(history: _History) -> Iterator[Anomaly]:
    """What a commit replaced is what its writer had seen: nobody else's update is lost."""
    for one, place in history.committed:
        known = one.seen_before_writing
        for key in one.written:
            if one.level is Level.READ_COMMITTED and key not in known:
                continue
            seen = known[key] if one.level is Level.READ_COMMITTED else history.states[one.start].get(key)
            replaced = history.states[place].get(key)
            if replaced != seen:
                yield Anomaly("lost update (P4)", one.id, f"{key}: it replaced {replaced}, and had seen {seen}")


# -- what was read --------------------------------------------------------------------------------


def _check_reads(history: _History) -> Iterator[Anomaly]:
    for one in history.told.values():
        for look, own in one.looks:
            dirty = list(_check_values(history, one, look, own))
            yield from dirty or _check_state(history, one, look, own)
    for one, place in history.committed:
        if one.level is Level.SERIALIZABLE:
            for look, own in one.looks:
                yield from _check_serial(history, one, look, own, place)


def _check_values(history: _History, one: Told, look: Look, own: Mapping[str, Value]) -> Iterator[Anomaly]:
    """Each value is its own last one, or one that somebody committed."""
    for key, value in look.values.items():
        if key in own:
            if value != own[key]:
                yield Anomaly("own write unseen", one.id, f"{key}: it wrote {own[key]}, and saw {value}")
        elif value is not None and value not in history.committed_at:
            writer = history.writers.get(value)
            if writer is None:
                yield Anomaly("garbage read", one.id, f"{key}={value} was written by nobody")
            elif history.places.get(writer.id):
                yield Anomaly("intermediate read (G1b)", one.id, f"{key}={value} is not {writer.id}'s last")
            else:
                yield Anomaly("aborted read (G1a)", one.id, f"{key}={value} is {writer.id}'s, which never committed")


def _check_state(history: _History, one: Told, look: Look, own: Mapping[str, Value]) -> Iterator[Anomaly]:
    """A request sees one state: where it started, or, at READ COMMITTED, one that there was meanwhile."""
    last = len(history.log)
    strict = one.level is not Level.READ_COMMITTED
    allowed = range(one.start, one.start + 1) if strict else range(look.since, min(look.until, last) + 1)
    if any(_fits(history.states[n], look, own) for n in allowed):
        return
    if not any(_fits(state, look, own) for state in history.states):
        yield Anomaly("torn read", one.id, f"{_show(look)} is no state at all")
    elif strict:
        yield Anomaly("read skew (G-single)", one.id, f"{_show(look)} is not the state {one.start} that it began with")
    else:
        yield Anomaly("stale read", one.id, f"{_show(look)} is no state of {look.since}…{look.until}")


def _check_serial(history: _History, one: Told, look: Look, own: Mapping[str, Value], place: int) -> Iterator[Anomaly]:
    """All that it saw is still so where its commit is."""
    state = history.states[place]
    for key, value in look.values.items():
        if key not in own and state.get(key) != value:
            name = "phantom (G2)" if value is None else "write skew (G2-item)" if one.written else "read-only (G2-item)"
            yield Anomaly(name, one.id, f"{key}: it saw {value}, and at its commit {place} there is {state.get(key)}")
    for prefix, keys in look.listed.items():
        now = _list(state, prefix, own)
        if now != keys:
            yield Anomaly("phantom (G2)", one.id, f"{prefix}: {sorted(now ^ keys)} came or went before {place}")


def _fits(state: Mapping[str, str], look: Look, own: Mapping[str, Value]) -> bool:
    return all(key in own or state.get(key) == value for key, value in look.values.items()) and all(
        _list(state, prefix, own) == keys for prefix, keys in look.listed.items()
    )


def _list(state: Mapping[str, str], prefix: str, own: Mapping[str, Value]) -> set[str]:
    """The keys from a prefix on, with those that the reader wrote itself."""
    keys = (set(state) | {key for key, value in own.items() if value}) - {
        key for key, value in own.items() if not value
    }
    return {key for key in keys if _is_below(key, prefix)}


def _is_below(key: str, prefix: str) -> bool:
    return not prefix or key == prefix or key.startswith(prefix + ".")


def _show(look: Look) -> str:
    return f"{dict(look.values)} { ({prefix: sorted(keys) for prefix, keys in look.listed.items()}) }"


# -- who depends on whom --------------------------------------------------------------------------

Edges = dict[tuple[str, str], str]
"""(before, after) → why: ww, wr, rw, or rw of a listing."""


def _check_cycles(history: _History) -> Iterator[Anomaly]:
    edges = _find_edges(history)
    graph: dict[str, set[str]] = {}
    for before, after in edges:
        graph.setdefault(after, set()).add(before)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        kinds = [edges[pair] for pair in pairwise(cycle)]
        steps = " ".join(f"{name} -{kind}->" for name, kind in zip(cycle, kinds, strict=False))
        yield Anomaly(_name_cycle(kinds), cycle[0], f"{steps} {cycle[-1]}")


def _name_cycle(kinds: Sequence[str]) -> str:
    overlooked = sum(kind.startswith("rw") for kind in kinds)
    if not overlooked:
        return "cycle (G1c)" if "wr" in kinds else "cycle (G0)"
    return "cycle (G-single)" if overlooked == 1 else "cycle (G2)"


def _find_edges(history: _History) -> Edges:
    edges: Edges = {}
    names = [commit.by or f"commit {place}" for place, commit in enumerate(history.log)]

    def add(before: str, after: str, kind: str) -> None:
        if before != after:
            edges.setdefault((before, after), kind)

    last: dict[str, str] = {}
    for name, commit in zip(names, history.log, strict=True):
        for key in commit.values:
            if key in last:
                add(last[key], name, "ww")
            last[key] = name
    for one, _ in history.committed:
        for look, own in one.looks:
            foreign = {key: value for key, value in look.values.items() if key not in own}
            for value in foreign.values():
                if value in history.committed_at:
                    add(names[history.committed_at[value]], one.id, "wr")
            if one.level is Level.SERIALIZABLE:
                for place, kind in _find_overlooked(history, one, foreign, look):
                    add(one.id, names[place], kind)
    return edges


def _find_overlooked(
    history: _History, one: Told, foreign: Mapping[str, Value], look: Look
) -> Iterator[tuple[int, str]]:
    """The commits that first changed what a transaction saw: they come after it, if there is an order at all."""
    for key, value in foreign.items():
        first = history.committed_at.get(value or "", one.start - 1) + 1
        found = (place for place in range(first, len(history.log)) if key in history.log[place].values)
        place = next(found, None)
        if place is not None:
            yield place, "rw"
    for prefix in look.listed:
        for place in range(one.start, len(history.log)):
            before, after = history.states[place], history.states[place + 1]
            is_own = history.log[place].by == one.id
            if not is_own and any(_is_below(key, prefix) for key in set(before) ^ set(after)):
                yield place, "rw of a listing"
                break
