"""Publishes per second: branches with a few commits each, merged into one branch and deleted, by many at once.

    .venv/bin/python -m benchmarks.publishing [--peer-maven | --peer-jar FILE] [--quick] [--json FILE]

A publish is what a run of the pipeline asks of the catalog, with nothing in between: the head of the target is read, a
branch opened there, three tables written by a commit each, the branch merged as one commit, and deleted.  Publishers
write different tables, so every conflict is one too many, and is counted; so is every request that the server gives up
with a status of 500 or more, after which the publish begins anew.  docs/benchmarks.md says how to read it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import uvloop

from benchmarks import report
from benchmarks.catalog import alternate, filled, machine, say, started
from benchmarks.load import Connection, connections, request
from benchmarks.measures import Measure, Run, Subject, disjoint
from benchmarks.nessie import (
    Table,
    WrongAnswer,
    branch_request,
    commit_request,
    expect,
    hash_of,
    merge_request,
)

COMMITS = 3  # of one table each, on a branch
MUST = 10.0  # publishes per second
PUBLISHERS = (1, 8, 32)
MAX_FAILURES = 1_000  # requests of a side that are given up before it is no longer measured


class Overloaded(Exception):
    """The server gave up a request, as one that retries a commit until its time is over."""


async def publish(subject: Subject, connection: Connection, target: str, tables: Sequence[Table]) -> None:
    """One publish.

    When the target refuses it, it counts as a conflict; when the server gives up under load, as a failure.  Either way
    it is done again, on the target as it is by then.
    """
    while True:
        try:
            merged = await attempt(subject, connection, target, tables)
        except Overloaded:
            subject.failures += 1
            if subject.failures > MAX_FAILURES:
                raise
            continue
        subject.commits += 1
        if merged:
            return
        subject.conflicts += 1


async def attempt(subject: Subject, connection: Connection, target: str, tables: Sequence[Table]) -> bool:
    """Whether what was written is on the target; Overloaded, and nothing is cleared away, when the server gives up."""
    name, base = subject.new_name(), hash_of(await call(connection, request("GET", f"/api/v2/trees/{target}")))
    await call(connection, branch_request(name, base, target))
    head = base
    for table in tables:
        head = hash_of(await call(connection, commit_request(name, head, [table.put()])))
    merged = await call(connection, merge_request(target, base, name, head), refusable=True)
    await call(connection, request("DELETE", f"/api/v2/trees/{name}@{head}"))
    if merged and b'"wasApplied":true' not in merged.replace(b" ", b""):
        raise WrongAnswer(f"not merged: {merged[:500]!r}")
    return bool(merged)


async def call(connection: Connection, asked: bytes, *, refusable: bool = False) -> bytes:
    """The answer's body, empty when it is the refusal of a conflict; Overloaded for a 5xx."""
    answer = await connection.call(asked)
    if answer.status >= 500:
        raise Overloaded(f"{answer.status} {answer.body[:500]!r}")
    expect(answer, 200, *([409] if refusable else []))
    return answer.body if answer.status == 200 else b""


def publishes(publishers: int) -> Run:
    """Publishes per second by so many at once; notes the share of each, and what the slowest publish took."""

    async def run(subject: Subject, tables: int, seconds: float) -> float:
        lists = disjoint(subject.filled[tables], [COMMITS] * publishers)
        async with connections(subject.side.url, publishers) as made:
            target = await subject.branch(made[0], tables)
            start = time.perf_counter()

            async def work(number: int) -> list[float]:
                took: list[float] = []
                while not took or time.perf_counter() < start + seconds:
                    before = time.perf_counter()
                    await publish(subject, made[number], target, lists[number])
                    took.append(time.perf_counter() - before)
                return took

            done = await asyncio.gather(*map(work, range(publishers)))
            whole = time.perf_counter() - start
        count = sum(map(len, done))
        if publishers > 1:
            subject.note(subject.shares, f"{publishers} publishers", [len(one) * publishers / count for one in done])
        subject.note(subject.waits, f"{publishers} publishers", [max(map(max, done)) * 1e3])
        return count / whole

    return run


MEASURES = [Measure(f"publishes, {count} at once", "/s", publishes(count)) for count in PUBLISHERS]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--peer", metavar="URL", help="a Nessie server that runs already")
    add("--peer-jar", metavar="FILE", type=Path, help="the program of a Nessie server")
    add("--peer-maven", action="store_true", help="fetch that program with Maven")
    add("--sides", nargs="+", default=["sqlite", "postgresql"], help="which databases of ours")
    add("--tables", type=int, help="size of the branch that is published to")
    add("--seconds", type=float, help="length of a round")
    add("--rounds", type=int)
    add("--warm", type=float, help="seconds of each measure before any counts: a Java server is slow at first")
    add("--serve", nargs="*", default=[], metavar="OPTION", help="more options of our server, without their dashes")
    add("--quick", action="store_true", help="small and short: whether it runs, not how fast")
    add("--json", type=Path, metavar="FILE", help="write all figures there, too")
    found = parser.parse_args()
    found.tables = found.tables or (200 if found.quick else 10_000)
    found.seconds, found.rounds = (
        found.seconds or (0.2 if found.quick else 3.0),
        found.rounds or (1 if found.quick else 5),
    )
    found.warm = (0.0 if found.quick else 10.0) if found.warm is None else found.warm
    return found


async def run(chosen: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure, print, and return what was found."""
    with started(chosen, folder) as sides:
        subjects = await filled(sides, [chosen.tables])
        figures = {}
        for measure in MEASURES:
            figures[measure.name] = await alternate(measure, subjects, chosen.tables, chosen)
            shown = {side: round(median(values), 1) for side, values in figures[measure.name].items()}
            say(f"{measure.name}: {shown} {measure.unit}")
    found: dict[str, Any] = {"machine": machine(), "figures": figures, "sides": {}}
    print(f"\n{found['machine']}\n\n{report.comparison({one.name: one for one in MEASURES}, figures)}")
    for subject in subjects:
        found["sides"][subject.side.name] = judge(subject, figures)
    return found


def judge(subject: Subject, figures: report.Figures) -> dict[str, Any]:
    """Print and return what was noted of a side."""
    name = subject.side.name
    least = min(median(by_side[name]) for by_side in figures.values())
    found: dict[str, Any] = {"conflicts": subject.conflicts, "publishes": subject.commits}
    found["failures"] = subject.failures
    found["slowest ms"] = {what: max(values) for what, values in subject.waits.items()}
    found["shares"] = {what: [min(values), max(values)] for what, values in subject.shares.items()}
    enough = "enough" if least >= MUST else "too few"
    failed = f"{subject.conflicts} conflicts and {subject.failures} requests given up in {subject.commits} publishes"
    print(f"\n{name}: {failed}; at least {least:.1f}/s: {enough}")
    for what, value in found["slowest ms"].items():
        shares = found["shares"].get(what, [1.0, 1.0])
        print(f"  {what}: the slowest took {value:.0f} ms; {shares[0]:.2f} to {shares[1]:.2f} of their fair share")
    return found


def main() -> None:
    chosen = options()
    with tempfile.TemporaryDirectory() as folder:
        found = uvloop.run(run(chosen, Path(folder)))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
