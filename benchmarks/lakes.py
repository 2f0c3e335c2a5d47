"""What is measured of a server's Iceberg REST catalog, each as one round on tables of its own.

Writers append to different tables, so every conflict is one too many, and is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple
from urllib.request import urlopen

from benchmarks.flatness import Row
from benchmarks.load import Connection, connections
from benchmarks.measures import READERS, read_until, repeated
from benchmarks.nessie import expect
from benchmarks.sides import Side
from benchmarks.tables import (
    Table,
    append_request,
    create,
    create_namespace,
    create_request,
    load_request,
    transaction_request,
)

TABLES_OF_A_WRITER = 4  # written in turn, so that a fast server's tables do not grow much more than a slow one's
TABLES_OF_A_READER = 4
IN_A_TRANSACTION = 10
LOG_SECONDS = 0.3  # until an S3 server has written the line of a request that it answered

Count = Callable[[], Counter[str]]


@dataclass
class Lake:
    """A side under measurement.  `count` tells what its warehouse was asked to do so far."""

    side: Side
    prefix: str
    count: Count
    conflicts: int = 0
    commits: int = 0
    storage: dict[str, Row] = field(default_factory=dict)  # requests to the storage per operation
    _names: int = 0

    async def namespace(self, connection: Connection) -> str:
        """A new one."""
        self._names += 1
        name = f"{self.prefix}_{self._names}"
        await create_namespace(connection, name)
        return name

    async def tables(self, connection: Connection, count: int) -> list[Table]:
        """New tables in a new namespace, each with one snapshot."""
        namespace = await self.namespace(connection)
        made = [await create(connection, namespace, f"table_{n}") for n in range(count)]
        for table in made:
            await self.append(connection, [table])
        return made

    async def append(self, connection: Connection, tables: Sequence[Table]) -> None:
        """One append to each table, in one commit."""
        while True:
            request = append_request(tables[0]) if len(tables) == 1 else transaction_request(tables)
            answer = await connection.call(request)
            if answer.status != 409:
                break
            self.conflicts += 1
        expect(answer, 200, 204)
        self.commits += 1
        for table in tables:
            table.snapshots += 1


Run = Callable[[Lake, float], Awaitable[float]]


class Measure(NamedTuple):
    """`run` takes the side and the seconds that a round lasts at most."""

    name: str
    unit: str  # of something per second more is better, of milliseconds less
    run: Run
    must: float = 1.0  # times as good as the peer


def commits(writers: int) -> Run:
    """Appends per second."""

    async def write(lake: Lake, connection: Connection, tables: list[Table], until: float) -> int:
        count = 0
        while time.perf_counter() < until or not count:
            await lake.append(connection, [tables[count % len(tables)]])
            count += 1
        return count

    async def run(lake: Lake, seconds: float) -> float:
        async with connections(lake.side.url, writers) as made:
            lists = [await lake.tables(made[0], TABLES_OF_A_WRITER) for _ in made]
            start = time.perf_counter()
            done = await asyncio.gather(*(write(lake, *each, start + seconds) for each in zip(made, lists)))
            return sum(done) / (time.perf_counter() - start)

    return run


async def creation(lake: Lake, seconds: float) -> float:
    """Milliseconds to create a table."""
    async with connections(lake.side.url) as (connection,):
        namespace, numbers = await lake.namespace(connection), iter(range(1_000_000))

        async def once() -> None:
            expect(await connection.call(create_request(namespace, f"table_{next(numbers)}")))

        return await repeated(once, seconds)


async def transaction(lake: Lake, seconds: float) -> float:
    """Milliseconds to append to ten tables in one commit."""
    async with connections(lake.side.url) as (connection,):
        tables = await lake.tables(connection, IN_A_TRANSACTION)
        return await repeated(lambda: lake.append(connection, tables), seconds)


def loads(snapshots: str, *, unchanged: bool = False) -> Run:
    """Loads per second of eight readers; `unchanged` ones say which version they have."""

    async def run(lake: Lake, seconds: float) -> float:
        async with connections(lake.side.url, READERS) as made:
            tables = await lake.tables(made[0], TABLES_OF_A_READER)
            etags = [await asyncio.to_thread(_etag, lake, table, snapshots) if unchanged else "" for table in tables]
            asked = [load_request(table, snapshots, etag) for table, etag in zip(tables, etags)]
            start = time.perf_counter()
            counts = await asyncio.gather(*(read_until(one, asked, start + seconds, 200, 304) for one in made))
            return sum(counts) / (time.perf_counter() - start)

    return run


def _etag(lake: Lake, table: Table, snapshots: str) -> str:
    """The table's version; empty from a server that tells none, which then sends all of it each time."""
    with urlopen(f"{lake.side.url}{table.path}?snapshots={snapshots}", timeout=30) as answer:
        return str(answer.headers.get("ETag", ""))


async def fresh_load(lake: Lake, seconds: float) -> float:
    """Milliseconds of the first load after a commit; the commit is not counted."""
    took, until = [], time.perf_counter() + seconds
    async with connections(lake.side.url) as (connection,):
        tables = await lake.tables(connection, TABLES_OF_A_WRITER)
        while time.perf_counter() < until or not took:
            table = tables[len(took) % len(tables)]
            await lake.append(connection, [table])
            start = time.perf_counter()
            expect(await connection.call(load_request(table)))
            took.append(time.perf_counter() - start)
    return median(took) * 1e3


MEASURES = [
    Measure("commits, 1 writer", "/s", commits(1)),
    Measure("commits, 16 writers", "/s", commits(16)),
    Measure("table creation", "ms", creation),
    Measure("transaction of 10 tables", "ms", transaction),
    Measure("loads, 8 readers", "/s", loads("all")),
    Measure("loads of refs, 8 readers", "/s", loads("refs")),
    Measure("unchanged loads, 8 readers", "/s", loads("all", unchanged=True)),
    Measure("load after a commit", "ms", fresh_load),
]


async def by_snapshots(lake: Lake, sizes: Sequence[int], seconds: float) -> dict[int, Row]:
    """What loads and appends cost, and how long answers are, by number of snapshots."""
    found: dict[int, Row] = {}
    async with connections(lake.side.url) as (connection,):
        table = await create(connection, await lake.namespace(connection), "table")
        for size in sizes:
            took: list[float] = []
            while table.snapshots < size:
                start = time.perf_counter()
                await lake.append(connection, [table])
                took = [*took[-20:], time.perf_counter() - start]
            row = {"append ms": median(took) * 1e3} if took else {}
            for kind in ("all", "refs"):
                asked = load_request(table, kind)
                row[f"{kind} kB"] = len(expect(await connection.call(asked)).body) / 1e3
                row[f"{kind} ms"] = await _time(connection, asked, seconds)
            found[size] = row
    return found


async def _time(connection: Connection, asked: bytes, seconds: float) -> float:
    async def once() -> None:
        expect(await connection.call(asked))

    return await repeated(once, seconds)


async def by_operation(lake: Lake, times: int) -> dict[str, Row]:
    """What an operation asks of the storage, on average."""
    found: dict[str, Row] = {}
    async with connections(lake.side.url) as (connection,):
        tables = await lake.tables(connection, times)
        namespace, numbers = await lake.namespace(connection), iter(range(times))

        async def creating() -> None:
            await create(connection, namespace, f"table_{next(numbers)}")

        async def loading() -> None:
            expect(await connection.call(load_request(tables[0])))

        operations: dict[str, Callable[[], Awaitable[object]]] = {
            "create": creating,
            "append": lambda: lake.append(connection, tables[:1]),
            "transaction of 10": lambda: lake.append(connection, tables[:IN_A_TRANSACTION]),
            "load": loading,
        }
        for name, operation in operations.items():
            before = lake.count()
            for _ in range(times):
                await operation()
            await asyncio.sleep(LOG_SECONDS)
            found[name] = {what: number / times for what, number in (lake.count() - before).items()}
    return found
