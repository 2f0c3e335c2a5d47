"""Garbage collection by a real webserver, daemon and browser: runs that die at each step, and a person's approval.

The catalog is a server that a test can make wait, so each run is killed or changed at a known point.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import httpx
import pyarrow as pa
import pytest
import yaml
from dagster_graphql import DagsterGraphQLClient
from playwright.sync_api import expect
from pyiceberg.table import Table

from assets.collection import LIVE_SET_TAG
from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.model import ReferenceType
from nessie_ops.runtime.home import create_home, store_url, warehouse_url
from nessie_ops.server.embedded import ensure_embedded
from nessie_ops.store.livesets import FileRecord, LiveSetRecord, LiveSets
from tests.browsers import open_page
from tests.dagster.garbage import ALL, KEYS
from tests.dagster.web import PATIENCE_S, finish, pid_of, retried, wait_for, web_interface
from tests.lossy import losing

SCHEMA = pa.schema([("id", pa.int64())])
OLD_S = 3 * 86_400
ORPHANS = 3100  # so many that the first are gone, before the references are looked at for the last time
CONFIG = {
    "ops": {
        "gc_plan": {"config": {"default_cutoff": "1"}},
        "gc_sweep": {"config": {"max_deletion_share": 1.0}},
    }
}
DRY_RUN = """mutation($schedule: ScheduleSelector!) { scheduleDryRun(selectorData: $schedule, timestamp: 1767229200) {
    ... on DryRunInstigationTick { evaluationResult { error { message } runRequests { tags { key value } } } } } }"""
AGAIN = """mutation($run: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $run) {
    ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
START = """mutation($schedule: ScheduleSelector!) { startSchedule(scheduleSelector: $schedule) {
    ... on ScheduleStateResult { scheduleState { id } } ... on PythonError { message } } }"""
STOP = "mutation($id: String!) { stopRunningSchedule(id: $id) { ... on ScheduleStateResult { scheduleState { id } } } }"
METADATA = """query($asset: AssetKeyInput!) { assetOrError(assetKey: $asset) { ... on Asset {
    assetMaterializations(limit: 8) { partition metadataEntries { label
        ... on IntMetadataEntry { intValue } ... on MarkdownMetadataEntry { mdStr }
        ... on PathMetadataEntry { path } ... on TextMetadataEntry { text } } } } } }"""

# Dagster's client calls gql in a way that gql is giving up.
pytestmark = pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")


class Gate:
    """Makes the first request that `applies` to wait until it is opened; `paths` are those that were asked for."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._applies: Callable[[str], bool] = lambda path: False
        self._reached, self._opened = threading.Event(), threading.Event()

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        if not self._reached.is_set() and self._applies(path):
            self._reached.set()
            self._opened.wait(PATIENCE_S)

    def close(self, applies: Callable[[str], bool]) -> None:
        self.paths.clear()
        self._opened.set()
        self._reached, self._opened, self._applies = threading.Event(), threading.Event(), applies

    def wait(self) -> None:
        assert self._reached.wait(PATIENCE_S), self.paths

    def open(self) -> None:
        self._applies = lambda path: False
        self._opened.set()


class Site(NamedTuple):
    """A home with tables, its web interface, and the gate before its catalog."""

    home: Path
    lake: NessieOpsCatalog
    sets: LiveSets
    gate: Gate
    port: int

    def ask(self, query: str, **variables: Any) -> Any:
        """The first field of the answer of the webserver."""
        answer = httpx.post(
            f"http://127.0.0.1:{self.port}/graphql", json={"query": query, "variables": variables}, timeout=60
        ).json()
        assert "errors" not in answer, answer
        return next(iter(answer["data"].values()))

    def go_on(self, run_id: str) -> str:
        """The run that re-executes another from its failure, and is not retried by the daemon."""
        tags = [{"key": "dagster/max_retries", "value": "0"}]
        answer = self.ask(AGAIN, run={"parentRunId": run_id, "strategy": "FROM_FAILURE", "extraTags": tags})
        return str(answer["run"]["runId"])

    def files(self) -> set[str]:
        return {f"file://{path}" for path in (self.home / "warehouse").rglob("*") if path.is_file()}

    def needed(self) -> set[str]:
        """What the heads need: all that their metadata lists."""
        found: set[str] = set()
        for lake in (self.lake, self.lake.on("dev")):
            for name in lake.list_tables("db"):
                found |= _needed(lake.load_table(name))
        return found

    def newest(self) -> LiveSetRecord:
        return self.sets.list_live_sets()[0]

    def count(self) -> dict[str, int]:
        """Recorded files by their state."""
        return {state: count for state, (count, _) in self.sets.sum_files(self.newest().number).items()}

    def grow_old(self) -> None:
        """Let new files be older than any grace."""
        then = time.time() - OLD_S
        for path in (self.home / "warehouse").rglob("*"):
            if path.stat().st_mtime > then + OLD_S / 2:  # others would be taken for written anew
                os.utime(path, (then, then))

    def drop_orphans(self, name: str, count: int) -> set[str]:
        folder = Path(self.lake.load_table("db.t").location().removeprefix("file://")) / "data"
        paths = [folder / f"{name}-{number}.parquet" for number in range(count)]
        for path in paths:
            path.write_bytes(b"orphan")
        self.grow_old()
        return {f"file://{path}" for path in paths}

    def read(self) -> dict[str, list[int]]:
        """The rows of the tables that are kept."""
        tables = {"t": self.lake.load_table("db.t"), "u": self.lake.on("dev").load_table("db.u")}
        return {name: sorted(table.scan().to_arrow()["id"].to_pylist()) for name, table in tables.items()}


ROWS = {"t": [2], "u": [0, 1]}


def _needed(table: Table) -> set[str]:
    found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return found


def _fill(lake: NessieOpsCatalog) -> None:
    """Two tables, of which one has lost its first snapshot, and a branch with a commit of its own."""
    lake.create_namespace("db")
    t = lake.create_table("db.t", SCHEMA)
    t.append(pa.table({"id": [1]}, schema=SCHEMA))
    first = t.metadata.snapshots[0].snapshot_id
    t.overwrite(pa.table({"id": [2]}, schema=SCHEMA))
    t.maintenance.expire_snapshots().by_id(first).commit()
    lake.create_table("db.u", SCHEMA).append(pa.table({"id": [0]}, schema=SCHEMA))
    lake.version_store.create_reference(ReferenceType.BRANCH, "dev", lake.version_store.get_reference("main").hash)
    lake.on("dev").load_table("db.u").append(pa.table({"id": [1]}, schema=SCHEMA))


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[Site]:
    settings = create_home(home) / "dagster" / "dagster.yaml"
    hurried = yaml.safe_load(settings.read_text())
    hurried["run_monitoring"]["poll_interval_seconds"] = 1
    del hurried["concurrency"]
    queue = {"class": "QueuedRunCoordinator", "config": {"dequeue_interval_seconds": 1}}
    settings.write_text(yaml.safe_dump({**hurried, "run_coordinator": {"module": "dagster", **queue}}))
    gate, sets = Gate(), LiveSets.open(f"sqlite:///{home}/gc.db")
    server = ensure_embedded(store_url(home), warehouse_url(home))
    with NessieOpsCatalog("lake") as lake, losing(server, lambda method: False, before=gate) as uri:
        _fill(lake)
        environment = {
            "NESSIE_OPS_URI": uri,
            "NESSIE_OPS_STORE": store_url(home),
            "NESSIE_OPS_SCHEDULES": '{"nightly_collection": "* * * * *"}',
            "DAGSTER_EVENT_LOG_CONSUMER_DAEMON_INTERVAL_SECONDS": "1",
        }
        with web_interface(home, **environment) as port:
            yield Site(home, lake, sets, gate, port)
    sets.close()


@pytest.fixture
def graphql(site: Site) -> DagsterGraphQLClient:
    return DagsterGraphQLClient("127.0.0.1", port_number=site.port)


def steps(instance: dg.DagsterInstance, run_id: str) -> set[str]:
    return {stats.step_key for stats in instance.get_run_step_stats(run_id) if stats.start_time}


def lists_references(path: str) -> bool:
    return path.partition("?")[0].endswith("/trees")


class Night:
    """A nightly run and its re-executions, each of which ends badly at another step but for the last."""

    def __init__(self, site: Site, graphql: DagsterGraphQLClient, instance: dg.DagsterInstance) -> None:
        self.site, self.gate, self.sets, self.graphql, self.instance = site, site.gate, site.sets, graphql, instance
        self.orphans = site.drop_orphans("orphan", ORPHANS)
        self.needed, self.before = site.needed(), site.files()
        assert self.orphans < self.before - self.needed
        self.runs: list[str] = []
        self.late: set[str] = set()

    def kill(self) -> None:
        os.kill(pid_of(self.instance, self.runs[-1]), signal.SIGKILL)

    def ends(self, status: dg.DagsterRunStatus) -> None:
        assert finish(self.graphql, self.runs[-1]) == status

    def die_in_the_mark(self, tags: dict[str, str]) -> None:
        """When one of two references is done, which is not walked again."""
        references = self.sets.list_references
        self.gate.close(lambda path: "/history" in path and any(row.is_done for row in references(1)))
        self.runs.append(self.graphql.submit_job_execution("collect_garbage", run_config=CONFIG, tags=tags))
        self.gate.wait()
        self.kill()
        [self.done] = [row for row in references(1) if row.is_done]

    def die_in_the_sweep(self) -> None:
        """When all folders are listed, of which none is listed again: what is dropped now stays."""
        self.gate.close(lambda path: lists_references(path) and self.site.newest().status == "EXPIRY_IN_PROGRESS")
        self.runs.append(retried(self.instance, self.runs[-1]))
        self.gate.wait()
        assert not [path for path in self.gate.paths if f"{self.done.hash}/history" in path]
        self.kill()
        self.late = self.site.drop_orphans("late", 1)

    def fail_the_check(self) -> None:
        """By a live file that gets among the candidates."""
        self.gate.close(lambda path: lists_references(path) and self.site.newest().status == "EXPIRY_SUCCESS")
        self.runs.append(retried(self.instance, self.runs[-1]))
        self.gate.wait()
        table = self.site.lake.load_table("db.t")
        self.sets.add_files(1, [FileRecord(table.metadata_location, table.location(), 1, 0)])
        self.gate.open()
        self.ends(dg.DagsterRunStatus.FAILURE)
        kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
        records = self.instance.get_records_for_run(self.runs[-1], of_type=kind).records
        events = [record.event_log_entry.dagster_event for record in records]
        found = {
            event.asset_check_evaluation_data.check_name: event.asset_check_evaluation_data for event in events if event
        }
        check = found["no_live_candidates"]
        assert not check.passed and check.metadata["files"].value == [table.metadata_location]
        assert self.site.files() == self.before | self.late
        self.sets.set_states(1, [(table.metadata_location, "kept", "is live")])

    def be_terminated(self) -> None:
        """While the heads are read again."""
        self.gate.close(lists_references)
        self.runs.append(self.site.go_on(self.runs[-1]))
        self.gate.wait()
        self.graphql.terminate_run(self.runs[-1])
        self.ends(dg.DagsterRunStatus.CANCELED)
        assert self.site.files() == self.before | self.late

    def die_in_the_deletion(self) -> None:
        """When files are gone of which nothing is recorded, since nobody can write to the live sets meanwhile."""
        self.gate.close(lambda path: lists_references(path) and bool(self.site.newest().owner))
        self.runs.append(self.site.go_on(self.runs[-1]))
        self.gate.wait()
        with closing(sqlite3.connect(self.site.home / "gc.db", isolation_level=None)) as lock:
            lock.execute("BEGIN IMMEDIATE")
            self.gate.close(lambda path: lists_references(path) and not self.orphans <= self.site.files())
            self.gate.wait()
            self.kill()
            self.ends(dg.DagsterRunStatus.FAILURE)
        self.gate.open()

    def end(self) -> None:
        self.runs.append(self.site.go_on(self.runs[-1]))
        self.ends(dg.DagsterRunStatus.SUCCESS)


def test_a_nightly_run_that_dies_at_every_step_is_taken_up(
    site: Site, graphql: DagsterGraphQLClient, instance: dg.DagsterInstance
) -> None:
    schedule = {"repositoryName": "__repository__", "repositoryLocationName": "nessie_ops"}
    tick = site.ask(DRY_RUN, schedule={**schedule, "scheduleName": "nightly_collection"})["evaluationResult"]
    tags = {tag["key"]: tag["value"] for tag in tick["runRequests"][0]["tags"]}
    assert tags.items() >= ALL.items()
    night = Night(site, graphql, instance)
    night.die_in_the_mark(tags)
    night.die_in_the_sweep()
    night.fail_the_check()
    night.be_terminated()
    night.die_in_the_deletion()
    night.end()
    assert site.files() == night.needed | night.late
    assert site.read() == ROWS
    assert [record.id for record in site.sets.list_live_sets()] == [night.runs[0]]  # one live set for them all
    counts, dead = site.count(), len(night.before - night.needed)
    assert counts.pop("kept") == 1 and counts["gone"] > 0
    assert sum(counts.values()) == counts["gone"] + counts["deleted"] == dead
    ran = [steps(instance, run_id) for run_id in night.runs]
    assert ["gc_plan" in each for each in ran] == [True] + [False] * 5
    assert ["gc_sweep" in each for each in ran] == [False, True, True, False, False, False]
    assert ran[-1] == {"gc_deleted", "store_purged"}

    found = site.ask(METADATA, asset={"path": ["gc_sweep"]})["assetMaterializations"]
    facts = {row["partition"]: {entry["label"]: entry for entry in row["metadataEntries"]} for row in found}
    assert set(facts) == set(KEYS)
    assert sum(each["files/dead"]["intValue"] for each in facts.values()) == dead
    assert any("data:image/svg+xml" in each["plots"]["mdStr"] for each in facts.values() if "plots" in each)
    assert all("db.t" in each["summary"]["mdStr"] for each in facts.values())
    assert all(Path(each["report"]["path"]).read_text().startswith("<!") for each in facts.values())


@pytest.mark.browser
def test_a_person_finds_garbage_and_has_it_deleted(
    site: Site, graphql: DagsterGraphQLClient, instance: dg.DagsterInstance
) -> None:
    site.gate.open()
    orphans = site.drop_orphans("another", 3)
    before = site.files()

    def launched(job: str) -> str:
        def look() -> str | None:
            runs = instance.get_runs(dg.RunsFilter(job_name=job))
            return runs[0].run_id if runs else None

        return wait_for(f"a run of {job}", look)

    with open_page() as page:
        page.goto(f"http://127.0.0.1:{site.port}/locations/nessie_ops/jobs/find_garbage")
        page.get_by_role("button", name="Materialize all").click()
        page.get_by_role("button", name="All", exact=True).click()
        page.get_by_role("button", name="Launch backfill").click()
        found = launched("find_garbage")
        assert finish(graphql, found) == dg.DagsterRunStatus.SUCCESS
        assert site.files() == before
        rows = site.ask(METADATA, asset={"path": ["gc_sweep"]})["assetMaterializations"]
        ids = {entry["text"] for row in rows for entry in row["metadataEntries"] if entry["label"] == LIVE_SET_TAG}
        assert ids == {found}

        page.goto(f"http://127.0.0.1:{site.port}/locations/nessie_ops/jobs/delete_garbage")
        button = page.get_by_role("button", name="Materialize all")
        button.locator("xpath=following::button[1]").click()
        page.get_by_text("Open launchpad").click()
        editor = page.locator(".cm-s-config-editor")
        expect(editor).to_contain_text("live_set", timeout=60_000)
        editor.click()
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(f"ops: {{gc_deleted: {{config: {{live_set: {found}}}}}}}")
        page.get_by_role("button", name=re.compile("Materialize$")).click()  # an icon's name comes first
        assert finish(graphql, launched("delete_garbage")) == dg.DagsterRunStatus.SUCCESS
    assert before - site.files() >= orphans
    assert site.needed() <= site.files()
    assert site.read() == ROWS


def test_the_daemon_collects_when_it_is_time(
    site: Site, graphql: DagsterGraphQLClient, instance: dg.DagsterInstance
) -> None:
    schedule = {"repositoryName": "__repository__", "repositoryLocationName": "nessie_ops"}
    site.gate.open()
    tag = dg.RunsFilter(tags={"dagster/schedule_name": "nightly_collection"})
    before = {run.run_id for run in instance.get_runs(tag)}  # the other tests' have the tags of a scheduled one
    started = site.ask(START, schedule={**schedule, "scheduleName": "nightly_collection"})["scheduleState"]["id"]

    def look() -> list[str]:
        return [run.run_id for run in instance.get_runs(tag) if run.run_id not in before]

    launched = wait_for("a run that the schedule launches", look)[-1]
    site.ask(STOP, id=started)
    assert finish(graphql, launched) == dg.DagsterRunStatus.SUCCESS
    assert "gc_deleted" in steps(instance, launched)
    assert site.needed() <= site.files()
    assert site.read() == ROWS
