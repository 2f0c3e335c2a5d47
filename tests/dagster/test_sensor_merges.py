"""Merges by the daemon's sensor: after a conflict, and with the daemon killed between validation and merge.

Web server, queue, daemon, sensors and the runs' processes are real; the runs are those of the light pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient

from assets.run_branches import ensure_namespaces
from nessie_ops.client import NessieClient
from nessie_ops.model import CheckResult, MergeRequest, MergeRequestState, NewMergeRequest, ReferenceType
from tests.dagster.light import RIVALS, WRITES, published, told, write
from tests.dagster.platforms import Platform
from tests.dagster.web import wait_for

# Dagster's client calls gql in a way that gql is giving up.
pytestmark = pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")


@pytest.fixture(scope="module")
def platform(home: Path, instance: dg.DagsterInstance) -> Iterator[Platform]:
    with Platform.running(home) as platform:
        yield platform


@pytest.fixture(scope="module")
def loads(platform: Platform) -> dict[str, str]:
    """Runs that write a table each and ask for their merge, launched by GraphQL; they wait for each other."""
    graphql = DagsterGraphQLClient("127.0.0.1", port_number=platform.port)

    def load(month: str, *, needs_approval: bool = False, rivals: int = 0) -> str:
        config = {"ops": {"publish": {"config": {"publish": "sensor", "needs_approval": needs_approval}}}}
        tags = {"dagster/partition": month, WRITES: f"silver.f{month[-2:]}", RIVALS: str(rivals)}
        return graphql.submit_job_execution("load_month", run_config=config, tags=tags)

    return {
        "asked": load("2013-01", needs_approval=True),
        "rivalled": load("2013-02", rivals=1),
    }


def request_of(client: NessieClient, run_id: str) -> MergeRequest:
    """The one request of a run, or of what the daemon makes of it when a busy machine is slow to start it."""
    [request] = wait_for("the request", lambda: client.list_merge_requests(source=f"run/{run_id}"))
    return request


def merged(client: NessieClient, instance: dg.DagsterInstance, run_id: str) -> MergeRequest:
    """The run's request, once the sensor has merged it and told so."""
    [commit] = wait_for("the merge", lambda: published(client, run_id))
    wait_for("the materialization", lambda: commit in told(instance))
    request = request_of(client, run_id)
    assert (request.state, request.merge_hash) == (MergeRequestState.MERGED, commit)
    assert client.list_references(prefix=request.source) == []
    at = told(instance).index(commit)
    record = instance.fetch_materializations(dg.AssetKey("publish"), limit=at + 1).records[at]
    committed = client.get_commit(commit).commit_time
    assert committed and datetime.fromtimestamp(record.timestamp, UTC) >= committed, "told after it was there"
    return request


def merges(instance: dg.DagsterInstance, request: MergeRequest) -> list[dg.DagsterRun]:
    """The runs that the sensor launched to merge a request."""
    tags = {"nessie/merge_request": str(request.number)}
    return list(instance.get_runs(dg.RunsFilter(job_name="merge_one_request", tags=tags)))


def test_the_daemon_is_killed_between_validation_and_merge(
    platform: Platform, loads: dict[str, str], client: NessieClient, instance: dg.DagsterInstance
) -> None:
    wait_for("its checks", lambda: request_of(client, loads["asked"]).checks)
    platform.stop("dagster-daemon")
    request = request_of(client, loads["asked"])
    assert request.waits_for == ("approval",)
    client.approve_merge_request(request.number, request.source_hash, by="ann")
    platform.start("dagster-daemon", "run")
    assert len(merges(instance, merged(client, instance, loads["asked"]))) == 1


def test_one_in_conflict_is_merged_on_the_new_main(
    loads: dict[str, str], client: NessieClient, instance: dg.DagsterInstance
) -> None:
    request = merged(client, instance, loads["rivalled"])
    assert request.attempt == 2
    assert len(merges(instance, request)) == 2, "one that met the conflict, and one that merged"
    [again] = instance.get_runs(dg.RunsFilter(tags={"dagster/parent_run_id": loads["rivalled"]}))
    assert again.job_name == "load_month"


def test_a_red_one_is_closed(platform: Platform, client: NessieClient) -> None:
    at = ensure_namespaces(client, "main", ["silver"])
    client.create_reference(ReferenceType.BRANCH, "pr/red", at)
    write(client, "pr/red", "silver.red")
    request = client.create_merge_request(NewMergeRequest(source="pr/red", required_checks=("keys",)))
    client.report_checks(request.number, request.source_hash, [CheckResult(name="keys", passed=False)])
    wait_for("its closing", lambda: client.get_merge_request(request.number).state is MergeRequestState.CLOSED)
    assert "keys" in client.get_merge_request(request.number).outcome
    assert client.get_reference("main").hash == at
