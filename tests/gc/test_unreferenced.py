"""Dropped tables and thrown-away branches are found from history, once nobody has held them for long enough."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.mark import Pinned
from nessie_ops.gc.policies import Bound, Policies
from nessie_ops.gc.source import Catalog, Past
from nessie_ops.gc.storage import Stores
from nessie_ops.gc.unreferenced import find_unreferenced
from nessie_ops.model import ContentKey, Delete, Put, ReferenceType
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import HOUR, Lake, State


@pytest.fixture
def lake() -> Iterator[Lake]:
    lake = Lake()
    yield lake
    lake.close()


def put(lake: Lake, branch: str, key: str) -> None:
    lake.put(branch, key, lake.append(lake.state(branch, key) or State(f"{lake.root}/{key}"), ["a"]))


def find(lake: Lake, *, bound: Bound = 1, age: timedelta = timedelta(0)) -> set[str]:
    pinned = [Pinned(found.name, found.hash, bound) for found in lake.versions.list_references()]
    found = find_unreferenced(Catalog(lake.versions), pinned, lake.now - age)
    return {str(dropped.put.key) for dropped in found.values()}


def test_a_dropped_table_is_found_when_its_time_is_over(lake: Lake) -> None:
    for key in ("kept", "dropped"):
        put(lake, "main", key)
    lake.commit("main", Delete(key=ContentKey.of("dropped")))
    put(lake, "main", "kept")
    lake.now += 10 * HOUR
    assert find(lake, age=9 * HOUR) == {"dropped"}
    assert find(lake, age=12 * HOUR) == set()
    assert find(lake, bound=None) == set()


def test_what_a_thrown_away_branch_had_is_found(lake: Lake) -> None:
    put(lake, "main", "kept")
    head = lake.versions.get_reference("main").hash
    for n in range(3):
        lake.versions.create_reference(ReferenceType.BRANCH, f"b{n}", head)
        put(lake, f"b{n}", f"only{n}")
    lake.now += HOUR
    lake.versions.delete_reference("b0", None)
    lake.versions.assign_reference("b1", None, head)
    lake.now += 10 * HOUR
    assert find(lake, age=5 * HOUR) == {"only0", "only1"}
    assert find(lake, age=11 * HOUR) == set()


def test_a_renamed_table_is_not_unreferenced(lake: Lake) -> None:
    put(lake, "main", "before")
    content = lake.content("main", "before")
    assert content is not None
    lake.commit("main", Delete(key=ContentKey.of("before")), Put(key=ContentKey.of("after"), content=content))
    lake.now += 10 * HOUR
    assert find(lake) == set()


def test_a_branch_that_is_younger_than_its_commits_holds_them_until_it_goes(lake: Lake) -> None:
    """The table was dropped long ago, but a branch from before that went only now."""
    put(lake, "main", "dropped")
    lake.versions.create_reference(ReferenceType.BRANCH, "old", lake.versions.get_reference("main").hash)
    lake.commit("main", Delete(key=ContentKey.of("dropped")))
    put(lake, "main", "kept")
    lake.now += 100 * HOUR
    assert find(lake) == set()
    lake.versions.delete_reference("old", None)
    lake.now += HOUR
    assert find(lake, age=2 * HOUR) == set()
    assert find(lake) == {"dropped"}


def test_a_table_that_was_dropped_just_now_where_no_log_of_references_tells(lake: Lake) -> None:
    """The commit that dropped it is within the age; what it dropped was visible before it alone."""

    class Forgetful(Catalog):
        def past(self) -> Iterator[Past]:
            yield from ()

    put(lake, "main", "dropped")
    lake.now += 100 * HOUR
    lake.commit("main", Delete(key=ContentKey.of("dropped")))
    put(lake, "main", "kept")
    head = Pinned("main", lake.versions.get_reference("main").hash, 1)

    def found(age: timedelta) -> set[str]:
        rows = find_unreferenced(Forgetful(lake.versions), [head], lake.now - age).values()
        return {str(row.put.key) for row in rows}

    assert found(3 * HOUR) == set()
    assert found(HOUR) == set()
    assert found(HOUR / 2) == {"dropped"}


def test_files_of_a_dropped_table_are_deleted_and_no_others(lake: Lake) -> None:
    for key in ("kept", "dropped"):
        put(lake, "main", key)
    lake.commit("main", Delete(key=ContentKey.of("dropped")))
    put(lake, "main", "kept")
    lake.now += 100 * HOUR
    before = lake.list_files()
    sets = LiveSets.open("sqlite://")
    try:
        context = Context(lambda: lake.now, "me", lambda step, count: None)
        source, stores = Catalog(lake.versions), Stores()
        settings = MarkSettings("test", Policies(lake.now, "P1D"))
        for age, gone in (
            (timedelta(hours=200), set()),
            (timedelta(hours=50), {f for f in before if "/dropped/" in f}),
        ):
            identify.begin(sets, source, str(age), settings, context)
            identify.identify(sets, source, str(age), context)
            swept = expire.sweep(
                sets, str(age), source, stores, expire.SweepSettings(unreferenced_age=age, is_forced=True), context
            )
            assert not swept.stopped
            assert set(before) - set(lake.list_files()) == gone
            assert len(gone) in (0, 4)
    finally:
        sets.close()
