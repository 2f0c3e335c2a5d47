"""The server inside a process: one per store, on its own port, safe beside those of other processes."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.model import ContentKey, NewCommit, Put
from nessie_ops.server.embedded import ensure_embedded
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import table

PROCESSES, WRITERS, COMMITS = 3, 2, 15


def urls(folder: Path) -> tuple[str, str]:
    return f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"


def write_all(store: str, warehouse: str, process: int) -> list[str]:
    """What one process does: an embedded server of its own, and threads that commit through it."""
    with NessieClient(ensure_embedded(store, warehouse)) as client, ThreadPoolExecutor(WRITERS) as pool:

        def write(writer: int) -> list[str]:
            return [commit(client, f"p{process}_w{writer}_{n}") for n in range(COMMITS)]

        return [hash for hashes in pool.map(write, range(WRITERS)) for hash in hashes]


def commit(client: NessieClient, name: str) -> str:
    head = client.get_reference("main").hash
    put = Put(ContentKey.of(name), table(1))
    return client.commit("main", head, NewCommit(message=name), [put]).target_branch.hash


def test_processes_with_a_server_each_lose_no_commit(tmp_path: Path) -> None:
    store, warehouse = urls(tmp_path)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        done = pool.starmap(write_all, [(store, warehouse, n) for n in range(PROCESSES)])
    acknowledged = {hash for hashes in done for hash in hashes}
    with closing(VersionStore.open(store)) as versions:
        head = versions.get_reference("main").hash
        log = versions.list_log(head, limit=1000)
        names = {str(entry.name) for entry in versions.list_entries(head)}
    assert len(acknowledged) == PROCESSES * WRITERS * COMMITS
    assert {entry.commit_meta.hash for entry in log} == acknowledged, "each commit is there, and none twice"
    expected = {f"p{p}_w{w}_{n}" for p in range(PROCESSES) for w in range(WRITERS) for n in range(COMMITS)}
    assert names == expected


def test_one_server_per_store_however_many_ask(tmp_path: Path) -> None:
    store, warehouse = urls(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: ensure_embedded(store, warehouse), range(16)))
    (base_uri,) = found
    assert httpx.get(f"{base_uri}/health").json()["warehouse"] == warehouse
    assert base_uri.startswith("http://127.0.0.1:")
    assert ensure_embedded(*urls(tmp_path / "other")) != base_uri


def test_a_store_that_cannot_be_opened_is_an_error_and_can_be_tried_again(tmp_path: Path) -> None:
    _, warehouse = urls(tmp_path)
    for _ in range(2):
        with pytest.raises(BadRequest, match="store"):
            ensure_embedded("oracle://x/y", warehouse)
    (tmp_path / "catalog.db").mkdir()
    store = f"sqlite:///{tmp_path}/catalog.db"
    with pytest.raises(StoreUnavailable):
        ensure_embedded(store, warehouse)
    (tmp_path / "catalog.db").rmdir()
    assert httpx.get(f"{ensure_embedded(store, warehouse)}/health").status_code == 200


FORKS = """
import os, sys, threading
from nessie_ops.client import NessieClient
from nessie_ops.server import embedded
from tests.server.test_embedded import commit

store, warehouse = sys.argv[1:]
parent_uri = embedded.ensure_embedded(store, warehouse)
with NessieClient(parent_uri) as client:
    commit(client, "before")
    embedded._lock.acquire()  # as if another thread were just starting a server
    child = os.fork()
    if child == 0:
        uri = embedded.ensure_embedded(store, warehouse)
        assert uri != parent_uri
        with NessieClient(uri) as own:
            commit(own, "child")
        os._exit(0)
    embedded._lock.release()
    assert os.waitpid(child, 0)[1] == 0
    assert embedded.ensure_embedded(store, warehouse) == parent_uri
    commit(client, "after")
    print([entry.commit_meta.message for entry in client.list_log(client.get_reference("main").hash)])
"""


def test_a_forked_child_starts_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKS, *urls(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (0, "['after', 'child', 'before']\n"), done.stderr


ENDS = """
import sys
from nessie_ops.server.embedded import ensure_embedded
print(ensure_embedded(*sys.argv[1:]), flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("how", ["returns", "is killed"])
def test_the_server_ends_with_its_process(tmp_path: Path, how: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDS, *urls(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    base_uri = process.stdout.readline().strip()
    with httpx.Client(timeout=60) as client:
        assert client.get(f"{base_uri}/health").status_code == 200
        if how == "is killed":
            process.send_signal(signal.SIGKILL)
        _, errors = process.communicate("\n" if how == "returns" else None, timeout=60)
    assert process.returncode == (0 if how == "returns" else -signal.SIGKILL)
    assert errors == ""
    host, port = base_uri.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5).close()


def test_it_needs_no_main_thread(tmp_path: Path) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(ensure_embedded(*urls(tmp_path))))
    thread.start()
    thread.join()
    assert httpx.get(f"{found[0]}/health").status_code == 200
