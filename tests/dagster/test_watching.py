"""Which branches the sensor has validated, when, and how often; what fails, and what is lost, loses nothing.

Without Spark: what it launches is not executed here.
"""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from assets.run_branches import branch_name, open_branch
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.model import VALIDATE, CheckResult, CommitHash, NewMergeRequest, ReferenceType
from schedules.sensors import CatalogUnreachable, quarantine_failed
from schedules.watching import COMMIT_TAG, MAX_LAUNCHES, VALIDATE_VARIABLE
from tests.dagster.foreign import add_namespaces, fork, make_context, start, watch, write


@pytest.fixture(autouse=True)
def wanted(client: NessieClient, monkeypatch: pytest.MonkeyPatch) -> None:
    add_namespaces(client, "bronze", "silver")
    monkeypatch.setenv(VALIDATE_VARIABLE, "etl/.*")


@pytest.fixture
def cursor(client: NessieClient, instance: dg.DagsterInstance) -> Iterator[str]:
    """Where the sensor stands when a test begins; the branches that the test leaves are deleted."""
    yield str(client.list_moves(limit=1, newest_first=True)[0].seq)
    for branch in client.list_references():
        if branch.name not in ("main", "read"):
            client.delete_reference(branch.name, branch.hash)


def launched(runs: object) -> list[tuple[str, str]]:
    """(branch, commit) of each run that is asked for."""
    assert isinstance(runs, list)
    return [(run.tags["nessie/branch"], run.tags[COMMIT_TAG]) for run in runs]


def report(client: NessieClient, name: str, *, passed: bool = True) -> None:
    """What a validation says at its end."""
    request = client.create_merge_request(NewMergeRequest(source=name, required_checks=("rows",)))
    client.report_checks(request.number, request.source_hash, [CheckResult(name="rows", passed=passed)])


def test_of_many_commits_the_newest_alone_is_validated(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    fork(client, "etl/a")
    head = [write(client, "etl/a", "silver.flights") for _ in range(30)][-1]
    write(client, "main", "silver.other")
    write(client, fork(client, "private/a"), "silver.flights")
    runs, after, _ = watch(instance, cursor)
    assert launched(runs) == [("etl/a", head)]
    assert runs[0].run_config == {
        "ops": {"validate_commit": {"config": {"branch": "etl/a", "commit": head, "target": "main"}}}
    }
    assert watch(instance, cursor)[0][0].run_key == runs[0].run_key
    assert watch(instance, after)[:2] == ([], after)


def test_a_branch_that_moves_on_waits_for_the_run_that_is_at_work_on_it(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    write(client, fork(client, "etl/b"), "silver.flights")
    [first], cursor, _ = watch(instance, cursor)
    run = start(instance, first)
    for _ in range(3):
        head = write(client, "etl/b", "silver.flights")
        runs, cursor, why = watch(instance, cursor)
        assert runs == [] and "at work" in why and "etl/b" in cursor
    instance.report_run_failed(run, "its commit was not the newest")
    runs, cursor, _ = watch(instance, cursor)
    assert launched(runs) == [("etl/b", head)] and cursor.isdecimal()
    assert runs[0].run_key != first.run_key


def test_what_its_request_says_already_is_not_asked_again(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    write(client, fork(client, "etl/c"), "silver.flights")
    request = client.create_merge_request(NewMergeRequest(source="etl/c", required_checks=("rows",)))
    assert len(watch(instance, cursor)[0]) == 1, "a person's request waits for checks"
    report(client, "etl/c")
    assert watch(instance, cursor)[0] == []
    client.close_merge_request(request.number, "not wanted")
    assert watch(instance, cursor)[0] == [], "a person has decided"
    head = write(client, "etl/c", "silver.flights")
    assert launched(watch(instance, cursor)[0]) == [("etl/c", head)]


@pytest.mark.parametrize("stored", [None, "", "{}", "999999999"], ids=["none", "empty", "other", "of another log"])
def test_a_lost_cursor_loses_no_commit(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str, stored: str | None
) -> None:
    head = write(client, fork(client, "etl/d"), "silver.flights")
    write(client, fork(client, "etl/e"), "silver.flights")
    report(client, "etl/e", passed=False)
    fork(client, "etl/same-as-main")
    runs, after, _ = watch(instance, stored)
    assert launched(runs) == [("etl/d", head)]
    assert int(after) == client.list_moves(limit=1, newest_first=True)[0].seq
    assert runs[0].run_key == watch(instance, cursor)[0][0].run_key, "and it is the same run"


def test_branches_that_are_deleted_renamed_and_moved(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str
) -> None:
    first = write(client, fork(client, "etl/f"), "silver.flights")
    [before], _, _ = watch(instance, cursor)
    fork(client, "etl/renamed", "etl/f")
    client.delete_reference("etl/f", first)
    assert launched(watch(instance, cursor)[0]) == [("etl/renamed", first)]

    second = write(client, "etl/renamed", "silver.flights")
    client.assign_reference("etl/renamed", second, client.get_reference("main").hash)
    assert watch(instance, cursor)[0] == [], "it has nothing that main has not"
    client.assign_reference("etl/renamed", client.get_reference("main").hash, first)
    [again], _, _ = watch(instance, cursor)
    assert launched([again]) == [("etl/renamed", first)] and again.run_key != before.run_key
    client.delete_reference("etl/renamed", first)
    client.create_reference(ReferenceType.TAG, "etl/renamed", first)
    runs, _, why = watch(instance, cursor)
    assert runs == [] and "etl/f: is gone" in why


def test_a_branch_that_asks_for_it(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork(client, "release")
    head = write(client, fork(client, "team/x"), "silver.flights")
    assert watch(instance, cursor)[0] == []
    client.update_properties("team/x", {VALIDATE: "release"})
    [wanted] = watch(instance, cursor)[0]
    assert launched([wanted]) == [("team/x", head)]
    assert wanted.run_config["ops"]["validate_commit"]["config"]["target"] == "release"
    client.update_properties("team/x", {"quarantined": "by a person"})
    assert watch(instance, cursor)[0] == []
    client.update_properties("team/x", {"owner": "nessie-ops"}, ["quarantined"])
    assert watch(instance, cursor)[0] == [], "branches of the platform are checked by what made them"
    client.update_properties("team/x", {VALIDATE: "nowhere"}, ["owner"])
    runs, _, why = watch(instance, cursor)
    assert runs == [] and "nowhere" in why
    monkeypatch.setenv(VALIDATE_VARIABLE, "(")
    with pytest.raises(BadRequest, match=VALIDATE_VARIABLE):
        watch(instance, cursor)


def test_a_tick_launches_only_so_many(client: NessieClient, instance: dg.DagsterInstance, cursor: str) -> None:
    names = [f"etl/many-{number:02}" for number in range(MAX_LAUNCHES + 3)]
    for name in names:
        write(client, fork(client, name), "silver.flights")
    seen: list[tuple[str, CommitHash | str]] = []
    for expected in (MAX_LAUNCHES, 3, 0):
        runs, cursor, _ = watch(instance, cursor)
        assert len(runs) == expected
        seen += launched(runs)
    assert sorted(seen) == [(name, client.get_reference(name).hash) for name in names]


def test_a_tick_looks_at_only_so_many_and_the_next_ones_at_the_others(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedules.watching.MAX_LOOKED_AT", 2)
    for number in range(4):
        fork(client, f"etl/empty-{number}")
    write(client, fork(client, "etl/last"), "silver.flights")
    busy = write(client, fork(client, "etl/busy"), "silver.flights")
    seen: list[tuple[str, str]] = []
    for _ in range(3):
        runs, cursor, _ = watch(instance, cursor)
        seen += launched(runs)
    assert sorted(seen) == [("etl/busy", busy), ("etl/last", client.get_reference("etl/last").hash)]
    assert cursor.isdecimal()


def test_without_the_catalog_a_tick_says_so_and_goes_on_from_where_it_was(
    client: NessieClient, instance: dg.DagsterInstance, cursor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = write(client, fork(client, "etl/g"), "silver.flights")
    with monkeypatch.context() as patch:
        patch.setenv("NESSIE_OPS_URI", "http://127.0.0.1:1")
        runs, same, why = watch(instance, cursor)
    assert (runs, same) == ([], cursor)
    assert "127.0.0.1:1" in why and f"number {cursor}" in why
    assert launched(watch(instance, same)[0]) == [("etl/g", head)]


def test_what_fails_is_not_forgotten_by_the_sensors_of_runs(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster moves on from a run whose sensor fails; while the catalog is away, it must not."""
    run = instance.create_run_for_job(build().resolve_job_def("load_month"), tags={"dagster/partition": "2013-01"})
    open_branch(client, "main", branch_name(run.run_id), [])
    sensor_cursor = _tick_quarantine(instance, None)
    instance.report_run_failed(run, "for a test")
    with monkeypatch.context() as patch:
        patch.setenv("NESSIE_OPS_URI", "http://127.0.0.1:1")
        with pytest.raises(CatalogUnreachable, match=run.run_id):
            _tick_quarantine(instance, sensor_cursor)
    _tick_quarantine(instance, sensor_cursor)
    assert "quarantined" in client.get_reference(branch_name(run.run_id)).properties


def _tick_quarantine(instance: dg.DagsterInstance, cursor: str | None) -> str:
    data = quarantine_failed.evaluate_tick(make_context(instance, cursor))
    assert data.cursor
    return data.cursor
