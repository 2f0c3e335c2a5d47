"""Who works on a live set: one run at a time, and a killed one in nobody's way."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.gc import identify as runs
from nessie_ops.gc import lease
from nessie_ops.gc.identify import Context
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import START


@pytest.fixture
def sets() -> Iterator[LiveSets]:
    sets = LiveSets.open("sqlite://")
    sets.add("one", runs.IDENTIFY_SUCCESS, 1, "{}", [])
    yield sets
    sets.close()


def context(owner: str, now: datetime = START) -> Context:
    return Context(lambda: now, owner, lambda step, count: None)


def name_of_dead_process() -> str:
    script = "from nessie_ops.gc.lease import name_run; print(name_run('0a'))"
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_only_a_dead_process_is_known_to_be_dead() -> None:
    mine = lease.name_run("12ab")
    assert not lease.is_dead(mine)
    assert not lease.is_dead("me") and not lease.is_dead("")
    dead = name_of_dead_process()
    assert lease.is_dead(dead)
    assert not lease.is_dead("0" * 16 + dead[16:])  # on another machine: who knows
    machine, pid, started, run = mine.split("-")
    assert lease.is_dead(f"{machine}-{pid}-{int(started) + 1}-{run}")  # the number of the process is used again


def test_one_run_at_a_time(sets: LiveSets) -> None:
    statuses = (runs.IDENTIFY_SUCCESS,)
    runs.take(sets, "one", statuses, context(lease.name_run("1")))
    with pytest.raises(BadRequest, match="another run works"):
        runs.take(sets, "one", statuses, context(lease.name_run("2")))
    runs.take(sets, "one", statuses, context(lease.name_run("2"), START + 2 * runs.LEASE))
    with pytest.raises(BadRequest, match="taken over"):
        runs.release(sets, sets.get("one")._replace(owner=lease.name_run("1")))  # type: ignore[union-attr]


def test_a_killed_run_is_in_nobodys_way(sets: LiveSets) -> None:
    runs.take(sets, "one", (runs.IDENTIFY_SUCCESS,), context(name_of_dead_process()))
    assert runs.take(sets, "one", (runs.IDENTIFY_SUCCESS,), context("me")).owner == "me"


def test_a_lease_is_renewed_until_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.001)
    beats = threading.Semaphore(0)
    is_lost = threading.Event()

    def renew() -> None:
        beats.release()
        if is_lost.is_set():
            raise BadRequest("lost")

    with lease.Heartbeat(renew) as heartbeat:
        for _ in range(3):
            assert beats.acquire(timeout=60)
        heartbeat.check()
        is_lost.set()
        heartbeat._thread.join(60)
        with pytest.raises(BadRequest, match="lost"):
            heartbeat.check()
