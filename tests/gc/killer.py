"""Collections that die: runs `nessie-ops gc` in forks of a process that has loaded everything, and kills them.

Usage: killer.py FOLDER MODE.  A step is the beginning or end of a transaction of the live-set database, or the
end of the deletion of one file.  For n from 1 up, a run is killed at its n-th step and then taken up; what came of
it is printed as a line of JSON, until a run needs no more steps.  With MODE `both`, two runs go at once instead.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nessie_ops.__main__ import make_app
from nessie_ops.gc.storage import Deleted, LocalFiles
from nessie_ops.store.livesets import LiveSets
from tests.gc.disk import DiskLake, small_lake

APP = make_app()
SHARE = ("--max-deletion-share", "0.42")  # 7 of 17 files
MARKED = 1000  # more steps than a sweep takes: those of a deferred deletion are counted from here


class Bomb:
    """Kills this process at its n-th step; 0 is never."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def plant(self) -> None:
        write, delete = LiveSets._write, LocalFiles._delete

        @contextmanager
        def counted_write(sets: LiveSets) -> Iterator[Any]:
            self.step()
            with write(sets) as connection:
                yield connection
            self.step()

        def counted_delete(files: LocalFiles, location: str) -> Deleted:
            done = delete(files, location)
            self.step()
            return done

        LiveSets._write = counted_write  # type: ignore[method-assign]
        LocalFiles._delete = counted_delete  # type: ignore[method-assign]


def start(words: list[str], steps: int = 0) -> int:
    """The process id of a run that dies at a step."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        Bomb(steps).plant()
        APP(["gc", *words], standalone_mode=False)
    except BaseException as error:
        code = getattr(error, "exit_code", getattr(error, "code", 1)) or 0
        if code:
            print(repr(error), file=sys.stderr)
    else:
        code = 0
    os._exit(code)


def wait(pid: int) -> int:
    """The exit code of a process, or the signal that killed it, negated."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def look(lake: DiskLake, live: set[str]) -> dict[str, Any]:
    """What is left after all."""
    left = set(lake.list_files())
    sets = LiveSets.open(f"sqlite:///{os.environ['NESSIE_OPS_HOME']}/gc.db")
    try:
        records = sets.list_live_sets()
        states = {state: count for state, (count, _) in sets.sum_files(records[0].number).items()} if records else {}
    finally:
        sets.close()
    return {
        "lost": sorted(live - left),
        "kept": sorted(left - live),
        "states": states,
        "statuses": [record.status for record in records],
    }


def find_live(lake: DiskLake) -> set[str]:
    states = [(lake.content("main", key), lake.state("main", key)) for key in ("a", "b")]
    return {
        name
        for content, state in states
        if content and state
        for name in {content.metadata_location, *state.log}.union(*(each.files for each in state.snapshots))
    }


def resume(lake: DiskLake, deferred: bool) -> list[int]:
    """Exit codes of the commands that take up what was killed."""
    sets = LiveSets.open(f"sqlite:///{os.environ['NESSIE_OPS_HOME']}/gc.db")
    records = sets.list_live_sets()
    sets.close()
    common = ["--store", lake.store]
    codes = []
    if not records:
        codes.append(wait(start(["gc", "-c", "1", *SHARE, *common])))
    elif records[0].status != "EXPIRY_SUCCESS":
        more = ["--defer-deletes"] if deferred else []
        codes.append(wait(start(["gc", "--resume", records[0].id, *SHARE, *common, *more])))
    if deferred and records:
        codes.append(wait(start(["deferred-deletes", "-l", records[0].id, *common])))
    return codes


def kill_at(folder: Path, steps: int, deferred: bool) -> dict[str, Any]:
    """One run that is killed, and taken up."""
    os.environ["NESSIE_OPS_HOME"] = str(folder)
    folder.mkdir()
    with small_lake(folder, 2) as lake:
        live, common = find_live(lake), ["--store", lake.store]
        lake.versions.close()
        first = wait(start(["gc", "-c", "1", *SHARE, *common, *(["--defer-deletes"] if deferred else [])], steps))
        if deferred and first == 0:
            sets = LiveSets.open(f"sqlite:///{folder}/gc.db")
            id = sets.list_live_sets()[0].id
            sets.close()
            first = wait(start(["deferred-deletes", "-l", id, *common], steps - MARKED))
        codes = resume(lake, deferred) if first else []
        return {"steps": steps, "first": first, "codes": codes, **look(lake, live)}


def run_both(folder: Path) -> dict[str, Any]:
    """Two runs at once, over one lake and one live-set database."""
    os.environ["NESSIE_OPS_HOME"] = str(folder)
    with small_lake(folder, 2) as lake:
        live, common = find_live(lake), ["--store", lake.store]
        lake.versions.close()
        pids = [start(["gc", "-c", "1", *SHARE, *common]) for _ in range(2)]
        return {"codes": [wait(pid) for pid in pids], **look(lake, live)}


def main(folder: Path, mode: str) -> None:
    if mode == "both":
        print(json.dumps(run_both(folder)))
        return
    steps, found = MARKED if mode == "deferred" else 0, {"first": 1}
    while found["first"] != 0:
        steps += 1
        found = kill_at(folder / str(steps), steps, mode == "deferred")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
