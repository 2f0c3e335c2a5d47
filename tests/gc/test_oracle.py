"""Over random catalogs, what is deleted is what brute force finds: no live file, and every dead one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nessie_ops.gc import deferred, expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.model import NO_ANCESTOR, Branch, ContentKey, Delete, IcebergTable, Put, PutLog, ReferenceType
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import HOUR, START, Lake, State
from tests.gc.mixed import BUCKET, MixedLake, key_of

EXAMPLES = int(os.environ.get("NESSIE_OPS_GC_EXAMPLES", "150"))
LOCATIONS = ["t0", "t1", "t1/nested", "t10", "shared", "shared", "a b%20", "t1/", ""]
SCHEMES = ["s3", "s3a", "s3n", "S3"]
POLICIES = ["NONE", "1", "0", "2", "5", "P1D", "PT5H", "PT0S", (START + 6 * HOUR).isoformat()]
REFERENCES = ["main", "branch.*", "tag.*", "(tag|branch)[0-9]+", "tag1|main", ".*"]
MOVES = ["branch", "tag", "drop reference", "assign"]
TABLES = ["create", "append", "append", "delete", "expire", "drop", "rename", "move", "view", "old", "junk"]

step = st.tuples(st.sampled_from(TABLES + MOVES), st.integers(0, 3), st.integers(0, 4), st.integers(0, 35))
plans = st.lists(step, max_size=25)
revival = st.tuples(
    st.sampled_from(["branch", "branch", "tag", "assign", "old", "drop reference", "append", "drop"]),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 35),
)


def branch_of(lake: Lake, n: int) -> str:
    branches = [found.name for found in lake.versions.list_references() if isinstance(found, Branch)]
    return branches[n % len(branches)]


def place_at(lake: Lake, n: int) -> str:
    """A location, on S3 in one of its spellings; in memory a file has the name that it was written with, no other."""
    name = LOCATIONS[n % len(LOCATIONS)]
    if not lake.root.startswith("s3"):
        return f"{lake.root}/{name}".rstrip("/")
    return f"{lake.root.replace('s3', SCHEMES[n // len(LOCATIONS) % len(SCHEMES)], 1)}/{name}"


def take_step(lake: Lake, kind: str, a: int, b: int, c: int) -> None:
    """One random change of the lake; changes nothing where it makes no sense."""
    if kind in MOVES:
        move_reference(lake, kind, a, b)
        return
    name, key, location = branch_of(lake, a), f"k{b}", place_at(lake, c)
    state = lake.state(name, key)
    if kind == "junk":
        lake.write(f"{location}/data/junk-{next(lake.ids)}")
    elif kind == "view":
        lake.put(name, key, State(location, is_table=False))
    elif kind == "create" or state is None or not state.is_table:
        lake.put(name, key, lake.append(State(location), ["new"], statistics=c % 2 == 0), same_content=False)
    elif kind == "append":
        lake.put(name, key, lake.append(state, ["x"] * (1 + c % 2), statistics=c % 3 == 0))
    elif kind == "delete":
        lake.put(name, key, lake.delete(state, c % 3))
    elif kind == "expire":
        lake.put(name, key, lake.expire(state))
    elif kind == "move":
        lake.put(name, key, lake.append(State(location, True, state.snapshots, state.log), ["moved"]))
    elif kind == "old":  # a table is rolled back to, or registered from, metadata of the past
        lake.put_location(name, key, sorted(lake.needs)[c % len(lake.needs)])
    elif kind == "drop":
        lake.commit(name, Delete(key=ContentKey.of(key)))
    elif kind == "rename":
        content = lake.content(name, key)
        other = ContentKey.of(f"k{(b + 1) % 5}")
        assert content is not None
        if lake.content(name, str(other)) is None:
            lake.commit(name, Delete(key=ContentKey.of(key)), Put(key=other, content=content))


def move_reference(lake: Lake, kind: str, a: int, b: int) -> None:
    name = branch_of(lake, a)
    if kind in ("branch", "tag"):
        log = lake.versions.list_log(lake.versions.get_reference(name).hash, limit=b + 1)
        target = log[-1].commit_meta.hash if log else NO_ANCESTOR
        kinds = ReferenceType.BRANCH if kind == "branch" else ReferenceType.TAG
        lake.versions.create_reference(kinds, f"{kind}{next(lake.ids)}", target)
    elif kind == "assign" and isinstance(lake, MixedLake):
        lake.assign(name, b)
    elif isinstance(lake, MixedLake):
        others = [found.name for found in lake.versions.list_references() if found.name != "main"]
        if others:
            lake.drop_reference(others[a % len(others)])


def list_live(lake: Lake, policies: Policies, *, only_named: bool) -> tuple[set[str], set[str], set[str]]:
    """Live files, locations and contents, by walking every reference alone."""
    files: set[str] = set()
    bases: set[str] = set()
    ids: set[str] = set()
    for reference in lake.versions.list_references():
        for content in list_kept(lake, reference.hash, policies.of(reference.name)):
            state = lake.needs[content.metadata_location]
            ids.add(str(content.id))
            bases.add(state.location)
            files.add(content.metadata_location)
            if not only_named:
                files.update(state.log)
            for snapshot in state.snapshots:
                if not only_named or (isinstance(content, IcebergTable) and snapshot.id == content.snapshot_id):
                    files |= snapshot.files
    return files, bases, ids


def list_kept(lake: Lake, head: Any, bound: int | datetime | None) -> list[Any]:
    """The contents that kept commits put, and those that are visible at the last of them."""
    last, contents = head, []
    for position, entry in enumerate(lake.versions.list_log(head, limit=10_000, with_operations=True), start=1):
        if position > 1 and isinstance(bound, int) and position > bound:
            break
        if position > 1 and isinstance(bound, datetime) and entry.commit_meta.commit_time < bound:
            break
        last = entry.commit_meta.hash
        contents += [put.content for put in entry.operations or () if isinstance(put, PutLog)]
    return contents + [row.content for row in lake.versions.list_entries(last, with_content=True)]


def list_unreferenced(lake: MixedLake, kept: set[str], age: timedelta) -> set[tuple[str, str]]:
    """The contents that no reference kept, and none held since, with their last locations."""
    lake.look()
    since = lake.now - age
    return {(id, place) for id, place in lake.last_put.items() if id not in kept and lake.held.get(id, START) < since}


class Case:
    """One lake, the live set of its mark, and what brute force finds of both."""

    def __init__(self, sets: LiveSets, policies: tuple[str, list[tuple[str, str]]], only_named: bool) -> None:
        self.lake, self.sets = MixedLake(), sets
        self.source = Catalog(self.lake.versions)
        self.context = Context(lambda: self.lake.now, "me", lambda step, count: None)
        self.default, self.rules, self.only_named = policies[0], tuple(policies[1]), only_named
        self.live: set[str] = set()

    def close(self) -> None:
        for record in self.sets.list_live_sets():
            self.sets.delete(record.number)
        self.lake.close()

    def take(self, plan: list[tuple[str, int, int, int]]) -> None:
        """Change the lake."""
        for each in plan:
            take_step(self.lake, *each)

    def look(self) -> None:
        """What is live now must stay."""
        self.live |= {key_of(file) for file in self.list_live()[0]}

    def list_live(self) -> tuple[set[str], set[str], set[str]]:
        return list_live(self.lake, self.policies, only_named=self.only_named)

    def begin(self, plan: list[tuple[str, int, int, int]]) -> None:
        self.take(plan)
        self.lake.now += HOUR
        self.policies = Policies(self.lake.now, self.default, self.rules)
        self.look()
        self.files = self.lake.list_files()
        identify.begin(self.sets, self.source, "id", MarkSettings("test", self.policies), self.context)

    def find_dead(self, chosen: expire.SweepSettings, bases: set[str]) -> set[str]:
        """What may be deleted of the files that were there when the mark began."""
        limit = identify.get_live_set(self.sets, "id").created_at
        last = identify.from_micros(limit) - chosen.grace
        allowed = [key_of(place).rstrip("/") + "/" for place in chosen.allowed_locations]
        folders = {key_of(base).rstrip("/") + "/" for base in bases} - {BUCKET + "/"}
        listed = tuple(each for each in folders if not allowed or each.startswith(tuple(allowed)))
        return {
            file
            for file, changed in self.files.items()
            if changed <= last and file not in self.live and file.startswith(listed)
        }


@pytest.fixture(scope="module")
def shared_sets() -> Iterator[LiveSets]:
    """One database for all cases, since to make it takes longer than a case."""
    sets = LiveSets.open("sqlite://")
    yield sets
    sets.close()


DEAD: list[tuple[str, int, int, int]] = [("create", 0, 0, 0), ("create", 0, 0, 0), ("append", 0, 1, 0)]
THROWN: list[tuple[str, int, int, int]] = [("branch", 0, 0, 0), ("create", 1, 0, 1), ("drop reference", 0, 0, 0)]
OLD: tuple[str, int, int, int] = ("branch", 0, 3, 0)


def case_of(plan: list[tuple[str, int, int, int]], *meanwhile: list[tuple[str, int, int, int]], **given: Any) -> Any:
    """A case that every run has: of a table's first version the mark finds that it is dead."""
    usual = {"policies": ("1", []), "grace": timedelta(0), "age": None, "allowed": (), "flags": (False, True, False)}
    return example(plan=plan, meanwhile=meanwhile or ([], [], []), **usual | given)


@case_of(DEAD, [OLD], [], [])
@case_of(DEAD, [], [OLD], [])
@case_of(DEAD, [], [], [OLD], flags=(False, True, True))
@case_of([("create", 0, 0, 9), ("move", 0, 0, 27), ("append", 0, 0, 0)])
@case_of([*THROWN, ("append", 0, 1, 0)], age=5.5 * HOUR)
@case_of([*THROWN, *[("append", 0, 1, 0)] * 8], age=5.5 * HOUR)
@pytest.mark.timeout(max(900, EXAMPLES))
@settings(max_examples=EXAMPLES, deadline=None)
@given(
    plan=plans,
    meanwhile=st.tuples(*(st.lists(revival, max_size=size) for size in (3, 4, 4))),
    policies=st.tuples(
        st.sampled_from(POLICIES),
        st.lists(st.tuples(st.sampled_from(REFERENCES), st.sampled_from(POLICIES)), max_size=3),
    ),
    grace=st.sampled_from([timedelta(0), 3 * HOUR, 24 * HOUR]),
    age=st.sampled_from([None, None, timedelta(0), 5.5 * HOUR, 30.5 * HOUR]),
    allowed=st.sampled_from([(), (), ("s3a://lake/t1",), ("s3://lake/shared/", "s3n://lake/a b%20")]),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_what_is_deleted_is_what_brute_force_finds(
    shared_sets: LiveSets,
    plan: list[tuple[str, int, int, int]],
    meanwhile: tuple[list[tuple[str, int, int, int]], ...],
    policies: tuple[str, list[tuple[str, str]]],
    grace: timedelta,
    age: timedelta | None,
    allowed: tuple[str, ...],
    flags: tuple[bool, bool, bool],
) -> None:
    """Also of what changes after the references are pinned, after the mark, and before recorded files are deleted."""
    only_named, is_exact, is_deferred = flags
    case = Case(shared_sets, policies, only_named)
    try:
        case.begin(plan)
        _, bases, kept = case.list_live()
        dropped = set() if age is None else list_unreferenced(case.lake, kept, age)
        case.take(meanwhile[0])
        identify.identify(case.sets, case.source, "id", case.context)
        case.take(meanwhile[1])
        since = case.lake.now - case.policies.ref_time
        still = set() if age is None else dropped & list_unreferenced(case.lake, kept, since + age)
        chosen = expire.SweepSettings(
            grace=grace,
            is_forced=True,
            only_named=only_named,
            is_exact=is_exact,
            expected_files=8,
            fpp=1e-9,
            allowed_fpp=1e-8,
            unreferenced_age=age,
            allowed_locations=allowed,
            is_deferred=is_deferred,
        )
        swept = expire.sweep(case.sets, "id", case.source, case.lake.stores, chosen, case.context)
        assert not swept.stopped
        assert not swept.expansion.broken
        if is_deferred:
            case.take(meanwhile[2])
            deferred.delete_recorded(case.sets, "id", case.source, case.lake.stores, case.context)
        case.look()
        gone = set(case.files) - set(case.lake.list_files())
        least, most = ({place for _, place in each} for each in (still, dropped))
        # What was held once more meanwhile need not be listed.
        assert case.find_dead(chosen, bases | least) <= gone <= case.find_dead(chosen, bases | most)
    finally:
        case.close()
