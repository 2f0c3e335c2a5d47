"""The Iceberg REST catalog's speed over HTTP, on local files and on S3, beside that of a Nessie server.

    .venv/bin/python -m benchmarks.iceberg [--peer-maven | --peer-jar FILE] [--quick] [--json FILE]

All servers run on this machine, with databases of their own on one PostgreSQL server and buckets of their own on one
S3 server; rounds alternate between them (A B A B ...), and the tables show medians.  docs/benchmarks.md says what is
measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks import report
from benchmarks.catalog import machine, say
from benchmarks.flatness import Row
from benchmarks.lakes import MEASURES, Lake, by_operation, by_snapshots
from benchmarks.objects import Objects, count_files, s3_server
from benchmarks.sides import Side, fetch_peer, ours, peer
from tests.databases import Databases, PostgreSQL

METADATA_BYTES = 4000  # of a table of one snapshot, about


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peer-jar", metavar="FILE", type=Path, help="the program of a Nessie server")
    add("--peer-maven", action="store_true", help="fetch that program with Maven")
    add("--versitygw", metavar="FILE", type=Path, help="the program of an S3 server that is faster than moto")
    add("--sides", nargs="*", choices=["files", "s3"], default=["files", "s3"], help="which warehouses of ours")
    add("--only", default="", help="measures whose name contains this")
    add("--seconds", type=float, help="length of a round")
    add("--rounds", type=int)
    add("--warm", type=float, help="seconds of each measure before any counts: a Java server is slow at first")
    add("--snapshots", type=int, nargs="*", help="sizes of tables")
    add("--serve", nargs="*", default=[], metavar="OPTION", help="more options of our server, without their dashes")
    add("--quick", action="store_true", help="small and short: whether it runs, not how fast")
    add("--json", type=Path, metavar="FILE", help="write all figures there, too")
    found = parser.parse_args()
    found.seconds = found.seconds or (0.2 if found.quick else 3.0)
    found.rounds = found.rounds or (1 if found.quick else 5)
    found.warm = (0.0 if found.quick else 10.0) if found.warm is None else found.warm
    if found.snapshots is None:
        found.snapshots = [1, 20] if found.quick else [1, 100, 1000]
    return found


@contextmanager
def started(chosen: argparse.Namespace, folder: Path) -> Iterator[tuple[list[Lake], Objects]]:
    """All servers to compare, and the S3 server that those on S3 share."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgreSQL.running(max_connections=300))
        objects = stack.enter_context(s3_server(folder / "objects", chosen.versitygw))
        databases, extra = Databases(server.url), [f"--{option}" for option in chosen.serve]
        lakes = []

        def add(side: Side, count: Any) -> None:
            lakes.append(Lake(side, f"n{time.time_ns() // 1_000_000:x}", count))

        if "files" in chosen.sides:
            side = ours("files", databases.create(), folder / "files", *extra)
            add(stack.enter_context(side), partial(count_files, folder / "files" / "warehouse"))
        if "s3" in chosen.sides:
            place, environment = objects.bucket("ours"), objects.for_ours()
            side = ours("s3", databases.create(), folder / "s3", *extra, warehouse=place, environment=environment)
            add(stack.enter_context(side), partial(objects.count, "ours"))
        jar = fetch_peer(folder) if chosen.peer_maven else chosen.peer_jar
        if jar:
            objects.bucket("peer")
            side = peer(jar.absolute(), databases.create(), folder / "peer", objects.for_peer("peer"))
            add(stack.enter_context(side), partial(objects.count, "peer"))
        yield lakes, objects


async def compare(lakes: Sequence[Lake], chosen: argparse.Namespace) -> report.Figures:
    """All measures on all sides, by name."""
    figures: dict[str, dict[str, list[float]]] = {}
    for measure in MEASURES:
        if chosen.only not in measure.name:
            continue
        found: dict[str, list[float]] = {lake.side.name: [] for lake in lakes}
        for lake in lakes if chosen.warm else ():
            await measure.run(lake, chosen.warm)
        for _ in range(chosen.rounds):
            for lake in lakes:
                lake.side.settle()
                found[lake.side.name].append(await measure.run(lake, chosen.seconds))
        figures[measure.name] = found
        say(f"{measure.name}: { {name: round(median(values), 2) for name, values in found.items()} } {measure.unit}")
    return figures


async def run(lakes: Sequence[Lake], objects: Objects, chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure, print, and return what was found."""
    figures = await compare(lakes, chosen)
    found: dict[str, Any] = {"machine": machine(), "figures": figures, "sides": {}}
    print(f"\n{found['machine']}\n")
    if figures:
        print(report.comparison({measure.name: measure for measure in MEASURES}, figures))
    bucket = objects.bucket("alone")[len("s3://") :]
    found["put ms"] = objects.put_ms(bucket, METADATA_BYTES)
    print(f"\nS3 alone: {found['put ms']:.2f} ms for an object of {METADATA_BYTES} bytes")
    for lake in lakes:
        found["sides"][lake.side.name] = await examine(lake, chosen)
    return found


async def examine(lake: Lake, chosen: argparse.Namespace) -> dict[str, Any]:
    """Print and return what operations ask of the storage, and what they cost as a table grows."""
    found: dict[str, Any] = {"conflicts": lake.conflicts, "commits": lake.commits}
    print(f"\n{lake.side.name}: {lake.conflicts} conflicts in {lake.commits} commits")
    found["by operation"] = await by_operation(lake, 10 if chosen.quick else 50)
    for name, asked in found["by operation"].items():
        shown = ", ".join(f"{number:.2g} {what}" for what, number in sorted(asked.items()))
        print(f"  {name}: {shown or 'nothing'} of the storage")
    if chosen.snapshots:
        rows: dict[int, Row] = await by_snapshots(lake, chosen.snapshots, chosen.seconds)
        found["by snapshots"] = rows
        print(report.rows("snapshots", rows))
    return found


def main() -> None:
    chosen = options()
    with tempfile.TemporaryDirectory() as folder, started(chosen, Path(folder)) as (lakes, objects):
        found = uvloop.run(run(lakes, objects, chosen))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
