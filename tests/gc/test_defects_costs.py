"""What nessie-gc's users complain that a collection takes, each under the name of the complaint."""

from __future__ import annotations

import sys

import pytest
from sqlalchemy import event

from nessie_ops.store.livesets import LiveSets, livesets
from tests.gc.lake import Lake
from tests.gc.lakes import Collection, LocalLake
from tests.gc.test_defects import put

STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec", "os.system")


def test_more_parallelism_than_connections(lake: Lake, postgresql_url: str) -> None:
    """With 16 threads and 5 connections a sweep ended at a timeout: here only one thread writes."""
    junk = set()
    for n in range(40):
        put(lake, f"t{n}", f"t{n}")
        junk.add(lake.write(f"{lake.root}/t{n}/data/junk"))
    sets = LiveSets.open(postgresql_url)
    try:
        assert Collection(lake, sets).run("NONE", listers=32) == junk
    finally:
        sets.close()


def test_a_listing_starts_no_process(local: LocalLake, sets: LiveSets) -> None:
    """For each path of a local folder `ls` was started."""
    watching: list[bool] = []
    put(local, "a", "t")
    junk = local.write(f"{local.root}/t/data/junk")
    started: list[object] = []
    sys.addaudithook(lambda event, args: started.append(args) if event in STARTS and watching else None)
    watching.append(True)
    deleted = Collection(local, sets).run("NONE")
    watching.clear()
    assert deleted == {junk} and started == []


def test_a_live_set_is_read_in_parts(lake: Lake, sets: LiveSets, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of it was in memory."""
    for n in range(30):
        put(lake, f"t{n}", f"t{n}")
    junk = {lake.write(f"{lake.root}/t{n}/data/junk") for n in range(30)}
    collection = Collection(lake, sets)
    number = collection.mark("NONE").number
    monkeypatch.setattr(livesets, "BATCH", 4)
    statements: list[str] = []
    event.listen(sets._engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    rows = sets.list_versions(number)
    next(rows)
    assert len(statements) == 1 and "LIMIT" in statements[0]
    assert len(list(rows)) == 29 and len(statements) == 8
    collection.sweep(is_deferred=True)
    statements.clear()
    files = sets.list_files(number)
    next(files)
    assert len(statements) == 1 and {next(files).location for _ in range(29)} < junk
