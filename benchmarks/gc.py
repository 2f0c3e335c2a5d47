"""Garbage collection of 100 tables with 100 snapshots each, on local files and on S3, beside the figures of nessie-gc.

    .venv/bin/python -m benchmarks.gc --folder DIR [--size 0.1] [--versitygw ~/go/bin/versitygw] [--json FILE]
    .venv/bin/python -m benchmarks.gc --folder DIR --files 1000000
    .venv/bin/python -m benchmarks.gc --filters 1000000
    .venv/bin/python -m benchmarks.gc --folder DIR --spark-files 1000000 10000000 [--spark-master "local[2]"]

Each measure is a process of its own over a fresh copy (hard links) of one catalog, which is built without Spark and
kept in DIR.  A delay is added to every request to the store, within the process that asks.  docs/benchmarks.md says
what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks import gcmeasure
from benchmarks.gclake import Builder, Plan, ticking
from benchmarks.sides import ROOT, cpu_seconds_of, end
from nessie_ops.versioning import VersionStore
from tests.ports import free_port

BUCKET = "lake"
PEER = {  # wall seconds, those with 10 ms for each request, and the fewest reads that do it, each object once
    "NONE": (77.5, 442.0, 31_839),
    "1": (13.5, 47.0, 3_977),
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--folder", type=Path, default=Path("unused"), help="where catalogs are built and kept for the next time")
    add("--size", type=float, default=1.0, help="of the catalog: 1 is that of the peer's figures")
    add("--versitygw", help="the program of a Versity S3 gateway; without it, local files alone")
    add("--delays", type=float, nargs="+", default=[0, 10], help="milliseconds added to each request")
    add("--cutoffs", nargs="+", default=["NONE", "1"])
    add("--sides", nargs="+", default=["file", "s3"])
    add("--files", type=int, default=0, help="sweep so many local files, half of them live, and nothing else")
    add("--filters", type=int, default=0, help="measure the sets of live files with so many, and nothing else")
    add("--spark-files", type=int, nargs="+", help="sweep so many synthetic files on Spark, and nothing else")
    add("--spark-master", default="local[2]")
    add("--json", type=Path, metavar="FILE", help="write all figures there, too")
    add("--case", help=argparse.SUPPRESS)
    return parser.parse_args()


@dataclass(frozen=True)
class Side:
    """A catalog in `folder`: `orig` is kept, `live` is the copy that is collected."""

    name: str
    folder: Path

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder}/catalog.db"

    def build(self, size: float) -> None:
        """Build the catalog, unless it is there."""
        if (self.folder / "made.json").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        plan = Plan().scaled(size)
        clock, tick = ticking(plan.tables * (plan.snapshots + 5))
        root = f"s3://{BUCKET}/w" if self.name == "s3" else f"file://{self.folder}/live/{BUCKET}/w"
        versions = VersionStore.open(self.store, clock=clock)
        made = Builder(versions, self.folder / "orig" / BUCKET / "w", root, plan, tick).build(_say)
        versions.close()
        (self.folder / "made.json").write_text(json.dumps(asdict(made)))

    def restore(self) -> None:
        """A fresh copy of the files."""
        shutil.rmtree(self.folder / "live", ignore_errors=True)
        shutil.copytree(self.folder / "orig", self.folder / "live", copy_function=os.link)


@contextmanager
def gateway(program: str, folder: Path) -> Iterator[tuple[str, int]]:
    """An S3 server process over a folder: its URL and process id."""
    port = free_port()
    command = [program, "--port", f"127.0.0.1:{port}", "--access", gcmeasure.KEY, "--secret", gcmeasure.KEY]
    command += ["--quiet", "--keep-alive", "posix", "--nometa", str(folder)]
    with (folder.parent / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        end(process)


def measure(case: gcmeasure.Case) -> dict[str, Any]:
    """The figures of one case, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gc", "--case", json.dumps(asdict(case))]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-5000:])
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def run(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure and print; all figures."""
    found = []
    for name in chosen.sides:
        if name == "s3" and not chosen.versitygw:
            continue
        side = Side(name, chosen.folder.absolute() / name)
        side.build(chosen.size)
        for cutoff in chosen.cutoffs:
            for delay in chosen.delays:
                figures = measure_side(side, cutoff, delay, chosen.versitygw)
                found.append(figures)
                print(describe(figures), flush=True)
    return found


def measure_side(side: Side, cutoff: str, delay: float, program: str | None) -> dict[str, Any]:
    """One run over a fresh copy."""
    side.restore()
    case = gcmeasure.Case(side.name, side.store, str(side.folder / "sets.db"), cutoff, delay)
    if side.name == "file" or program is None:
        figures = measure(case)
    else:
        with gateway(program, side.folder / "live") as (url, pid):
            figures = measure(gcmeasure.Case(**asdict(case) | {"endpoint": url}))
            figures["server cpu"] = cpu_seconds_of(pid)
    return asdict(case) | figures | {"load": os.getloadavg()[0]}


def measure_spark(folder: Path, files: int, master: str) -> dict[str, Any]:
    """A sweep of so many synthetic files on Spark."""
    figures = measure(gcmeasure.Case("spark", "", str(folder), "NONE", 0.0, endpoint=master, files=files))
    figures["load"] = os.getloadavg()[0]
    print(figures, flush=True)
    return figures


def describe(figures: dict[str, Any]) -> str:
    """A line for each figure that is to be held, beside the peer's."""
    wall, delayed, reads = PEER.get(figures["cutoff"], (0.0, 0.0, 0))
    peer = delayed if figures["delay"] else wall
    return "\n".join(
        [
            f"{figures['side']}, cutoff {figures['cutoff']}, {figures['delay']} ms added, load {figures['load']:.1f}:",
            f"  wall {figures['wall']:.1f} s (mark {figures['mark']:.1f}; peer {peer}), CPU {figures['cpu']:.1f} s, "
            f"of the server {figures.get('server cpu', 0):.1f} s, peak RSS {figures['rss']:.0f} MB",
            f"  reads {sum(figures['reads'].values())} {figures['reads']} of {figures['read bytes'] / 1e6:.0f} MB "
            f"(fewest {reads}), requests {figures['requests']}",
            f"  commits {figures['commits']} of {figures['distinct']} distinct, fetched {figures['fetched']}; "
            f"files {figures['files']}, {figures['freed'] / 1e6:.0f} MB freed",
        ]
    )


def _say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def main() -> None:
    chosen = options()
    if chosen.case:
        print(json.dumps(gcmeasure.run(gcmeasure.Case(**json.loads(chosen.case)))))
        return
    if chosen.files:
        found = [measure(gcmeasure.Case("many", "", str(chosen.folder.absolute()), "NONE", 0.0, files=chosen.files))]
        print(found[0])
    elif chosen.spark_files:
        found = [measure_spark(chosen.folder.absolute(), files, chosen.spark_master) for files in chosen.spark_files]
    elif chosen.filters:
        found = [gcmeasure.filters(chosen.filters)]
        print(found[0])
    else:
        found = run(chosen)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
