"""Several processes serve one port and one store: a dead one is replaced, and none outlives its parent."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey, IcebergTable, NewCommit, Put
from tests.server.processes import Served

WAIT_S = 60


def workers_of(served: Served) -> list[int]:
    pid = served.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except FileNotFoundError:
        return False


def wait_until_dead(pids: list[int]) -> None:
    deadline = time.monotonic() + WAIT_S
    while any(map(is_alive, pids)):
        assert time.monotonic() < deadline, f"still running: {pids}"
        time.sleep(0.05)


def commit(base_uri: str, name: str) -> None:
    with NessieClient(base_uri) as client:
        head = client.get_reference("main").hash
        table = IcebergTable(
            metadata_location=f"file:///{name}", snapshot_id=1, schema_id=0, spec_id=0, sort_order_id=0
        )
        client.commit("main", head, NewCommit(message=name), [Put(ContentKey.of(name), table)])


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(tmp_path, "--workers", "2")


def test_both_write_and_none_conflicts(served: Served) -> None:
    with served:
        workers = workers_of(served)
        assert len(workers) == 2
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda n: commit(served.base_uri, f"t{n}"), range(40)))
        with NessieClient(served.base_uri) as client:
            assert len(client.list_entries(client.get_reference("main").hash)) == 40
        assert served.stop(signal.SIGTERM) == (0, "")
        wait_until_dead(workers)


def test_a_killed_worker_is_replaced_and_loses_nothing_acknowledged(served: Served) -> None:
    with served:
        for n in range(6):
            commit(served.base_uri, f"t{n}")
            if n % 3 == 1:
                victim = workers_of(served)[0]
                os.kill(victim, signal.SIGKILL)
                deadline = time.monotonic() + WAIT_S
                while victim in workers_of(served) or len(workers_of(served)) < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
        with NessieClient(served.base_uri) as client:
            head = client.get_reference("main").hash
            assert [str(entry.name) for entry in client.list_entries(head)] == [f"t{n}" for n in range(6)]


def test_workers_end_when_their_parent_is_killed(served: Served) -> None:
    with served:
        commit(served.base_uri, "t")
        workers = workers_of(served)
        served.stop(signal.SIGKILL)
        wait_until_dead(workers)
