"""What goes wrong between a validation and its merge, in both ways to publish: once on main or not at all, and said so.

The runs are those of the light pipeline; their requests go through a proxy that loses answers or keeps them waiting.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import dagster as dg
import pytest
import sqlalchemy

from assets.run_branches import MAX_REBASES
from assets.runs import branch_of, root_of
from nessie_ops.client import NessieClient
from nessie_ops.instance import open_instance
from nessie_ops.model import MergeRequestState
from resources.catalog import CatalogResource
from tests.crash.small_disk import SmallDisk, mounted
from tests.dagster.light import (
    RIVALS,
    WRITES,
    defs,
    drive,
    execute,
    follow,
    launch,
    publish_again,
    published,
    tick,
    told,
)
from tests.dagster.web import PATIENCE_S
from tests.lossy import losing

SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE
ONE = {WRITES: "silver.flights"}
BOTH = pytest.mark.parametrize("publish", ["merge", "sensor"])


@pytest.fixture(scope="module")
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    """An instance in memory: each run writes down some two hundred events."""
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def client(home: Path) -> Iterator[NessieClient]:
    """A client of the home's catalog that bypasses every proxy; nothing waits in it when the test ends."""
    client = CatalogResource().client
    yield client
    for request in client.list_merge_requests():
        if request.state in (MergeRequestState.OPEN, MergeRequestState.CONFLICT):
            client.close_merge_request(request.number, "the test has ended")
    for branch in client.list_references(prefix="run/"):
        client.delete_reference(branch.name, None)


def load(instance: dg.DagsterInstance, publish: str, tags: dict[str, str]) -> list[dg.DagsterRun]:
    """A run, and all that follows of it by the daemon or the sensor."""
    if publish == "merge":
        return drive(instance, tags)
    return [execute(instance, tags, publish=publish), *follow(instance)]


class Network:
    """What happens to requests: the answer to the first whose path ends so is lost, or the request waits."""

    def __init__(self) -> None:
        self.lost, self.stalled = "", ""
        self.arrived, self.released = threading.Event(), threading.Event()
        self._path = threading.local()

    def before(self, path: str) -> None:
        self._path.value = path
        if self.stalled and path.endswith(self.stalled):
            self.stalled = ""
            self.arrived.set()
            assert self.released.wait(PATIENCE_S)

    def loses(self, method: str) -> bool:
        hit = bool(self.lost) and f"{method} {self._path.value}".endswith(self.lost)
        if hit:
            self.lost = ""
        return hit


@pytest.fixture
def network(client: NessieClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """The network between the pipeline and its catalog."""
    network = Network()
    with losing(client.base_uri, network.loses, before=network.before) as url:
        monkeypatch.setenv("NESSIE_OPS_URI", url)
        yield network


@BOTH
def test_main_moved_three_times(client: NessieClient, instance: dg.DagsterInstance, publish: str) -> None:
    runs = load(instance, publish, {**ONE, RIVALS: str(MAX_REBASES)})
    loads = [run for run in runs if run.job_name == "load_month"]
    assert len(loads) == 1 + MAX_REBASES and runs[-1].status == SUCCESS
    assert {root_of(run) for run in loads} == {loads[0].run_id}
    assert told(instance)[0] == published(client, loads[0].run_id)[0] == client.get_reference("main").hash
    assert len(published(client, loads[0].run_id)) == 1


def test_main_moved_a_fourth_time_asks_for_a_person(client: NessieClient, instance: dg.DagsterInstance) -> None:
    before = told(instance)
    runs = load(instance, "sensor", {**ONE, RIVALS: str(MAX_REBASES + 1)})
    assert len([run for run in runs if run.job_name == "load_month"]) == 1 + MAX_REBASES
    assert runs[-1].status == FAILURE
    assert published(client, runs[0].run_id) == [] and told(instance) == before
    [request] = client.list_merge_requests(source=branch_of(runs[0]))
    assert request.state is MergeRequestState.CONFLICT and "silver.flights" in request.outcome
    assert tick(instance) == []


@pytest.mark.parametrize(
    ("publish", "lost"),
    [
        ("merge", "/history/merge"),
        ("merge", "DELETE"),
        ("sensor", "POST /api/v2/merge-requests"),
        ("sensor", "/checks"),
        ("sensor", "/merge"),
    ],
)
def test_an_answer_is_lost(
    client: NessieClient, instance: dg.DagsterInstance, network: Network, publish: str, lost: str
) -> None:
    network.lost = lost
    if lost == "DELETE":
        network.loses = lambda method: method == "DELETE"  # type: ignore[method-assign]
    runs = load(instance, publish, ONE)
    assert [why(instance, run) for run in runs if run.status != SUCCESS] == []
    assert len(runs) == (1 if publish == "merge" else 2)
    assert network.lost != lost or lost == "DELETE", "the request was made"
    assert published(client, runs[0].run_id) == [told(instance)[0]]
    assert client.list_references(prefix=branch_of(runs[0])) == []


def test_a_conflict_whose_answer_is_lost_runs_again_on_the_new_main(
    client: NessieClient, instance: dg.DagsterInstance, network: Network
) -> None:
    first = execute(instance, {**ONE, RIVALS: "1"}, publish="sensor")
    [wanted] = tick(instance)
    network.lost = "/merge"
    assert launch(instance, wanted).status == FAILURE
    runs = follow(instance)
    assert [run.job_name for run in runs] == ["load_month", "merge_one_request"]
    assert len(published(client, first.run_id)) == 1


@BOTH
def test_killed_before_it_could_say_that_the_conflict_was_met(
    client: NessieClient, instance: dg.DagsterInstance, publish: str
) -> None:
    """Someone else merges the request, so nobody marks the branch; or the process dies after its publishing."""
    first = execute(instance, {**ONE, RIVALS: "1"}, publish="sensor")
    [request] = client.list_merge_requests(source=branch_of(first))
    assert client.merge_merge_request(request.number, by="ann").state is MergeRequestState.CONFLICT
    if publish == "merge":
        runs = [execute(instance, parent=first), execute(instance, parent=first)]
        assert runs[0].status == FAILURE
    else:
        runs = follow(instance)
        assert [run.job_name for run in runs] == ["load_month", "merge_one_request"]
    assert runs[-1].status == SUCCESS and len(published(client, first.run_id)) == 1


@BOTH
def test_retried_at_its_end_a_run_finds_what_was_done(
    client: NessieClient, instance: dg.DagsterInstance, publish: str
) -> None:
    """The process died after the catalog had done what was asked for, and before Dagster knew."""
    runs = load(instance, publish, ONE)
    done = published(client, runs[0].run_id)
    again = publish_again(instance, runs[0], publish)
    assert again.success
    assert published(client, runs[0].run_id) == done and len(done) == 1
    assert tick(instance) == []


@BOTH
def test_a_first_attempt_that_still_runs_publishes_nothing_beside_the_second(
    client: NessieClient, instance: dg.DagsterInstance, network: Network, publish: str
) -> None:
    """The first attempt waits in the network with what it wants of the catalog; the second one does all again."""
    before = told(instance)
    network.stalled = "/history/merge" if publish == "merge" else "/merge-requests"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(execute, instance, ONE, publish=publish)
        assert network.arrived.wait(PATIENCE_S)
        [first] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        second = execute(instance, parent=first, publish=publish)
        network.released.set()
        first = waiting.result()
    runs = [first, second, *(follow(instance) if publish == "sensor" else [])]
    assert [run.status for run in runs] == [FAILURE, *[SUCCESS] * (len(runs) - 1)]
    assert len(published(client, first.run_id)) == 1
    assert told(instance) == [*published(client, first.run_id), *before]
    said = why(instance, first)
    assert ("Another attempt" if publish == "merge" else "someone wrote to it") in said


def why(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """What the run says of its failure, and the step that failed of its own."""
    records = instance.all_logs(run.run_id, of_type={dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE})
    return "\n".join(f"{record.user_message} {record.dagster_event.event_specific_data}" for record in records
                     if record.dagster_event)  # fmt: skip


@BOTH
def test_a_first_attempt_that_comes_late_does_not_publish(
    client: NessieClient, instance: dg.DagsterInstance, network: Network, publish: str
) -> None:
    """It is kept waiting with its last write, and would then validate and publish what it found."""
    network.stalled = "/history/commit"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(execute, instance, ONE, publish=publish)
        assert network.arrived.wait(PATIENCE_S)
        [first] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        again = instance.create_run_for_job(
            defs.resolve_job_def("load_month"),
            tags={"dagster/parent_run_id": first.run_id, "dagster/root_run_id": first.run_id},
        )
        network.released.set()
        first = waiting.result()
    assert first.status == FAILURE and published(client, first.run_id) == []
    assert client.list_merge_requests(source=branch_of(first)) == []
    assert f"Run {again.run_id} executes this one again" in why(instance, first)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """All of Dagster's databases, locked by someone else."""
    with ExitStack() as stack:
        for path in sorted(folder.rglob("*.db")):
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60)
            stack.callback(connection.close)
            connection.execute("BEGIN EXCLUSIVE")
        yield


@contextmanager
def full(disk: SmallDisk) -> Iterator[None]:
    """No byte is left for Dagster."""
    disk.fill()
    yield
    disk.free()


@pytest.fixture
def impatient() -> Iterator[None]:
    """SQLite waits for a lock for a moment, not for the half minute that Dagster allows it."""

    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA busy_timeout = 100")

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", connected)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", connected)


@dataclass
class Trouble:
    """A Dagster that keeps what it knows in files, what may befall them, and how an error then speaks of it."""

    instance: dg.DagsterInstance
    begins: Callable[[], AbstractContextManager[None]]
    error: str


@pytest.fixture(params=["locked", "full"])
def trouble(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> Iterator[Trouble]:
    monkeypatch.setenv("DAGSTER_HOME", "")  # it comes back after the test
    with ExitStack() as stack:
        if request.param == "locked":
            instance = stack.enter_context(open_instance(tmp_path))
            yield Trouble(instance, lambda: locked(tmp_path), "database is locked")
        else:
            disk = stack.enter_context(mounted("64m"))
            instance = stack.enter_context(open_instance(disk.folder))
            yield Trouble(instance, lambda: full(disk), "disk I/O error|disk is full")


@BOTH
def test_dagster_cannot_write_down_what_it_did(
    client: NessieClient, trouble: Trouble, network: Network, publish: str
) -> None:
    """From the merge on Dagster can write nothing down; afterwards it is told what the catalog knows."""
    instance = trouble.instance
    if publish == "merge":
        network.stalled, begin = "/history/merge", partial(execute, instance, ONE)
    else:
        asked = execute(instance, ONE, publish=publish)
        [wanted] = tick(instance)
        network.stalled, begin = "/merge", partial(launch, instance, wanted)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(begin)
        assert network.arrived.wait(PATIENCE_S)
        [run] = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        with trouble.begins():
            network.released.set()
            with pytest.raises(Exception, match=trouble.error):
                waiting.result()
    root = root_of(run) if publish == "merge" else asked.run_id
    [commit] = published(client, root)
    assert told(instance) == []
    found_dead(instance, run)
    if publish == "merge":
        assert publish_again(instance, run, publish).success
    else:
        assert launch(instance, wanted).status == SUCCESS
    assert published(client, root) == [commit] == told(instance)


def found_dead(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """What the daemon does of a run whose process has ended: it fails, and others may publish in its place."""
    if instance.get_run_by_id(run.run_id).status == dg.DagsterRunStatus.STARTED:  # type: ignore[union-attr]
        instance.report_run_failed(run, "its process has ended")
    instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
