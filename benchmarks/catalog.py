"""The catalog's speed over HTTP, on SQLite and on PostgreSQL, beside that of a Nessie server.

    .venv/bin/python -m benchmarks.catalog [--peer-maven | --peer-jar FILE | --peer URL] [--quick] [--json FILE]

All servers run on this machine, with databases of their own, those of PostgreSQL on one server; rounds alternate
between them (A B A B ...), and the tables show medians.  docs/benchmarks.md says what is measured and how to read it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks import flatness, report
from benchmarks.load import connections
from benchmarks.measures import READING, SIZED, WRITING, Measure, Subject
from benchmarks.nessie import fill
from benchmarks.sides import Side, fetch_peer, ours, peer
from tests.databases import Databases, PostgreSQL


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peer", metavar="URL", help="a Nessie server that runs already")
    add("--peer-jar", metavar="FILE", type=Path, help="the program of a Nessie server")
    add("--peer-maven", action="store_true", help="fetch that program with Maven")
    add("--sides", nargs="+", default=["sqlite", "postgresql"], help="which databases of ours")
    add("--only", default="", help="measures whose name contains this")
    add("--tables", type=int, nargs="+", help="sizes of branches; the first is that of most measures")
    add("--seconds", type=float, help="length of a round")
    add("--rounds", type=int)
    add("--warm", type=float, help="seconds of each measure before any counts: a Java server is slow at first")
    add("--commits", type=int, nargs="*", help="lengths of history at which commits are measured")
    add("--serve", nargs="*", default=[], metavar="OPTION", help="more options of our server, without their dashes")
    add("--quick", action="store_true", help="small and short: whether it runs, not how fast")
    add("--json", type=Path, metavar="FILE", help="write all figures there, too")
    found = parser.parse_args()
    small, large = ([5_000, 100], [100, 1_000]), ([10_000, 100, 100_000], [100, 1_000, 10_000, 100_000])
    tables, commits = small if found.quick else large
    found.tables, found.commits = found.tables or tables, commits if found.commits is None else found.commits
    found.seconds, found.rounds = (
        found.seconds or (0.5 if found.quick else 3.0),
        found.rounds or (2 if found.quick else 5),
    )
    found.warm = (1.0 if found.quick else 15.0) if found.warm is None else found.warm
    return found


@contextmanager
def started(chosen: argparse.Namespace, folder: Path) -> Iterator[list[Side]]:
    """All servers to compare."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgreSQL.running(max_connections=300))
        databases, extra = Databases(server.url), [f"--{option}" for option in chosen.serve]
        stores = {"sqlite": lambda: f"sqlite:///{folder}/catalog.db", "postgresql": databases.create}
        sides = [stack.enter_context(ours(name, stores[name](), folder / name, *extra)) for name in chosen.sides]
        jar = fetch_peer(folder) if chosen.peer_maven else chosen.peer_jar
        if jar:
            sides.append(stack.enter_context(peer(jar.absolute(), databases.create(), folder / "peer")))
        elif chosen.peer:
            sides.append(Side("peer", chosen.peer.rstrip("/")))
        yield sides


async def filled(sides: Sequence[Side], sizes: Sequence[int]) -> list[Subject]:
    """The sides with a branch of each size."""
    subjects = []
    for side in sides:
        subject = Subject(side, f"b{time.time_ns() // 1_000_000:x}")
        async with connections(side.url) as (connection,):
            for tables in sizes:
                start = time.perf_counter()
                subject.filled[tables] = await fill(connection, subject.new_name(), tables)
                say(f"{side.name}: {tables} tables in {time.perf_counter() - start:.1f} s")
        subjects.append(subject)
    return subjects


async def alternate(
    measure: Measure, subjects: Sequence[Subject], tables: int, chosen: argparse.Namespace
) -> dict[str, list[float]]:
    """The figures of each side, after one that only warms up."""
    found: dict[str, list[float]] = {subject.side.name: [] for subject in subjects}
    for subject in subjects if chosen.warm else ():
        subject.warming = True
        await measure.run(subject, tables, chosen.warm)
        subject.warming = False
    for _ in range(chosen.rounds):
        for subject in subjects:
            subject.side.settle()
            found[subject.side.name].append(await measure.run(subject, tables, chosen.seconds))
    return found


async def compare(subjects: Sequence[Subject], chosen: argparse.Namespace) -> tuple[dict[str, Measure], report.Figures]:
    """All measures on all sides, by name."""
    first, largest = chosen.tables[0], max(chosen.tables)
    planned = {measure.name: (measure, first) for measure in WRITING + READING}
    for tables in dict.fromkeys((first, largest)):
        planned |= {f"{measure.name}, {tables} tables": (measure, tables) for measure in SIZED}
    planned = {name: plan for name, plan in planned.items() if chosen.only in name}
    figures = {}
    for name, (measure, tables) in planned.items():
        figures[name] = await alternate(measure, subjects, tables, chosen)
        shown = {side: round(median(values), 2) for side, values in figures[name].items()}
        say(f"{name}: {shown} {measure.unit}")
    return {name: measure for name, (measure, _) in planned.items()}, figures


async def run(sides: Sequence[Side], chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure, print, and return what was found."""
    subjects = await filled(sides, chosen.tables)
    measures, figures = await compare(subjects, chosen)
    found: dict[str, Any] = {"machine": machine(), "figures": figures, "subjects": {}}
    print(f"\n{found['machine']}\n")
    if figures:
        print(report.comparison(measures, figures))
    for subject in subjects:
        found["subjects"][subject.side.name] = await examine(subject, chosen)
    return found


async def examine(subject: Subject, chosen: argparse.Namespace) -> dict[str, Any]:
    """Print and return what the measures noted of one side, and what its commits cost as it grows."""
    found: dict[str, Any] = {"conflicts": subject.conflicts, "commits": subject.commits}
    print(f"\n{subject.side.name}: {subject.conflicts} conflicts in {subject.commits} commits")
    found["shares"] = {name: [min(values), max(values)] for name, values in subject.shares.items()}
    for name, (least, most) in found["shares"].items():
        print(f"  writers of {name}: {least:.2f} to {most:.2f} of their fair share")
    found["reading cpu us"] = {name: median(values) for name, values in subject.reading_cpu.items()}
    for name, value in found["reading cpu us"].items():
        print(f"  {name} read: {value:.0f} us of the server's processor time")
    if subject.side.store is None or chosen.only:
        return found
    times = 50 if chosen.quick else 300
    found["by tables"] = await flatness.by_tables(subject, times, 3, chosen.seconds)
    print(report.rows("tables", dict(sorted(found["by tables"].items()))))
    if chosen.commits:
        found["by commits"] = await flatness.by_commits(subject, chosen.tables[0], chosen.commits, times)
        print(report.rows("commits", found["by commits"]))
    return found


def machine() -> str:
    """What a figure depends on besides the programs."""
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return f"{os.cpu_count()} processors, load {load} with the benchmark itself, Python {platform.python_version()}"


def say(line: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {line}", flush=True)


def main() -> None:
    chosen = options()
    with tempfile.TemporaryDirectory() as folder, started(chosen, Path(folder)) as sides:
        found = uvloop.run(run(sides, chosen))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
