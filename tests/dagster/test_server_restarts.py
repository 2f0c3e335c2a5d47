"""The catalog's server dies when a run asks something of it, and is started again: once on main, and said so.

The server is a process of its own; the runs are those of the light pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import dagster as dg
import pytest

from nessie_ops.client import NessieClient
from tests.dagster.light import WRITES, execute, follow, launch, publish_again, published, tick, told
from tests.lossy import losing
from tests.ports import free_port
from tests.server.processes import Served

SUCCESS, FAILURE = dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE


class Server:
    """A catalog that dies at the first request whose path ends with `deadly`, or when it `has_done` what that asks."""

    def __init__(self, folder: Path) -> None:
        self.deadly, self.has_done = "", False
        self._folder, self._port, self._path = folder, str(free_port()), ""
        self.start()
        self.url = self._process.base_uri

    def start(self) -> None:
        self._process = Served(self._folder, "--port", self._port)

    def end(self) -> None:
        self._process.__exit__()

    def before(self, path: str) -> None:
        self._path = path
        if not self.has_done:
            self._die()

    def loses(self, method: str) -> bool:
        return self.has_done and method == "POST" and self._die()

    def _die(self) -> bool:
        if not self.deadly or not self._path.endswith(self.deadly):
            return False
        self.deadly = ""
        self.end()
        return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ExitStack() as stack:
        server = Server(tmp_path_factory.mktemp("catalog"))
        stack.callback(lambda: server.end())
        proxy = stack.enter_context(losing(server.url, server.loses, before=server.before))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("NESSIE_OPS_URI", proxy)
        yield server


@pytest.fixture(scope="module")
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.mark.parametrize(
    ("publish", "deadly", "has_done"),
    [
        ("merge", "/history/commit", False),
        ("merge", "/history/merge", True),
        ("sensor", "/merge-requests", True),
        ("sensor", "/merge", True),
    ],
)
def test_it_dies_and_is_started_again(
    server: Server, instance: dg.DagsterInstance, publish: str, deadly: str, has_done: bool
) -> None:
    before, by_sensor = told(instance), deadly == "/merge"
    if by_sensor:
        root = execute(instance, {WRITES: "silver.flights"}, publish=publish).run_id
        [wanted] = tick(instance)
    server.deadly, server.has_done = deadly, has_done
    if by_sensor:
        failed = launch(instance, wanted)
    else:
        failed = execute(instance, {WRITES: "silver.flights"}, publish=publish)
        root = failed.run_id
    assert failed.status == FAILURE and told(instance) == before
    [event] = instance.all_logs(failed.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
    assert "at http://127.0.0.1" in str(event.dagster_event and event.dagster_event.event_specific_data)

    server.start()
    with NessieClient(server.url) as client:
        if deadly == "/history/commit":
            assert execute(instance, parent=failed, publish=publish).status == SUCCESS
        elif not by_sensor:
            assert publish_again(instance, failed, publish).success
        assert [run.status for run in follow(instance)] == [SUCCESS] * (publish == "sensor")
        [commit] = published(client, root)
        assert told(instance) == [commit, *before]
        assert client.list_references(prefix=f"run/{root}") == []
