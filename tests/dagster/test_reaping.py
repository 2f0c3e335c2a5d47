"""What the nightly reaping closes and deletes, with Dagster's runs and a real server; without Spark."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from typer.testing import CliRunner

from assets.reaping import reap as reap_runs
from assets.run_branches import branch_name, open_branch, quarantine
from assets.runs import BRANCH_TAG
from nessie_ops.__main__ import make_app
from nessie_ops.client import NessieClient
from nessie_ops.definitions import build
from nessie_ops.errors import BadRequest
from nessie_ops.mergerequests.leases import EXPIRES_AT, OWNED, OWNER
from nessie_ops.model import (
    CatalogTransactionState,
    MergeRequestState,
    NewCatalogTransaction,
    NewCommit,
    NewMergeRequest,
    Put,
    ReferenceType,
)
from nessie_ops.runtime.home import store_url
from nessie_ops.versioning import VersionStore, references
from schedules.endings import is_in_use
from tests.versioning.helpers import key, namespace

PAST = (datetime.now(UTC) - timedelta(hours=1)).isoformat(timespec="seconds")


def lend(client: NessieClient, name: str, until: str = PAST) -> None:
    at = client.get_reference("main").hash
    client.create_reference(ReferenceType.BRANCH, name, at, properties={OWNER: OWNED, EXPIRES_AT: until})


def names(client: NessieClient) -> set[str]:
    return {found.name for found in client.list_references()}


def reap(instance: dg.DagsterInstance) -> dict[str, list[str]]:
    result = build().resolve_job_def("reap_branches").execute_in_process(instance=instance)
    [event] = [event for event in result.all_node_events if event.is_successful_output]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}  # type: ignore[misc]


def start(instance: dg.DagsterInstance, branch: str) -> dg.DagsterRun:
    return instance.create_run_for_job(build().resolve_job_def("load_month"), tags={BRANCH_TAG: branch})


def test_branches_whose_time_is_over_go_when_no_run_works_on_them(
    client: NessieClient, instance: dg.DagsterInstance
) -> None:
    for name in ("ci/idle", "ci/busy", "other/name"):
        lend(client, name)
    lend(client, "ci/odd", "next week")
    run = start(instance, "ci/busy")
    told = reap(instance)
    assert told["expired"] == ["ci/idle", "other/name"]
    assert told["expired_but_needed"] == ["ci/busy: a run works on it"]
    assert told["unreadable_expires_at"] == ["ci/odd: next week"]
    instance.report_run_canceled(run)
    told = reap(instance)
    assert told["expired"] == ["ci/busy"]
    assert "ci/odd" in names(client) and not {"ci/idle", "ci/busy", "other/name"} & names(client)
    client.delete_reference("ci/odd", None)


def test_branches_of_transactions_go_with_their_transactions(
    client: NessieClient, instance: dg.DagsterInstance, home: Path
) -> None:
    open = client.begin_transaction(NewCatalogTransaction())
    client.update_properties(open.branch, {OWNER: OWNED, EXPIRES_AT: PAST})
    with closing(VersionStore.open(store_url(home))) as versions:
        versions.store.run(
            lambda tx: references.create_reference(
                tx, ReferenceType.BRANCH, "txn/stray", open.start_hash, {"transaction": "stray"}, datetime.now(UTC)
            )
        )
    told = reap(instance)
    assert told["expired"] == told["expired_transactions"] == []
    assert told["stray_branches_of_transactions"] == ["txn/stray"]
    assert client.commit_transaction(open.id).state is CatalogTransactionState.COMMITTED


def test_a_runs_own_branch_is_in_use_while_the_run_is(client: NessieClient, instance: dg.DagsterInstance) -> None:
    run = start(instance, "ci/else")
    assert is_in_use(instance, branch_name(run.run_id)) and is_in_use(instance, "ci/else")
    instance.report_run_canceled(run)
    assert not is_in_use(instance, branch_name(run.run_id)) and not is_in_use(instance, "ci/else")


def test_a_request_that_nobody_takes_up_is_closed_and_then_its_branch_goes(
    client: NessieClient, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lend(client, "ci/asked")
    name = branch_name("long-ago")
    open_branch(client, "main", name, [])
    quarantine(client, name, "for a test", lambda: datetime.now(UTC) - timedelta(days=8))
    asked = [client.create_merge_request(NewMergeRequest(source=source)) for source in ("ci/asked", name)]
    told = reap(instance)
    assert told["closed_requests"] == told["expired"] == told["deleted"] == [], "they wait for somebody"
    monkeypatch.setenv("NESSIE_OPS_REQUEST_DAYS", "0")
    told = reap(instance)
    assert told["closed_requests"] == sorted(str(request.number) for request in asked)
    assert (told["expired"], told["deleted"]) == (["ci/asked"], [name])
    for request in asked:
        closed = client.get_merge_request(request.number)
        assert closed.state is MergeRequestState.CLOSED and "nothing was done about it" in closed.outcome
    monkeypatch.setenv("NESSIE_OPS_REQUEST_DAYS", "soon")
    lend(client, "ci/last")
    with pytest.raises(BadRequest, match="NESSIE_OPS_REQUEST_DAYS: 'soon'"):
        reap(instance)
    assert "ci/last" in names(client)
    client.delete_reference("ci/last", None)


def test_times_that_are_none_and_branches_that_others_take_stop_nothing(client: NessieClient) -> None:
    long_ago = (datetime.now(UTC) - timedelta(days=8)).isoformat(timespec="seconds")
    times = {
        "a-odd": "soon",
        "b-naive": "2020-01-01T00:00:00",
        "c-old": long_ago,
        "d-moved": long_ago,
        "e-old": long_ago,
    }
    for root, since in times.items():
        open_branch(client, "main", branch_name(root), [])
        client.update_properties(branch_name(root), {"quarantined": "for a test", "quarantined_at": since})

    def work_meanwhile(root: str) -> bool:
        if root == "d-moved":
            at = client.get_reference(branch_name(root)).hash
            put = Put(key("mine"), namespace("mine"))
            client.commit(branch_name(root), at, NewCommit(message="by hand"), [put])
        return False

    assert reap_runs(client, work_meanwhile, timedelta(days=7)) == ([], [branch_name("c-old"), branch_name("e-old")])
    for root in ("a-odd", "b-naive", "d-moved"):
        client.delete_reference(branch_name(root), None)


def test_the_command_asks_for_runs_too(client: NessieClient, instance: dg.DagsterInstance, home: Path) -> None:
    for name in ("ci/idle", "ci/busy"):
        lend(client, name)
    lend(client, "ci/odd", "next week")
    run = start(instance, "ci/busy")

    def call(*words: str) -> str:
        result = CliRunner().invoke(make_app(), ["branch", "reap", *words])
        assert result.exit_code == 0, result.output
        return result.output

    dry = call("--dry-run")
    assert "would be deleted  ci/idle" in dry and "expires_at: 'next week' is no time" in dry
    assert "ci/idle" in names(client)
    assert '"deleted": [\n    "ci/idle"\n  ]' in call("--json")
    instance.report_run_canceled(run)
    assert "deleted  ci/busy" in call()
    assert names(client) & {"ci/idle", "ci/busy", "ci/odd"} == {"ci/odd"}


def test_purging_and_reaping_have_schedules() -> None:
    schedules = {schedule.name: schedule for schedule in build().get_repository_def().schedule_defs}
    purge = schedules["weekly_purge"]
    assert (purge.job.name, purge.cron_schedule) == ("purge_store", "30 5 * * 0")
    assert purge.default_status == dg.DefaultScheduleStatus.STOPPED


def test_the_store_is_purged_by_itself(client: NessieClient, instance: dg.DagsterInstance) -> None:
    done = build().resolve_job_def("purge_store").execute_in_process(instance=instance)
    [event] = done.get_asset_materialization_events()
    assert event.step_materialization_data.materialization.metadata["live_commits"].value is not None
