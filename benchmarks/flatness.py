"""What a commit costs in time, bytes and rows as the tables of a branch and the commits of its history grow.

The figures of all sizes are taken in turns, and a long history beside a short one, so that a machine that gets slower
meanwhile slows all of them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from benchmarks.load import connections
from benchmarks.measures import TABLES_OF_A_WRITER, Subject, branching, diff, disjoint, write
from benchmarks.nessie import get, hash_of

NODES = ("node", "nodes")  # what the table with the nodes of the index may be called
GROWERS = 32

Row = dict[str, float]


@dataclass
class Cost:
    """What commits cost: the median milliseconds of each round, and what the database grew by."""

    milliseconds: list[float] = field(default_factory=list)
    growth: Counter[str] = field(default_factory=Counter)
    commits: int = 0

    def row(self) -> Row:
        """Per commit; levels of the index are the nodes that a commit writes."""
        each = {name: count / self.commits for name, count in self.growth.items()}
        levels = sum(each.get(name, 0.0) for name in NODES)
        rows = sum(count for name, count in each.items() if "bytes" not in name)
        row = {"ms": median(self.milliseconds), "bytes": each.get("bytes", 0.0), "rows": rows, "levels": levels}
        row |= {name: each[name] for name in ("row bytes", "log bytes") if name in each}
        if levels:
            size = row.get("row bytes", row["bytes"])
            row |= {"ms/level": row["ms"] / levels, "bytes/level": size / levels}
        return row


async def measure_commits(subject: Subject, branch: str, tables: int, times: int, cost: Cost) -> None:
    """Commit to a branch of so many tables, one commit after the other, and add it to the cost."""
    own = disjoint(subject.filled[tables], [min(TABLES_OF_A_WRITER, tables)])[0]
    async with connections(subject.side.url) as (connection,):
        head = hash_of(await get(connection, f"trees/{branch}"))
        before = subject.side.size()
        took = await write(subject, connection, branch, head, own, times=times)
        after = subject.side.size()
    cost.milliseconds.append(median(took) * 1e3)
    cost.growth.update({name: after[name] - before.get(name, 0) for name in after})
    cost.commits += times


async def by_tables(subject: Subject, times: int, rounds: int, seconds: float) -> dict[int, Row]:
    """Cost of a commit, a branch and a diff, by number of tables."""
    costs = {tables: Cost() for tables in subject.filled}
    async with connections(subject.side.url) as (connection,):
        names = {tables: await subject.branch(connection, tables) for tables in costs}
    for _ in range(rounds):
        for tables, cost in costs.items():
            await measure_commits(subject, names[tables], tables, times, cost)
    rows = {tables: cost.row() for tables, cost in costs.items()}
    for name, measure in (("branch ms", branching), ("diff ms", diff)):
        found = {tables: [] for tables in rows}  # type: dict[int, list[float]]
        for _ in range(rounds):
            for tables in rows:
                found[tables].append(await measure(subject, tables, seconds))
        for tables in rows:
            rows[tables][name] = median(found[tables])
    return rows


async def by_commits(subject: Subject, tables: int, lengths: Sequence[int], times: int) -> dict[int, Row]:
    """Cost of a commit by length of the branch's history, with that of a branch just made beside it."""
    rows, length = {}, 0
    long = await new_branch(subject, tables)
    for wanted in lengths:
        await grow(subject, long, tables, wanted - length)
        grown, new = Cost(), Cost()
        short = await new_branch(subject, tables)
        for _ in range(3):
            await measure_commits(subject, long, tables, times, grown)
            await measure_commits(subject, short, tables, times, new)
        length = wanted + 3 * times
        row, beside = grown.row(), new.row()
        rows[wanted] = {"ms": row["ms"], "ms, new branch": beside["ms"], "ratio": row["ms"] / beside["ms"]}
        size = "row bytes" if "row bytes" in row else "bytes"
        rows[wanted] |= {size: row[size], f"{size}, new branch": beside[size]}
    return rows


async def new_branch(subject: Subject, tables: int) -> str:
    """The name of a new branch; its connection is not kept, since a server closes one that is idle."""
    async with connections(subject.side.url) as (connection,):
        return await subject.branch(connection, tables)


async def grow(subject: Subject, branch: str, tables: int, commits: int) -> None:
    """Add at least so many commits to a branch, with many writers."""
    lists = disjoint(subject.filled[tables], [TABLES_OF_A_WRITER] * GROWERS)
    async with connections(subject.side.url, GROWERS) as made:
        head = hash_of(await get(made[0], f"trees/{branch}"))
        each = -(-max(0, commits) // GROWERS)
        await asyncio.gather(*(write(subject, one, branch, head, own, times=each) for one, own in zip(made, lists)))
