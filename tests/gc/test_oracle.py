"""Over random catalogs, what is deleted is what brute force finds: no live file, and every dead one."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nessie_ops.gc import expire, identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Stores
from nessie_ops.model import NO_ANCESTOR, Branch, ContentKey, Delete, IcebergTable, PutLog, ReferenceType
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import HOUR, START, Lake, State

EXAMPLES = int(os.environ.get("NESSIE_OPS_GC_EXAMPLES", "150"))
LOCATIONS = ["t0", "t1", "t1/nested", "t10", "shared", "shared", "a b%20"]
POLICIES = ["NONE", "1", "2", "5", "P1D", "PT5H", "PT0S", (START + 6 * HOUR).isoformat()]

step = st.tuples(
    st.sampled_from(
        [
            "create",
            "append",
            "append",
            "delete",
            "expire",
            "drop",
            "rename",
            "move",
            "view",
            "old",
            "junk",
            "branch",
            "tag",
        ]
    ),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 6),
)


def branch_of(lake: Lake, n: int) -> str:
    branches = [found.name for found in lake.versions.list_references() if isinstance(found, Branch)]
    return branches[n % len(branches)]


def take_step(lake: Lake, kind: str, a: int, b: int, c: int) -> None:
    """One random change of the lake; changes nothing where it makes no sense."""
    name, key, location = branch_of(lake, a), f"k{b}", f"{lake.root}/{LOCATIONS[c]}"
    state = lake.state(name, key)
    if kind in ("branch", "tag"):
        log = lake.versions.list_log(lake.versions.get_reference(name).hash, limit=b + 1)
        target = log[-1].commit_meta.hash if log else NO_ANCESTOR
        kinds = ReferenceType.BRANCH if kind == "branch" else ReferenceType.TAG
        lake.versions.create_reference(kinds, f"{kind}{next(lake.ids)}", target)
    elif kind == "junk":
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
            from nessie_ops.model import Put

            lake.commit(name, Delete(key=ContentKey.of(key)), Put(key=other, content=content))


def list_live(lake: Lake, policies: Policies, *, only_named: bool) -> tuple[set[str], set[str]]:
    """Live files and bases, by walking every reference alone."""
    files: set[str] = set()
    bases: set[str] = set()
    for reference in lake.versions.list_references():
        bound = policies.of(reference.name)
        last = reference.hash
        contents: list[Any] = []
        for position, entry in enumerate(lake.versions.list_log(last, limit=10_000, with_operations=True), start=1):
            if position > 1 and isinstance(bound, int) and position > bound:
                break
            if (
                position > 1
                and bound is not None
                and not isinstance(bound, int)
                and entry.commit_meta.commit_time < bound
            ):
                break
            last = entry.commit_meta.hash
            contents += [put.content for put in entry.operations or () if isinstance(put, PutLog)]
        contents += [row.content for row in lake.versions.list_entries(last, with_content=True)]
        for content in contents:
            state = lake.needs[content.metadata_location]
            bases.add(state.location)
            files.add(content.metadata_location)
            if not only_named:
                files.update(state.log)
            for snapshot in state.snapshots:
                if not only_named or (isinstance(content, IcebergTable) and snapshot.id == content.snapshot_id):
                    files |= snapshot.files
    return files, bases


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    plan=st.lists(step, max_size=25),
    default=st.sampled_from(POLICIES),
    rules=st.lists(
        st.tuples(st.sampled_from(["main", "branch.*", "tag.*", ".*"]), st.sampled_from(POLICIES)), max_size=3
    ),
    grace=st.sampled_from([timedelta(0), 3 * HOUR, 24 * HOUR]),
    only_named=st.booleans(),
    is_exact=st.booleans(),
)
def test_what_is_deleted_is_what_brute_force_finds(
    plan: list[tuple[str, int, int, int]],
    default: str,
    rules: list[tuple[str, str]],
    grace: timedelta,
    only_named: bool,
    is_exact: bool,
) -> None:
    lake, sets = Lake(), LiveSets.open("sqlite://")
    try:
        for each in plan:
            take_step(lake, *each)
        lake.now += HOUR
        policies = Policies(lake.now, default, tuple(rules))
        before = lake.list_files()
        live, bases = list_live(lake, policies, only_named=only_named)
        limit = lake.now - grace
        dead = {
            location
            for location, changed in before.items()
            if location not in live and changed <= limit and any(location.startswith(base + "/") for base in bases)
        }
        context = Context(lambda: lake.now, "me", lambda step, count: None)
        source, stores = Catalog(lake.versions), Stores()
        identify.begin(sets, source, "id", MarkSettings("test", policies), context)
        identify.identify(sets, source, "id", context)
        swept = expire.sweep(
            sets,
            "id",
            source,
            stores,
            expire.SweepSettings(
                grace=grace,
                is_forced=True,
                only_named=only_named,
                is_exact=is_exact,
                expected_files=8,
                fpp=1e-9,
                allowed_fpp=1e-8,
            ),
            context,
        )
        assert not swept.stopped
        assert not swept.expansion.broken
        assert set(before) - set(lake.list_files()) == dead
    finally:
        sets.close()
        lake.close()
