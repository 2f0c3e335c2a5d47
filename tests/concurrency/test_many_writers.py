"""Many writers on one branch, each with tables of its own: none conflicts, none starves, and no move goes unlogged."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from nessie_ops.versioning import VersionStore
from tests.server.helpers import Api, put
from tests.server.processes import Served

TURNS = 6


@pytest.mark.parametrize("writers", [16, 64])
def test_writers_of_two_processes(writers: int, database_url: str, tmp_path: Path) -> None:
    """Each says as expected hash what it wrote last, however far the branch is by then."""
    with Served(tmp_path, "--workers", "2", store=database_url) as served:

        def write(writer: int) -> int:
            api = Api(served.base_uri)  # connections, and so processes, are chosen by chance
            at = api.head()
            for turn in range(TURNS):
                answer = api.call("POST", f"trees/main@{at}/history/commit", json=body(f"w{writer}t{turn}"))
                assert answer.status_code == 200, answer.text
                at = answer.json()["targetBranch"]["hash"]
            api.http.close()
            return TURNS

        with ThreadPoolExecutor(writers) as threads:
            total = sum(threads.map(write, range(writers)))
    with closing(VersionStore.open(database_url)) as versions:
        log = versions.list_log(versions.get_reference("main").hash, limit=10_000)
        assert len({entry.commit_meta.message for entry in log}) == len(log) == total
        moves = sorted(versions.list_moves(name="main", limit=10_000), key=lambda move: move.seq)
        assert [move.seq for move in moves] == list(range(1, total + 2)), "no gap"
        assert all(after.before == before.after for before, after in pairwise(moves))


def test_small_and_large_commits_take_turns(database_url: str, tmp_path: Path) -> None:
    """Sixteen writers, half of them with 20 puts a commit: each gets at least half of its share, at most twice."""
    puts, enough = [1, 20] * 8, 30
    done, is_enough = [0] * len(puts), threading.Event()
    with Served(tmp_path, store=database_url) as served:

        def write(writer: int) -> None:
            api = Api(served.base_uri)
            at = api.head()
            while not is_enough.is_set():
                names = [f"w{writer}c{done[writer]}p{n}" for n in range(puts[writer])]
                at = api.post(f"trees/main@{at}/history/commit", body(*names))["targetBranch"]["hash"]
                done[writer] += 1
                if sum(done) >= enough * len(puts):
                    is_enough.set()
            api.http.close()

        with ThreadPoolExecutor(len(puts)) as threads:
            list(threads.map(write, range(len(puts))))
    fair = sum(done) / len(done)
    assert fair / 2 <= min(done) and max(done) <= fair * 2, done


def body(*names: str) -> dict[str, object]:
    return {"commitMeta": {"message": names[0]}, "operations": [put(name) for name in names]}
