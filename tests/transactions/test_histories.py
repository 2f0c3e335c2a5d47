"""Random transactions against real servers that die, lose answers and let leases run out: each level holds.

What the clients saw is judged by the checker, against the log that the servers keep.  Seeds and lengths of other runs:
NESSIE_OPS_HISTORY_SEEDS=1,2,3 NESSIE_OPS_HISTORY_STEPS=1000 (transactions per client).
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.transactions.committing import ID
from tests.iceberg.helpers import SCHEMA
from tests.ports import free_port
from tests.server.helpers import Api, namespace, put, table
from tests.server.processes import Served
from tests.transactions.checker import Commit, Level, Look, Outcome, Told, Write, check
from tests.transactions.workers import PAIR, TABLES, TOTAL, Run, Seen, Worker, amount_of, value_of

SEEDS = [int(text) for text in os.environ.get("NESSIE_OPS_HISTORY_SEEDS", "1").split(",")]
STEPS = int(os.environ.get("NESSIE_OPS_HISTORY_STEPS", "15"))
CLIENTS = 6
KILLS = 2


class Servers:
    """Server processes on one database, each on a port of its own, which it has again after it was killed."""

    def __init__(self, folder: Path, store: str | None, count: int) -> None:
        self._folder, self._store = folder, store
        self._ports = [str(free_port()) for _ in range(count)]
        self._served = [self._start(port) for port in self._ports]
        self.uris = [served.base_uri for served in self._served]

    def _start(self, port: str) -> Served:
        return Served(self._folder, "--port", port, store=self._store)

    def kill(self, number: int) -> None:
        """Kill one of them, at whatever it is, and start it again."""
        self._served[number].__exit__()
        self._served[number] = self._start(self._ports[number])

    def close(self) -> None:
        for served in self._served:
            served.__exit__()


@contextmanager
def serving(folder: Path, store: str | None, count: int) -> Iterator[Servers]:
    servers = Servers(folder, store, count)
    try:
        yield servers
    finally:
        servers.close()


def fill(api: Api) -> str:
    """The pair, a namespace with a table, and two Iceberg tables; the head."""
    pair = [put(name, table(1) | {"metadataLocation": f"{name}-first:{TOTAL // 2}"}) for name in PAIR]
    api.commit(*pair, put("c"), put("n", namespace("n")), put("n.x", table(2)), put("ice", namespace("ice")))
    for name in TABLES:
        path = "/iceberg/v1/main/namespaces/ice/tables"
        api.http.post(path, json={"name": name.removeprefix("ice."), "schema": SCHEMA}).raise_for_status()
    return api.head()


def run(servers: Servers, seed: int) -> list[Worker]:
    """Let all clients do their steps, while servers are killed one after the other."""
    heads = [fill(Api(servers.uris[0]))]
    workers = [Worker(servers.uris, 1000 * seed + number, heads) for number in range(CLIENTS)]
    failed = threading.Event()

    def work(worker: Worker) -> None:
        try:
            for _ in range(STEPS):
                if failed.is_set():
                    return
                worker.step()
        except BaseException:
            failed.set()
            raise

    with ThreadPoolExecutor(CLIENTS) as threads:
        futures = [threads.submit(work, worker) for worker in workers]
        for number in range(KILLS):
            _wait_for((number + 1) * CLIENTS * STEPS // (KILLS + 2), workers, futures)
            servers.kill(number % len(servers.uris))
        for future in futures:
            future.result()
    return workers


def _wait_for(transactions: int, workers: Sequence[Worker], futures: Sequence[Future[None]]) -> None:
    while sum(len(worker.runs) for worker in workers) < transactions and not all(one.done() for one in futures):
        time.sleep(0.02)


def read_log(api: Api, names: set[str]) -> tuple[list[Commit], dict[str, int]]:
    """(the log of main, oldest first, after how many commits each commit was the head)."""
    entries: list[Any] = []
    token: str | None = ""
    while token is not None:
        page = api.get("trees/main/history", fetch="ALL", **({"page-token": token} if token else {}))
        entries += page["logEntries"]
        token = page.get("token") if page["hasMore"] else None
    entries.reverse()
    log = []
    for entry in entries:
        meta = entry["commitMeta"]
        [by] = meta.get("allProperties", {}).get(ID) or [meta["message"] if meta["message"] in names else ""]
        log.append(
            Commit({".".join(one["key"]["elements"]): value_of(one.get("content")) for one in entry["operations"]}, by)
        )
    return log, {entry["commitMeta"]["hash"]: number for number, entry in enumerate(entries, 1)}


def tell(run: Run, places: Mapping[str, int], states: Sequence[Mapping[str, str]]) -> Told:
    """The transaction in the words of the checker."""
    start = places[run.start]
    events: list[Look | Write] = []
    for event in run.events:
        if isinstance(event, Seen):
            values = {**states[start], **event.values} if event.is_difference else event.values
            since, until = places.get(event.since, 0), places.get(event.until, len(places))
            events.append(Look(values, event.listed, since, until))
        else:
            events.append(Write(event.values, event.over))
    until = places[run.until] if run.until else None
    told = Told(run.id, run.level, start, events, run.outcome, places.get(run.commit), places.get(run.since, 0), until)
    assert run.outcome is not Outcome.COMMITTED or told.commit, f"{run.commit} of {run.id} is not in the log"
    return told


def states_of(log: Sequence[Commit]) -> list[dict[str, str]]:
    states: list[dict[str, str]] = [{}]
    for commit in log:
        states.append({key: value for key, value in {**states[-1], **commit.values}.items() if value is not None})
    return states


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_each_level_holds(database: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """On PostgreSQL two servers share the database, and a transaction's requests go to either."""
    store = None if database == "sqlite" else request.getfixturevalue("postgresql_url")
    with ExitStack() as stack:
        servers = stack.enter_context(serving(tmp_path, store, 1 if store is None else 2))
        workers = run(servers, seed)
        runs = [one for worker in workers for one in worker.runs]
        log, places = read_log(Api(servers.uris[0]), {one.id for one in runs})
    states = states_of(log)
    told = [tell(one, places, states) for one in runs]
    assert check(log, told) == [], f"seed {seed}, {STEPS} steps on {database}"
    for state in states[1:]:
        assert sum(amount_of(state[name]) for name in PAIR) == TOTAL
    ends = Counter((one.level, one.outcome) for one in told)
    assert all(ends[level, Outcome.COMMITTED] for level in Level), f"it has tried nothing: {ends}"
    assert sum(ends[level, Outcome.REFUSED] for level in Level), f"nobody was in anybody's way: {ends}"
    assert sum(worker.web.lost for worker in workers) > 0
