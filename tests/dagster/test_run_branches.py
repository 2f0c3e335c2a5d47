"""The life of a run's branch against a real server: every step repeatable, nothing published that was not validated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest

from assets import run_branches
from assets.reaping import reap
from assets.run_branches import (
    BASE,
    CONFLICTS,
    MAX_REBASES,
    QUARANTINED_AT,
    VALIDATED,
    Evidence,
    NotValidated,
    RebaseNeeded,
    branch_name,
    open_branch,
    publish,
    quarantine,
    validate,
)
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, Forbidden, OutcomeUnknown, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    NO_ANCESTOR,
    QUARANTINED,
    CommitHash,
    ContentKey,
    IcebergTable,
    Merge,
    MergeResult,
    NewCommit,
    Put,
    ReferenceType,
)

NAMESPACES = ("bronze", "silver", "gold")
MESSAGE = NewCommit(message="load", properties={"kind": ("test",)})


@pytest.fixture
def main(client: NessieClient) -> str:
    """A branch that plays main, empty and new."""
    name = f"main-{uuid4().hex}"
    client.create_reference(ReferenceType.BRANCH, name, NO_ANCESTOR)
    return name


@pytest.fixture
def name() -> str:
    return branch_name(str(uuid4()))


def write(client: NessieClient, branch: str, table: str, snapshot: int) -> CommitHash:
    """Commit a new state of `table`."""
    key, head = ContentKey.of(*table.split(".")), client.get_reference(branch).hash
    old = client.get_contents(head, [key]).get(key)
    new = IcebergTable(metadata_location=f"m{snapshot}", snapshot_id=snapshot, schema_id=0, spec_id=0, sort_order_id=0)
    if old is not None:
        new = msgspec.structs.replace(new, id=old.id)
    return client.commit(branch, head, NewCommit(message=f"{table} {snapshot}"), [Put(key, new)]).target_branch.hash


def vouch(client: NessieClient, branch: str, *tables: str) -> list[Evidence]:
    """Evidence as checks give it that read `tables` now."""
    head = client.get_reference(branch).hash
    return [Evidence(table, head, (ContentKey.of(*table.split(".")),)) for table in tables]


def load(client: NessieClient, main: str, branch: str, snapshot: int) -> CommitHash:
    """Open, write, validate: all but publishing; the validated commit."""
    open_branch(client, main, branch, NAMESPACES)
    write(client, branch, "silver.flights", snapshot)
    return validate(client, branch, vouch(client, branch, "silver.flights"))


def snapshot_of(client: NessieClient, ref: str, table: str = "silver.flights") -> int:
    content = client.get_contents(client.get_reference(ref).hash, [ContentKey.of(*table.split("."))])
    found = next(iter(content.values()))
    assert isinstance(found, IcebergTable)
    return found.snapshot_id


def test_opening_gives_an_empty_main_its_namespaces_once(client: NessieClient, main: str, name: str) -> None:
    first = open_branch(client, main, name, NAMESPACES)
    second = open_branch(client, main, branch_name("other"), NAMESPACES)
    assert first.base == first.head == second.base == client.get_reference(main).hash
    assert len(client.list_log(first.base)) == 1
    assert {str(entry.name) for entry in client.list_entries(first.base)} == set(NAMESPACES)
    client.delete_reference(second.name, None)


def test_opening_again_resumes_on_the_original_base(client: NessieClient, main: str, name: str) -> None:
    first = open_branch(client, main, name, NAMESPACES)
    written = write(client, name, "silver.flights", 1)
    write(client, main, "bronze.planes", 1)
    again = open_branch(client, main, name, NAMESPACES)
    assert again.resumed and not first.resumed
    assert (again.base, again.head) == (first.base, written)


def test_a_branch_that_no_run_opened_is_refused(client: NessieClient, main: str, name: str) -> None:
    client.create_reference(ReferenceType.BRANCH, name, NO_ANCESTOR)
    with pytest.raises(BadRequest, match="not opened by a run"):
        open_branch(client, main, name, NAMESPACES)
    with pytest.raises(BadRequest, match="begin with 'run/'"):
        open_branch(client, main, "feature", NAMESPACES)


def test_publishing_is_one_commit_with_its_properties_and_deletes_the_branch(
    client: NessieClient, main: str, name: str
) -> None:
    validated = load(client, main, name, 1)
    write(client, main, "bronze.planes", 1)  # another table: no conflict
    before = client.get_reference(main).hash
    done = publish(client, main, name, MESSAGE)
    entry = client.list_log(client.get_reference(main).hash)[0]
    assert entry.commit_meta.hash == done.commit and entry.parent_commit_hash == before
    assert entry.commit_meta.all_properties["kind"] == ("test",)
    assert entry.commit_meta.all_properties["nessie_ops.validated_hash"] == (validated,)
    assert snapshot_of(client, main) == 1
    with pytest.raises(ReferenceNotFound):
        client.get_reference(name)


def test_publishing_again_finds_the_commit(client: NessieClient, main: str, name: str) -> None:
    validated = load(client, main, name, 1)
    done = publish(client, main, name, MESSAGE)
    write(client, main, "silver.flights", 2)
    again = publish(client, main, name, MESSAGE, validated)
    assert again.already and again.commit == done.commit
    assert snapshot_of(client, main) == 2
    with pytest.raises(NotValidated, match="gone"):
        publish(client, main, name, MESSAGE, "0" * 64)


def test_killed_after_the_merge_the_branch_is_deleted_by_the_next_attempt(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(client, main, name, 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(client, "delete_reference", _die)
        publish(client, main, name, MESSAGE)
    merged = client.get_reference(main).hash
    quarantine(client, name, "its process ended")
    done = publish(client, main, name, MESSAGE)
    assert done.already and done.commit == merged == client.get_reference(main).hash
    assert client.list_references(prefix=name) == []


@pytest.mark.parametrize("arrived", [True, False], ids=["merged", "not merged"])
def test_a_lost_answer_is_looked_up(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    load(client, main, name, 1)
    before, merge = client.get_reference(main).hash, client.merge

    def lose(branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
        if arrived:
            merge(branch, expected, request)
        raise OutcomeUnknown("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(client, "merge", lose)
        if arrived:
            assert publish(client, main, name, MESSAGE).commit == client.get_reference(main).hash != before
            return
        with pytest.raises(OutcomeUnknown):
            publish(client, main, name, MESSAGE)
    assert client.get_reference(main).hash == before
    assert publish(client, main, name, MESSAGE).commit == client.get_reference(main).hash != before


def test_an_attempt_that_still_writes_cannot_undo_what_was_published(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    validated, delete = load(client, main, name, 1), client.delete_reference

    def write_first(branch: str, expected: CommitHash | None) -> object:
        monkeypatch.undo()
        write(client, name, "silver.flights", 2)
        return delete(branch, expected)

    monkeypatch.setattr(client, "delete_reference", write_first)
    done = publish(client, main, name, MESSAGE)
    assert done.commit == client.get_reference(main).hash and snapshot_of(client, main) == 1
    assert client.list_references(prefix=name) == []

    # The same, but the process died in between: the branch is there, and has moved on.
    validated = load(client, main, name, 3)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(client, "delete_reference", _die)
        publish(client, main, name, MESSAGE)
    write(client, name, "silver.flights", 4)
    again = publish(client, main, name, MESSAGE, validated)
    assert again.already and snapshot_of(client, main) == 3
    assert client.list_references(prefix=name) == []


def test_a_request_to_merge_that_comes_late_is_refused(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(client, main, name, 1)
    merge, before = client.merge, client.get_reference(main).hash

    def write_first(branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
        write(client, name, "silver.flights", 2)
        return merge(branch, expected, request)

    monkeypatch.setattr(client, "merge", write_first)
    with pytest.raises(NotValidated, match="Another attempt"):
        publish(client, main, name, MESSAGE)
    assert client.get_reference(main).hash == before


def test_only_what_was_validated_is_published(client: NessieClient, main: str, name: str) -> None:
    open_branch(client, main, name, NAMESPACES)
    write(client, name, "silver.flights", 1)
    before = client.get_reference(main).hash
    with pytest.raises(NotValidated, match="not validated"):
        publish(client, main, name, MESSAGE)
    validate(client, name, vouch(client, name, "silver.flights"))
    write(client, name, "gold.carrier_delays", 1)
    with pytest.raises(NotValidated, match="someone wrote to it"):
        publish(client, main, name, MESSAGE)
    assert client.get_reference(main).hash == before


def test_checks_vouch_for_the_tables_they_read_and_no_others(client: NessieClient, main: str, name: str) -> None:
    open_branch(client, main, name, NAMESPACES)
    write(client, name, "bronze.flights", 1)
    early = vouch(client, name, "bronze.flights")
    head = write(client, name, "silver.flights", 1)
    assert validate(client, name, early) == head  # what they read is unchanged
    assert client.get_reference(name).properties[VALIDATED] == head
    write(client, name, "bronze.flights", 2)
    with pytest.raises(NotValidated, match=r"bronze\.flights"):
        validate(client, name, early)
    assert client.get_reference(name).properties[VALIDATED] == head


def test_validating_loses_to_a_writer(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_branch(client, main, name, NAMESPACES)
    write(client, name, "silver.flights", 1)
    evidence, update = vouch(client, name, "silver.flights"), client.update_properties

    def write_first(*args: object, **options: object) -> object:
        write(client, name, "silver.flights", 2)
        return update(*args, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, pytest.raises(ReferenceConflict):
        patch.setattr(client, "update_properties", write_first)
        validate(client, name, evidence)
    assert VALIDATED not in client.get_reference(name).properties


def test_a_conflict_names_the_tables_and_the_next_opening_rebases(client: NessieClient, main: str, name: str) -> None:
    load(client, main, name, 1)
    moved = write(client, main, "silver.flights", 7)
    with pytest.raises(RebaseNeeded, match=r"silver\.flights") as caught:
        publish(client, main, name, MESSAGE)
    assert caught.value.again and caught.value.tables == ("silver.flights",)
    with pytest.raises(RebaseNeeded):  # resuming at publish is not enough
        publish(client, main, name, MESSAGE)
    assert client.get_reference(main).hash == moved

    opened = open_branch(client, main, name, NAMESPACES)
    assert (opened.base, opened.head, opened.rebases, opened.resumed) == (moved, moved, 1, False)
    assert CONFLICTS not in client.get_reference(name).properties
    load(client, main, name, 8)
    publish(client, main, name, MESSAGE)
    assert snapshot_of(client, main) == 8


def test_killed_while_rebasing_the_next_opening_rebases(
    client: NessieClient, main: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(client, main, name, 1)
    write(client, main, "silver.flights", 7)
    with pytest.raises(RebaseNeeded):
        publish(client, main, name, MESSAGE)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(client, "update_properties", _die)
        open_branch(client, main, name, NAMESPACES)
    newest = write(client, main, "silver.flights", 9)
    assert open_branch(client, main, name, NAMESPACES).base == newest


def test_rebasing_is_bounded_until_a_person_steps_in(client: NessieClient, main: str, name: str) -> None:
    for attempt in range(MAX_REBASES + 1):
        load(client, main, name, 2 * attempt)
        write(client, main, "silver.flights", 2 * attempt + 1)
        with pytest.raises(RebaseNeeded) as caught:
            publish(client, main, name, MESSAGE)
        assert caught.value.again == (attempt < MAX_REBASES)
    quarantine(client, name, "conflict")
    assert open_branch(client, main, name, NAMESPACES).rebases == 1
    load(client, main, name, 100)
    publish(client, main, name, MESSAGE)
    assert snapshot_of(client, main) == 100


def test_a_quarantined_branch_is_refused_by_the_server_and_released_by_its_own_run(
    client: NessieClient, main: str, name: str
) -> None:
    validated = load(client, main, name, 1)
    assert quarantine(client, name, "bad rows")
    assert not quarantine(client, name, "another reason")
    assert client.get_reference(name).properties[QUARANTINED] == "bad rows"
    with pytest.raises(Forbidden, match="bad rows"):
        client.merge(main, None, Merge(from_ref=name, from_hash=validated, meta=MESSAGE))
    assert open_branch(client, main, name, NAMESPACES).head == validated
    assert QUARANTINED not in client.get_reference(name).properties
    quarantine(client, name, "again")
    publish(client, main, name, MESSAGE)
    assert snapshot_of(client, main) == 1


def test_only_runs_branches_are_quarantined(client: NessieClient, main: str) -> None:
    assert not quarantine(client, main, "no")
    assert not quarantine(client, branch_name("absent"), "no")
    assert QUARANTINED not in client.get_reference(main).properties


def test_reaping_keeps_the_living_the_young_and_the_foreign(client: NessieClient, main: str) -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    for run in ("live", "ended", "old", "young", "unknown", "unknown-old"):
        open_branch(client, main, branch_name(run), NAMESPACES, lambda: now)
    open_branch(client, main, branch_name("foreign"), NAMESPACES)
    client.update_properties(branch_name("foreign"), {}, [run_branches.OPENED_AT])
    quarantine(client, branch_name("old"), "old", lambda: now - timedelta(days=8))
    quarantine(client, branch_name("young"), "young", lambda: now - timedelta(days=6))
    old = (now - timedelta(days=8)).isoformat()
    client.update_properties(branch_name("unknown-old"), {run_branches.OPENED_AT: old})
    states = {"live": True, "ended": False, "old": False, "young": False}

    marked, deleted = reap(client, states.get, timedelta(days=7), lambda: now)

    assert marked == [branch_name("ended")]
    assert deleted == [branch_name("old"), branch_name("unknown-old")]
    left = {branch.name: branch.properties for branch in client.list_references(prefix="run/")}
    assert {branch_name(run) for run in ("live", "ended", "young", "unknown", "foreign")} <= set(left)
    assert left[branch_name("ended")][QUARANTINED_AT] == now.isoformat()
    assert client.get_reference(main)
    for run in ("live", "ended", "young", "unknown", "foreign"):
        client.delete_reference(branch_name(run), None)


def test_the_base_is_what_the_run_saw(client: NessieClient, main: str, name: str) -> None:
    base = open_branch(client, main, name, NAMESPACES).base
    write(client, main, "bronze.planes", 3)
    assert client.get_reference(name).properties[BASE] == base


def _die(*args: object, **options: object) -> None:
    raise KeyboardInterrupt
