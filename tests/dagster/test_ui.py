"""Launches from Dagster's web interface: `nessie-ops ui` is started, months are launched by GraphQL and by clicks.

Runs go through the webserver, the queue, the daemon and a process of their own; what they did is read from the catalog
and from Dagster.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_graphql import DagsterGraphQLClient
from playwright.sync_api import Page, expect

from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey
from tests.browsers import open_page
from tests.dagster.web import finish, list_again, pid_of, wait_for, web_interface
from tests.use.pages import configuration

# Dagster's client calls gql in a way that gql is giving up.
pytestmark = pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")


@pytest.fixture(scope="module")
def ui(home: Path, source: Path) -> Iterator[int]:
    """The port of a running `nessie-ops ui` on the module's home."""
    with web_interface(home, NESSIE_OPS_SOURCE=str(source)) as port:
        yield port


@pytest.fixture
def graphql(ui: int) -> DagsterGraphQLClient:
    return DagsterGraphQLClient("127.0.0.1", port_number=ui)


def published(client: NessieClient, run_id: str) -> dict[str, tuple[str, ...]]:
    """Properties of main's newest commit, which must be the run's."""
    properties = client.list_log(client.get_reference("main").hash, limit=1)[0].commit_meta.all_properties
    assert properties["nessie_ops.run_id"] == (run_id,)
    return properties


def test_a_launch_by_graphql_ends_on_main(
    graphql: DagsterGraphQLClient, client: NessieClient, instance: dg.DagsterInstance
) -> None:
    run_id = graphql.submit_job_execution("load_month", tags={"dagster/partition": "2013-01"})
    assert finish(graphql, run_id) == dg.DagsterRunStatus.SUCCESS

    properties = published(client, run_id)
    assert properties["nessie_ops.partition"] == ("2013-01",)
    assert properties["nessie_ops.job"] == ("load_month",)
    head = client.get_reference("main").hash
    tables = {str(entry.name) for entry in client.list_entries(head) if len(entry.name.elements) == 2}
    assert {"bronze.flights", "silver.flights", "silver.flights_weather", "gold.airport_hourly"} <= tables
    assert [reference.name for reference in client.list_references(prefix="run/")] == []

    # Read back through Dagster: the materialization of the publish names main's commit.
    event = instance.get_latest_materialization_event(dg.AssetKey("publish"))
    assert event and event.asset_materialization and event.run_id == run_id
    assert event.asset_materialization.metadata["nessie/commit"].value == head


FACTS = """query($asset: AssetKeyInput!, $run: ID!) {
  assetNodeOrError(assetKey: $asset) { ... on AssetNode { assetMaterializations(limit: 1) { runId partition
    metadataEntries { label ... on TextMetadataEntry { text } ... on IntMetadataEntry { intValue }
      ... on MarkdownMetadataEntry { mdStr } } } } }
  runOrError(runId: $run) { ... on Run { jobName tags { key value } } } }"""


def test_what_a_month_changed_is_shown_and_run_and_commit_name_each_other(
    ui: int, graphql: DagsterGraphQLClient, client: NessieClient
) -> None:
    meta = client.get_commit(client.get_reference("main").hash)
    names = meta.all_properties
    [run_id] = names["nessie_ops.run_id"]
    assert names["nessie_ops.run_url"] == (f"http://127.0.0.1:{ui}/runs/{run_id}",)
    assert (names["nessie_ops.job"], names["nessie_ops.partition"]) == (("load_month",), ("2013-01",))
    assert "silver.flights" in names["nessie_ops.assets"] and names["nessie_ops.code_version"][0]
    ours = {
        "nessie/branch": f"run/{run_id}",
        "nessie/base_hash": meta.parent_commit_hashes[0],
        "nessie/validated_hash": meta.parent_commit_hashes[1],
    }

    def shown(*path: str) -> dict[str, Any]:
        """Metadata of the newest materialization; and tags of the run."""
        found = graphql._execute(FACTS, {"asset": {"path": path}, "run": run_id})
        [event] = found["assetNodeOrError"]["assetMaterializations"]
        assert (event["runId"], event["partition"]) == (run_id, "2013-01")
        tags = {tag["key"]: tag["value"] for tag in found["runOrError"]["tags"]}
        assert {**ours, "nessie/merge_commit": meta.hash}.items() <= tags.items()
        values = ("text", "intValue", "mdStr")
        return {
            row["label"]: next((row[name] for name in values if name in row), None) for row in event["metadataEntries"]
        }

    flights, published = shown("silver", "flights"), shown("publish")
    assert {**ours, "nessie/commit": meta.hash, "nessie/target": "main"}.items() <= published.items()
    rows, size = flights["rows_added"], flights["bytes_added"]  # numbers, which Dagster plots
    assert rows == flights["dagster/row_count"] > 2000 and size > 10_000
    assert published["rows_added"] > rows and published["bytes_added"] > size
    line = f"| silver.flights | created | {rows:,} (+{rows:,} -0) |"
    assert line in flights["changes"] and line in published["changes"]


HERE = {"repositoryName": "__repository__", "repositoryLocationName": "nessie_ops"}
IS_VALID = """query($job: PipelineSelector!, $config: RunConfigData!) {
  isPipelineConfigValid(pipeline: $job, mode: "default", runConfigData: $config) { __typename
    ... on RunConfigValidationInvalid { errors { message reason } } } }"""
PEOPLES = {  # what a page of docs/use configures, and of which job
    "rerun_month": ("launching.md", "prepare_rerun"),
    "discard_run": ("launching.md", "discard_branch"),
    "revert_run": ("launching.md", "revert_published"),
    "open_past": ("launching.md", "open_state"),
    "approve_request": ("merging.md", "approve"),
    "close_request": ("merging.md", "close"),
    "find_garbage": ("collection.md", "gc_sweep"),
    "delete_garbage": ("collection.md", "gc_deleted"),
}


@pytest.mark.parametrize("job", PEOPLES)
def test_a_launchpad_takes_what_the_pages_say_and_no_field_that_the_job_does_not_have(
    graphql: DagsterGraphQLClient, job: str
) -> None:
    given = configuration(*PEOPLES[job])
    for config, reasons in ((given, []), (given.replace("config:", "config:\n      odd: 1"), ["FIELD_NOT_DEFINED"])):
        variables = {"job": {**HERE, "pipelineName": job}, "config": config}
        found = graphql._execute(IS_VALID, variables)["isPipelineConfigValid"]
        assert [error["reason"] for error in found.get("errors", [])] == reasons, found
        assert (found["__typename"] == "PipelineConfigValidationValid") is not bool(reasons), found


def test_two_launches_at_once_both_end_on_main(
    graphql: DagsterGraphQLClient, client: NessieClient, instance: dg.DagsterInstance
) -> None:
    """Both write the same tables from the same main: the daemon runs the second again, on top of the first."""
    before = client.get_reference("main").hash
    launched = [
        graphql.submit_job_execution("load_month", tags={"dagster/partition": month})
        for month in ("2013-02", "2013-03")
    ]

    def loaded() -> set[str]:
        log = client.list_log(client.get_reference("main").hash, limit_hash=before)
        entries = [entry.commit_meta for entry in log if entry.commit_meta.hash != before]
        return {entry.all_properties["nessie_ops.partition"][0] for entry in entries}

    wait_for("both months on main", lambda: loaded() == {"2013-02", "2013-03"})
    groups = [[run_id, *list_again(instance, run_id)] for run_id in launched]
    bases = {instance.get_run_by_id(run_id).tags["nessie/base_hash"] for run_id in launched}  # type: ignore[union-attr]
    assert bases == {before}, "both started from the same main"
    assert sorted(len(group) for group in groups) == [1, 2], "one run was enough for the first, the second took two"
    loser = next(group for group in groups if len(group) == 2)
    first = instance.get_run_by_id(loser[0])
    assert first and "silver.flights" in first.tags["nessie/rebase"], "the conflict names the tables"
    assert finish(graphql, loser[1]) == dg.DagsterRunStatus.SUCCESS
    wait_for("no branch left", lambda: not client.list_references(prefix="run/"))


def test_a_killed_run_is_resumed_by_the_daemon_on_its_branch(
    graphql: DagsterGraphQLClient, client: NessieClient, instance: dg.DagsterInstance
) -> None:
    before = client.get_reference("main").hash
    run_id = graphql.submit_job_execution("load_month", tags={"dagster/partition": "2013-01"})

    def writes() -> bool:
        found = {reference.name: reference.hash for reference in client.list_references(prefix="run/")}
        return found.get(f"run/{run_id}", before) != before

    wait_for("the run's first commit", writes)
    os.kill(pid_of(instance, run_id), signal.SIGKILL)
    again = wait_for("the re-execution", lambda: next(iter(list_again(instance, run_id)), None))
    assert finish(graphql, again) == dg.DagsterRunStatus.SUCCESS
    assert published(client, again)["nessie_ops.root_run_id"] == (run_id,)
    resumed = instance.get_run_by_id(again)
    assert resumed and resumed.tags["dagster/is_resume_retry"] == "true", (
        "from the step that failed, not from the start"
    )
    steps = {stats.step_key for stats in instance.get_run_step_stats(again)}
    assert "publish" in steps and "run_branch" not in steps
    assert client.list_references(prefix="run/") == []


@pytest.fixture
def page() -> Iterator[Page]:
    with open_page() as page:
        yield page


@pytest.mark.browser
def test_a_click_on_launch_ends_on_main(
    ui: int, page: Page, graphql: DagsterGraphQLClient, client: NessieClient, instance: dg.DagsterInstance
) -> None:
    page.goto(f"http://127.0.0.1:{ui}/locations/nessie_ops/jobs/load_month")
    page.get_by_role("button", name="Materialize all").click()
    page.get_by_placeholder("ex: 2013-01").fill("2013-02")
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Launch 1 run").click()

    def launched() -> str | None:
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/from_ui": "true"}))
        return runs[0].run_id if runs else None

    run_id = wait_for("the launched run", launched)
    assert finish(graphql, run_id) == dg.DagsterRunStatus.SUCCESS
    assert published(client, run_id)["nessie_ops.partition"] == ("2013-02",)

    page.goto(f"http://127.0.0.1:{ui}/runs/{run_id}")
    expect(page.get_by_text("Success", exact=True).first).to_be_visible(timeout=60_000)
    page.goto(f"http://127.0.0.1:{ui}/assets/gold/carrier_delays")
    expect(page.get_by_text("2013-02").first).to_be_visible(timeout=60_000)


def test_a_terminated_run_is_cancelled_and_quarantined(
    graphql: DagsterGraphQLClient, client: NessieClient, instance: dg.DagsterInstance
) -> None:
    before = client.get_reference("main").hash
    run_id = graphql.submit_job_execution("load_month", tags={"dagster/partition": "2013-03"})

    def writes() -> bool:
        # The branch has a commit of its own: Spark is at work.
        found = {reference.name: reference.hash for reference in client.list_references(prefix="run/")}
        return found.get(f"run/{run_id}", before) != before

    wait_for("the run's first commit", writes)
    graphql.terminate_run(run_id)
    assert finish(graphql, run_id) == dg.DagsterRunStatus.CANCELED

    def reason() -> str | None:
        return client.get_reference(f"run/{run_id}").properties.get("quarantined")

    assert "cancel" in wait_for("the quarantine by the sensor", reason).lower()
    assert client.get_reference("main").hash == before
    flights = ContentKey.of("silver", "flights")
    assert flights in client.get_contents(before, [flights])
