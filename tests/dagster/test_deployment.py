"""The deployment of docs/deploy on real PostgreSQL and S3: a launched month; publishers that wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient

from assets.runs import PUBLISH_POOL
from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey, Namespace, NewCommit, NewMergeRequest, Put, ReferenceType
from tests.buckets import Buckets
from tests.dagster.deployment import DEPLOY, ROOT, Deployment, deployment
from tests.dagster.web import finish, wait_for
from tests.databases import Databases

# Dagster's client calls gql in a way that gql is giving up.
pytestmark = pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")


@pytest.fixture(scope="module")
def deployed(
    environment: None,
    tmp_path_factory: pytest.TempPathFactory,
    postgresql_databases: Databases,
    buckets: Buckets,
    source: Path,
) -> Iterator[Deployment]:
    folder, bucket = tmp_path_factory.mktemp("deployed"), f"deployed-{os.getpid()}"
    names = ("catalog", "dagster", "livesets")
    urls = {name: postgresql_databases.create() for name in names}
    try:
        with deployment(folder, urls, buckets, bucket, NESSIE_OPS_SOURCE=str(source)) as running:
            yield running
    finally:
        for url in urls.values():
            postgresql_databases.drop(url)


@pytest.fixture
def records(deployed: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[dg.DagsterInstance]:
    """Dagster's records, as its processes have them."""
    for name in ("DAGSTER_POSTGRES_URL", "DAGSTER_LOGS"):
        monkeypatch.setenv(name, deployed.environment[name])
    with dg.DagsterInstance.from_config(str(deployed.home)) as instance:
        yield instance


def span(instance: dg.DagsterInstance, run_id: str, step: str) -> tuple[float, float]:
    """When the run's step began and ended."""
    [stats] = instance.get_run_step_stats(run_id, [step])
    assert stats.start_time is not None and stats.end_time is not None
    return stats.start_time, stats.end_time


def ask_for_a_merge(client: NessieClient) -> int:
    """A merge request, of a branch with a namespace that main lacks."""
    head = client.get_reference("main").hash
    branch = client.create_reference(ReferenceType.BRANCH, "feature", head)
    put = Put(ContentKey.of("feature"), Namespace(elements=("feature",)))
    done = client.commit("feature", branch.hash, NewCommit(message="a namespace"), [put])
    request = NewMergeRequest(source="feature", source_hash=done.target_branch.hash, target="main", title="feature")
    return client.create_merge_request(request).number


@pytest.mark.spark
def test_a_launched_month_and_a_merge_at_once_reach_main_one_after_the_other(
    deployed: Deployment, records: dg.DagsterInstance
) -> None:
    """The place in the pool is taken until both have come to wait for it."""
    graphql, storage = DagsterGraphQLClient("127.0.0.1", port_number=deployed.port), records.event_log_storage
    assert type(storage).__name__ == "PostgresEventLogStorage"
    with NessieClient(deployed.catalog) as client:
        storage.initialize_concurrency_limit_to_default(PUBLISH_POOL)
        assert storage.get_concurrency_info(PUBLISH_POOL).slot_count == 1
        assert storage.claim_concurrency_slot(PUBLISH_POOL, "somebody", "publishes").is_claimed
        load = graphql.submit_job_execution("load_month", tags={"dagster/partition": "2013-01"})

        def waits() -> bool:
            return load in {step.run_id for step in storage.get_concurrency_info(PUBLISH_POOL).pending_steps}

        wait_for("the month before its publishing", waits)
        before = client.get_reference("main").hash
        number = ask_for_a_merge(client)
        config = {"ops": {"merge_branch": {"config": {"number": number}}}}
        merge = graphql.submit_job_execution("merge_one_request", run_config=config)
        storage.free_concurrency_slots_for_run("somebody")
        for run_id in (load, merge):
            assert finish(graphql, run_id) == dg.DagsterRunStatus.SUCCESS
        log = [entry.commit_meta for entry in client.list_log(client.get_reference("main").hash, limit_hash=before)]
        assert ("2013-01",) in [meta.all_properties.get("nessie_ops.partition") for meta in log]
        assert client.list_references(prefix="run/") == []
    spans = sorted([span(records, load, "publish"), span(records, merge, "merge_branch")])
    assert spans[0][1] <= spans[1][0]
    event = records.get_latest_materialization_event(dg.AssetKey("publish"))
    assert event and event.run_id == load


def test_definitions_validate(instance: dg.DagsterInstance) -> None:
    """As an operator does before a deployment."""
    command = [Path(sys.executable).parent / "dagster", "definitions", "validate", "--workspace", "workspace.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "All code locations passed validation" in done.stderr + done.stdout, done.stderr


def test_both_instances_differ_in_their_storage_alone() -> None:
    embedded = (ROOT / "nessie_ops" / "runtime" / "dagster.yaml").read_text()
    deployed = (DEPLOY / "dagster.yaml").read_text()
    for part in ("run_retries", "retention"):
        assert section(embedded, part) == section(deployed, part)
    for text in (embedded, deployed):
        assert "default_limit: 1" in text and "free_slots_after_run_end_seconds: 5" in text


def section(text: str, name: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(f"{name}:") + 1
    end = next((n for n in range(start, len(lines)) if lines[n] and not lines[n].startswith(" ")), len(lines))
    return [line for line in lines[start:end] if line]
