"""Marking over random catalogs finds exactly what a walk of each reference alone finds, and fetches commits once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.policies import Bound
from nessie_ops.gc.source import FIRST_PAGE, Catalog, Version
from nessie_ops.model import (
    NO_ANCESTOR,
    Branch,
    ContentKey,
    Delete,
    IcebergTable,
    IcebergView,
    NewCommit,
    Put,
    PutLog,
    ReferenceType,
)
from nessie_ops.model.content import with_id
from nessie_ops.versioning.versionstore import VersionStore

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
Plan = list[tuple[object, ...]]


class Made:
    """A catalog whose clock and metadata locations count up."""

    def __init__(self) -> None:
        self.now = START
        self.count = 0
        self.versions = VersionStore.open("sqlite://", clock=lambda: self.now)

    def commit(self, branch: str, puts: tuple[int, ...], deletes: tuple[int, ...] = ()) -> None:
        """New versions of tables `puts`, no tables `deletes`; an hour later than the last one."""
        head = self.versions.get_reference(branch).hash
        keys = {n: ContentKey.of(f"t{n}") for n in (*puts, *deletes)}
        known = self.versions.get_contents(head, keys.values())
        operations: list[Put | Delete] = []
        for n in puts:
            self.count += 1
            location, old = f"s3://bucket/t{n}/{self.count}.json", known.get(keys[n])
            content: IcebergTable | IcebergView = (
                IcebergTable(
                    metadata_location=location, snapshot_id=self.count, schema_id=0, spec_id=0, sort_order_id=0
                )
                if n % 3
                else IcebergView(metadata_location=location, version_id=self.count, schema_id=0)
            )
            operations.append(Put(key=keys[n], content=with_id(content, old.id) if old else content))
        operations += [Delete(key=keys[n]) for n in deletes if n not in puts and keys[n] in known]
        if operations:
            self.now += HOUR
            self.versions.commit(branch, head, NewCommit(message="m", committer="c"), operations)


@pytest.fixture
def made() -> Iterator[Made]:
    made = Made()
    yield made
    made.versions.close()


def walk_alone(versions: VersionStore, reference: Pinned) -> set[Version]:
    """What is live on one reference, by the definition."""
    source = Catalog(versions)
    live: set[Version] = set()
    last = reference.hash
    for position, entry in enumerate(versions.list_log(reference.hash, limit=10_000, with_operations=True), start=1):
        meta, bound = entry.commit_meta, reference.bound
        if position > 1 and isinstance(bound, int) and position > bound:
            break
        if position > 1 and isinstance(bound, datetime) and meta.commit_time < bound:
            break
        last = meta.hash
        for put in entry.operations or ():
            if isinstance(put, PutLog):
                content = put.content
                assert isinstance(content, IcebergTable | IcebergView)
                is_table = isinstance(content, IcebergTable)
                number = content.snapshot_id if isinstance(content, IcebergTable) else content.version_id
                live.add(Version(str(content.id), is_table, content.metadata_location, number))
    return live | {put.version for put in source.visible(last)}


numbers = st.lists(st.integers(0, 6), max_size=3, unique=True).map(tuple)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 4), numbers, numbers),
        st.tuples(st.just("branch"), st.integers(0, 4), st.integers(0, 3)),
        st.tuples(st.just("tag"), st.integers(0, 4), st.integers(0, 3)),
    ),
    max_size=40,
)
bounds: st.SearchStrategy[Bound] = st.one_of(
    st.none(), st.integers(1, 12), st.integers(-2, 30).map(lambda hours: START + hours * HOUR)
)


def build(made: Made, plan: Plan) -> None:
    for n, step in enumerate(plan):
        branches = [found.name for found in made.versions.list_references() if isinstance(found, Branch)]
        assert isinstance(step[1], int)
        name = branches[step[1] % len(branches)]
        if step[0] == "commit":
            made.commit(name, step[2], step[3])  # type: ignore[arg-type]
            continue
        log = made.versions.list_log(made.versions.get_reference(name).hash, limit=4)
        back = log[min(int(str(step[2])), len(log) - 1)].commit_meta.hash if log else NO_ANCESTOR
        kind = ReferenceType.BRANCH if step[0] == "branch" else ReferenceType.TAG
        made.versions.create_reference(kind, f"{step[0]}{n}", back)


@settings(max_examples=200, deadline=None)
@given(plan=steps, cutoffs=st.lists(bounds, min_size=1, max_size=5), data=st.data())
def test_marks_what_each_reference_keeps(plan: Plan, cutoffs: list[Bound], data: st.DataObject) -> None:
    made = Made()
    try:
        build(made, plan)
        references = [
            Pinned(reference.name, reference.hash, cutoffs[n % len(cutoffs)])
            for n, reference in enumerate(made.versions.list_references())
        ]
        references = data.draw(st.permutations(references))
        source = Catalog(made.versions)
        marker = Marker(source)
        found = [marker.mark(reference) for reference in references]
        live = {entry.put.version for marked in found for entry in marked.live}
        assert live == set().union(*(walk_alone(made.versions, reference) for reference in references))
    finally:
        made.versions.close()


def test_shared_history_is_fetched_once(made: Made) -> None:
    """Ten branches of a line of 2,000 commits: no more is fetched than the line and a first page for each branch."""
    for n in range(2000):
        made.commit("main", (n % 7,))
    head = made.versions.get_reference("main").hash
    for n in range(10):
        made.versions.create_reference(ReferenceType.BRANCH, f"b{n}", head)
        made.commit(f"b{n}", (1,))
    source = Catalog(made.versions)
    marker = Marker(source)
    marked = [marker.mark(Pinned(ref.name, ref.hash, None)) for ref in made.versions.list_references()]
    assert sum(each.commits for each in marked) == 2010
    assert source.fetched == 2001 + 9 * FIRST_PAGE
