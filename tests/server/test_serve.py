"""`nessie-ops serve` as a process: it starts, stops when told, and loses nothing that it acknowledged."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MachineNotReady, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import NO_ANCESTOR, CommitHash, ContentKey, NewCommit, Put
from nessie_ops.server.serve import announce, base_uri_of, bind
from nessie_ops.server.settings import DEFAULT_PORT, Settings
from nessie_ops.versioning import VersionStore
from tests.server.helpers import put
from tests.server.processes import Served
from tests.versioning.helpers import table

WRITERS, ENOUGH = 3, 40


def write(client: NessieClient, name: str) -> CommitHash:
    head = client.get_reference("main").hash
    new = Put(ContentKey.of(name), table(1))
    return client.commit("main", head, NewCommit(message=name), [new]).target_branch.hash


def test_it_is_ready_at_once_and_quiet(tmp_path: Path) -> None:
    with Served(tmp_path) as server:
        answer = httpx.get(f"{server.base_uri}/health")
        assert answer.status_code == 200
        assert answer.json() == {"status": "UP", "defaultBranch": "main", "warehouse": f"file://{tmp_path}/warehouse"}
        assert httpx.get(f"{server.base_uri}/iceberg/v1/config").status_code == 200
        assert httpx.get(f"{server.base_uri}/nope").status_code == 404
        assert server.stop(signal.SIGTERM) == (0, "")


def test_an_interrupt_stops_it_as_well(tmp_path: Path) -> None:
    with Served(tmp_path) as server:
        assert server.stop(signal.SIGINT) == (0, "")


def test_sigterm_lets_requests_in_flight_finish(tmp_path: Path) -> None:
    with Served(tmp_path) as server:
        connection = http.client.HTTPConnection(server.base_uri.removeprefix("http://"), timeout=60)
        connection.request("GET", "/health")
        connection.getresponse().read()
        database = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None)
        database.execute("BEGIN IMMEDIATE")  # the write waits for this lock
        body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
        path = f"/api/v2/trees/main@{NO_ANCESTOR}/history/commit"
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        httpx.get(f"{server.base_uri}/health")  # when this is answered, the server has read the request above
        server.process.send_signal(signal.SIGTERM)
        _wait_until_refused(server.base_uri)
        assert server.process.poll() is None, "the server waits for the request"
        database.execute("ROLLBACK")
        database.close()
        answer = connection.getresponse()
        assert answer.status == 200
        acknowledged = json.loads(answer.read())["targetBranch"]["hash"]
        connection.close()
        assert server.process.wait(60) == 0
    with closing(VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")) as versions:
        assert versions.get_reference("main").hash == acknowledged


def _wait_until_refused(base_uri: str) -> None:
    host, port = base_uri.removeprefix("http://").split(":")
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            return
        time.sleep(0.01)


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[list[CommitHash]] = [[] for _ in range(WRITERS)]
    unknown: list[Exception] = []

    def write_until_killed(base_uri: str, writer: int) -> None:
        with NessieClient(base_uri) as client:
            try:
                while True:
                    acknowledged[writer].append(write(client, f"w{writer}_{len(acknowledged[writer])}"))
            except (OutcomeUnknown, StoreUnavailable) as error:
                unknown.append(error)

    with Served(tmp_path) as server:
        threads = [threading.Thread(target=write_until_killed, args=(server.base_uri, n)) for n in range(WRITERS)]
        for thread in threads:
            thread.start()
        while min(len(done) for done in acknowledged) < ENOUGH:
            time.sleep(0.001)
        assert server.stop(signal.SIGKILL)[0] == -signal.SIGKILL
        for thread in threads:
            thread.join()
    assert len(unknown) == WRITERS, "each writer saw that its last write or read was not answered"
    with Served(tmp_path) as server, NessieClient(server.base_uri) as client:
        head = client.get_reference("main").hash
        kept = {entry.commit_meta.hash for entry in client.list_log(head, limit=10_000)}
        named = {str(entry.name) for entry in client.list_entries(head)}
        assert sum(map(len, acknowledged)) <= len(kept) <= sum(map(len, acknowledged)) + WRITERS
        for writer, hashes in enumerate(acknowledged):
            assert kept.issuperset(hashes)
            assert named.issuperset(f"w{writer}_{n}" for n in range(len(hashes)))
        write(client, "after")


def _serve(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "nessie_ops", "serve", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])


def test_a_taken_port_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = _serve("--port", port, "--store", f"sqlite:///{tmp_path}/catalog.db")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"127.0.0.1:{port}" in done.stderr and "--port" in done.stderr
    assert not (tmp_path / "catalog.db").exists(), "nothing is created before the port is had"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--port", "70000"), "port"),
        (("--host", "no.such.host.invalid"), "host"),
        (("--port", "0", "--store", "oracle://x/y"), "store"),
        (("--port", "0", "--store", "sqlite://", "--allowed-location", "http://x/y"), "allowed-location"),
    ],
)
def test_wrong_options_are_named(options: tuple[str, ...], word: str) -> None:
    done = _serve(*options)
    assert done.returncode == (1 if word == "host" else 2)  # whether a host is known is not for the options to say
    assert done.stderr.count("\n") == 1 and word in done.stderr


def test_settings_come_from_options_then_environment_then_home(tmp_path: Path) -> None:
    env = {"NESSIE_OPS_STORE": "sqlite://", "NESSIE_OPS_PORT": "1", "NESSIE_OPS_HOST": "::1"}
    found = Settings.from_env(port=2, warehouse="file:///w", env=env)
    assert found == Settings(store="sqlite://", warehouse="file:///w", host="::1", port=2)
    default = Settings.from_env(env={})
    assert (default.host, default.port) == ("127.0.0.1", DEFAULT_PORT)
    assert default.store.endswith("/catalog.db") and default.warehouse.endswith("/warehouse")
    assert default.allowed_locations == ()
    several = {"NESSIE_OPS_ALLOWED_LOCATIONS": "s3://a, /b,"}
    assert Settings.from_env(env=several).allowed_locations == ("s3://a", "/b")
    assert Settings.from_env(allowed_locations=["s3://c"], env=several).allowed_locations == ("s3://c",)
    for port in ("x", "-1", "65536", "²"):
        with pytest.raises(BadRequest, match="port"):
            Settings.from_env(env={"NESSIE_OPS_PORT": port})


def test_addresses_of_both_families() -> None:
    for host, start in (("127.0.0.1", "http://127.0.0.1:"), ("::1", "http://[::1]:")):
        try:
            sock = bind(host, 0)
        except MachineNotReady:
            assert host == "::1", "a machine may lack IPv6, not IPv4"
            continue
        with sock:
            assert base_uri_of(sock).startswith(start)


@pytest.mark.parametrize(
    "store", ["postgresql://me:secret@host/db", "postgresql:///db?user=me&password=secret", "mariadb://me@h/d?x=secret"]
)
def test_no_password_is_announced(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(bind("127.0.0.1", 0)) as sock:
        announce(sock, Settings(store=store, warehouse=str(tmp_path), port=0))
    told = capsys.readouterr().out
    assert "/d" in told and "secret" not in told
