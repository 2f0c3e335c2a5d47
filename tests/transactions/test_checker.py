"""The checker of histories: each anomaly, written down by hand, is found, and what is right is let pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.transactions.checker import Anomaly, Commit, Level, Look, Outcome, Told, Value, Write, check

READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Level
COMMITTED, REFUSED, DROPPED, UNKNOWN = Outcome
LEVELS = list(Level)
FIRST = Commit({"a": "a0", "b": "b0", "n": "n0", "n.x": "x0"})  # states: 0 empty, 1 this


def saw(since: int = 1, until: int = 1, **values: Value) -> Look:
    return Look({key.replace("_", "."): value for key, value in values.items()}, {}, since, until)


def listed(*keys: str, since: int = 1, until: int = 1) -> Look:
    return Look({}, {"n": frozenset(keys)}, since, until)


def wrote(*over: Value, **values: Value) -> Write:
    keys = [key.replace("_", ".") for key in values]
    return Write(dict(zip(keys, values.values(), strict=True)), dict(zip(keys, over, strict=False)))


def told(id: str, level: Level, *events: Look | Write, commit: int | None = None, start: int = 1) -> Told:
    """Committed, when it says where."""
    outcome = COMMITTED if commit is not None else REFUSED
    return Told(id, level, start, list(events), outcome, commit)


def names(log: Sequence[Commit], *transactions: Told) -> set[str]:
    return {anomaly.name for anomaly in check([FIRST, *log], transactions)}


def test_what_is_right_is_let_pass() -> None:
    log = [
        Commit({"a": "a1", "b": "b1"}, "t1"),
        Commit({"n.y": "y1"}, "t2"),
        Commit({"n.x": None}, ""),
        Commit({"a": "a3", "n.y": "y3"}, "t3"),
    ]
    t1 = told("t1", SERIALIZABLE, saw(a="a0", b="b0"), wrote(a="?"), wrote(a="a1", b="b1"), saw(a="a1"), commit=2)
    t2 = told("t2", REPEATED_READ, listed("n", "n.x"), saw(a="a0", n_y=None), wrote(n_y="y1", c="c1"), commit=3)
    t2.events += [wrote(c=None), listed("n", "n.x", "n.y"), saw(c=None)]
    t3 = told("t3", READ_COMMITTED, saw(1, 2, a="a0"), saw(1, 2, a="a1", b="b1"), commit=5)
    t3.events += [listed("n", "n.y", since=2, until=4), wrote("a1", "y1", a="a3", n_y="y3"), saw(3, 4, a="a3", b="b1")]
    refused = told("t4", SERIALIZABLE, saw(a="a0"), wrote(a="a4"), saw(a="a4"))
    reader = told("t5", SERIALIZABLE, saw(a="a1", b="b1"), listed("n", "n.y"), start=4, commit=4)
    lost = Told("t6", REPEATED_READ, 1, [wrote(b="b6")])
    assert check([FIRST, *log], [t1, t2, t3, refused, reader, lost]) == []


def test_commits() -> None:
    def with_outcome(outcome: Outcome, log: Sequence[Commit], commit: int | None = None, **times: int) -> set[str]:
        one = Told("t", REPEATED_READ, 1, [wrote(a="a1", b="b1")], outcome, commit, **times)  # type: ignore[arg-type]
        return names(log, one)

    whole = Commit({"a": "a1", "b": "b1"}, "t")
    assert with_outcome(COMMITTED, [whole], 2) == with_outcome(UNKNOWN, [whole]) == with_outcome(UNKNOWN, []) == set()
    assert with_outcome(COMMITTED, [], 2) == {"lost commit"}
    assert "double commit" in with_outcome(COMMITTED, [whole, Commit({"a": "a1"}, "t")], 2)
    assert "double commit" in with_outcome(UNKNOWN, [whole, whole])
    assert with_outcome(REFUSED, [whole]) == with_outcome(DROPPED, [whole]) == {"commit of what was dropped"}
    assert with_outcome(COMMITTED, [Commit({"a": "a1"}, "t")], 2) == {"partial commit"}
    assert with_outcome(COMMITTED, [whole], 1) == {"wrong answer"}
    assert with_outcome(COMMITTED, [whole], 2, since=2) == {"commit out of time"}
    assert with_outcome(COMMITTED, [whole], 2, until=1) == {"commit out of time"}
    assert names([Commit({"a": "a1"}, "nobody")]) == {"unexplained commit"}


def test_dirty_write() -> None:
    """Two write both keys, and each has the last word on one of them."""
    one = told("t1", READ_COMMITTED, wrote(a="a1", b="b1"), commit=2)
    two = told("t2", READ_COMMITTED, wrote(a="a2", b="b2"), commit=3)
    found = names([Commit({"a": "a1", "b": "b2"}, "t1"), Commit({"a": "a2", "b": "b1"}, "t2")], one, two)
    assert "dirty write (G0)" in found


@pytest.mark.parametrize("level", LEVELS)
def test_reads_of_what_was_not_committed(level: Level) -> None:
    reader = told("t", level, saw(a="a1"))
    writer = told("w", REPEATED_READ, wrote(a="a1"))
    assert names([], reader, writer) == {"aborted read (G1a)"}
    twice = told("w", REPEATED_READ, wrote(a="a1"), wrote(a="a2"), commit=2)
    assert names([Commit({"a": "a2"}, "w")], reader, twice) == {"intermediate read (G1b)"}
    assert names([], told("t", level, saw(a="?"))) == {"garbage read"}
    assert names([], told("t", level, wrote(a="a1"), saw(a="a0"))) == {"own write unseen"}


@pytest.mark.parametrize("level", LEVELS)
def test_each_reads_what_the_other_wrote(level: Level) -> None:
    one = told("t1", level, wrote(a="a1"), saw(1, 3, b="b1"), commit=2)
    two = told("t2", level, wrote(b="b1"), saw(1, 3, a="a1"), commit=3)
    assert "cycle (G1c)" in names([Commit({"a": "a1"}, "t1"), Commit({"b": "b1"}, "t2")], one, two)


@pytest.mark.parametrize("level", LEVELS)
def test_lost_update(level: Level) -> None:
    log = [Commit({"a": "a1"}, "t1"), Commit({"a": "a2"}, "t2")]
    both = [told(f"t{n}", level, saw(a="a0"), wrote("a0", a=f"a{n}"), commit=n + 1) for n in (1, 2)]
    assert "lost update (P4)" in names(log, *both)
    again = told("t2", level, saw(2, 2, a="a1"), wrote("a1", a="a2"), start=2, commit=3)
    assert names(log, both[0], again) == set()
    blind = told("t2", level, wrote(a="a2"), commit=3)
    assert names(log, both[0], blind) == (set() if level is READ_COMMITTED else {"lost update (P4)"})


@pytest.mark.parametrize("level", LEVELS)
def test_write_skew(level: Level) -> None:
    one = told("t1", level, saw(a="a0", b="b0"), wrote("a0", a="a1"), commit=2)
    two = told("t2", level, saw(a="a0", b="b0"), wrote("b0", b="b1"), commit=3)
    found = names([Commit({"a": "a1"}, "t1"), Commit({"b": "b1"}, "t2")], one, two)
    assert found == ({"write skew (G2-item)", "cycle (G2)"} if level is SERIALIZABLE else set())


def test_only_serializable_ones_answer_for_what_they_overlooked() -> None:
    log = [Commit({"a": "a1"}, "t1"), Commit({"b": "b1"}, "t2")]
    one = told("t1", SERIALIZABLE, saw(b="b0"), wrote("a0", a="a1"), commit=2)
    two = told("t2", REPEATED_READ, saw(a="a0"), wrote("b0", b="b1"), commit=3)
    assert names(log, one, two) == set()


def test_the_anomaly_of_a_reader() -> None:
    """Fekete's: t1 is before t2, since it overlooked it, and the reader saw t2, and not t1."""
    log = [Commit({"b": "b2"}, "t2"), Commit({"a": "a1"}, "t1")]
    two = told("t2", SERIALIZABLE, saw(b="b0"), wrote("b0", b="b2"), commit=2)
    one = told("t1", REPEATED_READ, saw(a="a0", b="b0"), wrote("a0", a="a1"), commit=3)
    early = told("r", SERIALIZABLE, saw(a="a0", b="b2"), start=2, commit=2)
    assert names(log, two, one, early) == set()
    late = told("r", SERIALIZABLE, saw(a="a0", b="b2"), start=2, commit=3)
    assert names(log, two, one, late) == {"read-only (G2-item)"}
    strict = told("t1", SERIALIZABLE, saw(a="a0", b="b0"), wrote("a0", a="a1"), commit=3)
    assert {"write skew (G2-item)", "cycle (G2)"} <= names(log, two, strict, early)


@pytest.mark.parametrize("level", LEVELS)
def test_phantoms(level: Level) -> None:
    log = [Commit({"n.y": "y1"}, ""), Commit({"a": "a1"}, "t")]
    for look in (listed("n", "n.x"), saw(n_y=None)):
        found = names(log, told("t", level, look, wrote("a0", a="a1"), commit=3))
        assert found == ({"phantom (G2)"} if level is SERIALIZABLE else set())
    gone = [Commit({"n.x": None}, ""), Commit({"a": "a1"}, "t")]
    found = names(gone, told("t", level, listed("n", "n.x"), wrote("a0", a="a1"), commit=3))
    assert found == ({"phantom (G2)"} if level is SERIALIZABLE else set())


def test_phantoms_make_cycles() -> None:
    """Each lists the namespace and adds a table to it."""
    log = [Commit({"n.y": "y1"}, "t1"), Commit({"n.z": "z1"}, "t2")]
    both = [told("t1", SERIALIZABLE, listed("n", "n.x"), wrote(None, n_y="y1"), commit=2)]
    both += [told("t2", SERIALIZABLE, listed("n", "n.x"), wrote(None, n_z="z1"), commit=3)]
    assert names(log, *both) == {"phantom (G2)", "cycle (G2)"}


@pytest.mark.parametrize("level", LEVELS)
def test_torn_reads(level: Level) -> None:
    """A request that sees half of a commit; two requests that see two states."""
    log = [Commit({"a": "a1", "b": "b1"}, "")]
    assert names(log, told("t", level, saw(1, 2, a="a1", b="b0"))) == {"torn read"}
    half = Look({"a": "a0"}, {"n": frozenset({"n", "n.x", "n.y"})}, 1, 2)
    assert names([Commit({"a": "a1", "n.y": "y1"})], told("t", level, half)) == {"torn read"}
    two = told("t", level, saw(1, 2, a="a0"), saw(1, 2, b="b1"))
    assert names(log, two) == (set() if level is READ_COMMITTED else {"read skew (G-single)"})


def test_what_read_committed_sees_was_there_meanwhile() -> None:
    log = [Commit({"a": "a1"}, ""), Commit({"a": "a2"}, "")]
    assert names(log, told("t", READ_COMMITTED, saw(2, 3, a="a0"))) == {"stale read"}
    assert names(log, told("t", READ_COMMITTED, saw(1, 2, a="a2"))) == {"stale read"}
    assert names(log, told("t", READ_COMMITTED, saw(1, 3, a="a2"))) == set()


def test_a_cycle_through_one_that_saw_the_future() -> None:
    """The reader is after t2, whose write it saw, and before t1, which it overlooked, and t2 replaced what t1 wrote."""
    log = [Commit({"a": "a1"}, "t1"), Commit({"a": "a2", "b": "b2"}, "t2"), Commit({"n": "n3"}, "r")]
    one = told("t1", SERIALIZABLE, wrote("a0", a="a1"), commit=2)
    two = told("t2", SERIALIZABLE, wrote("a1", "b0", a="a2", b="b2"), start=2, commit=3)
    reader = told("r", SERIALIZABLE, saw(a="a0"), saw(b="b2"), wrote("n0", n="n3"), commit=4)
    found = check([FIRST, *log], [one, two, reader])
    assert {"read skew (G-single)", "write skew (G2-item)", "cycle (G-single)"} == {each.name for each in found}
    assert all(isinstance(each, Anomaly) and each.transaction in "t1 t2 r" for each in found)
