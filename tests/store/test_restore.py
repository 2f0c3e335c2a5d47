"""`store restore` takes references back in time, by moves that can be undone in the same way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import NO_ANCESTOR, ReferenceType
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.restore import Restored
from tests.store.helpers import faults_of
from tests.versioning.helpers import head, update

START = datetime(2026, 1, 1, tzinfo=UTC)
BRANCH, TAG = ReferenceType.BRANCH, ReferenceType.TAG


class Clock:
    """Told by the test; used by the store for rows, too, so that a purge sees old ones."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def nanoseconds(self) -> int:
        return int(self.now.timestamp()) * 1_000_000_000

    def tick(self) -> datetime:
        """An hour later; the time before."""
        before, self.now = self.now, self.now + timedelta(hours=1)
        return before


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def versions(store: Store, clock: Clock) -> Iterator[VersionStore]:
    store._clock_ns = clock.nanoseconds
    yield VersionStore(store, clock=clock)
    assert faults_of(store) == []


def where(versions: VersionStore) -> list[tuple[str, str, str]]:
    return [(type(found).__name__, found.name, found.hash) for found in versions.list_references()]


def live(versions: VersionStore, clock: Clock) -> list[tuple[datetime, list[tuple[str, str, str]]]]:
    """Do all that can happen to references; where they were, by time."""
    story = [
        lambda: versions.create_reference(BRANCH, "a", NO_ANCESTOR, properties={"k": "v"}),
        lambda: update(versions, "t", 1),
        lambda: versions.create_reference(TAG, "b", head(versions)),
        lambda: versions.create_reference(BRANCH, "c", head(versions)),
        lambda: update(versions, "t", 2, "c"),
        lambda: versions.delete_reference("c", None),
        lambda: versions.assign_reference("a", None, head(versions)),
        lambda: versions.update_properties("a", {"k": "w"}),
        lambda: versions.delete_reference("b", None),
        lambda: versions.create_reference(BRANCH, "b", head(versions)),
        lambda: versions.create_reference(TAG, "c", head(versions)),
        lambda: update(versions, "t", 3),
    ]
    states = [(clock.tick(), where(versions))]
    for step in story:
        step()
        states.append((clock.tick(), where(versions)))
    return states


def test_every_moment_can_be_restored_and_undone(versions: VersionStore, clock: Clock) -> None:
    states = live(versions, clock)
    latest = states[-1][1]
    for at, state in states:
        planned = versions.restore(at, dry_run=True)
        assert where(versions) == latest
        before = clock.tick()
        moves = len(versions.list_moves())
        assert versions.restore(at) == planned
        assert where(versions) == state
        assert {move.action for move in versions.list_moves(after_seq=moves)} <= {"RESTORED", "CREATED", "DELETED"}
        assert versions.restore(at) == [], "there already"
        clock.tick()
        versions.restore(before)
        assert where(versions) == latest


def test_what_a_step_says(versions: VersionStore, clock: Clock) -> None:
    created = clock.tick()
    first = update(versions, "t", 1)
    later = clock.tick()
    versions.create_reference(TAG, "v1", first)
    assert versions.restore(later) == [Restored("v1", TAG, first, None, None)]
    assert versions.restore(created) == [Restored("main", BRANCH, first, BRANCH, NO_ANCESTOR)]


def test_named_references_alone(versions: VersionStore, clock: Clock) -> None:
    states = live(versions, clock)
    at, state = states[6]
    versions.restore(at, ["a", "b"])
    kept = [row for row in states[-1][1] if row[1] in ("main", "c")]
    assert sorted(where(versions)) == sorted([row for row in state if row[1] in ("a", "b")] + kept)
    with pytest.raises(ReferenceNotFound, match="no reference 'x'"):
        versions.restore(at, ["a", "x"])


def test_the_default_branch_is_never_deleted(versions: VersionStore, clock: Clock) -> None:
    clock.tick()
    update(versions, "t", 1)
    with pytest.raises(BadRequest, match="before the repository"):
        versions.restore(START - timedelta(seconds=1))
    with pytest.raises(BadRequest, match="in the future"):
        versions.restore(clock.now + timedelta(seconds=1))
    versions.restore(START)
    assert head(versions) == NO_ANCESTOR


def test_a_purged_commit_is_named_and_nothing_is_moved(versions: VersionStore, clock: Clock) -> None:
    update(versions, "t", 1)
    versions.create_reference(BRANCH, "gone", head(versions))
    lost = update(versions, "t", 2, "gone")
    at = clock.tick()
    versions.delete_reference("gone", None)
    update(versions, "t", 3)
    clock.now += timedelta(days=8)
    assert versions.restore(at, dry_run=True)
    assert versions.purge().commits == 1
    before = where(versions)
    for dry_run in (True, False):
        with pytest.raises(ReferenceNotFound, match=f"purged: 'gone' was at {lost}. Name the references"):
            versions.restore(at, dry_run=dry_run)
    assert where(versions) == before
    assert [step.name for step in versions.restore(at, ["main"])] == ["main"]


def test_the_command(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/catalog.db"
    versions = VersionStore.open(url)
    first = update(versions, "t", 1)
    at = datetime.now(UTC)
    second = update(versions, "t", 2)
    versions.create_reference(TAG, "v1", second)
    app = build_app(lambda **options: None)

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["store", "restore", "--store", url, "--at", at.isoformat(), *words])

    move = f"move    BRANCH  main  {second[:16]}  ->  {first[:16]}\n"
    assert (
        invoke("--dry-run").stdout == move + f"delete  TAG     v1    {second[:16]}  ->  -\nwould restore 2 references\n"
    )
    assert [step["name"] for step in json.loads(invoke("--ref", "v1", "--json").stdout)] == ["v1"]
    assert invoke("--ref", "main").stdout.endswith("restored 1 references\n")
    assert head(versions) == first
    versions.close()
