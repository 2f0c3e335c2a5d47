"""What is measured of a server, each as one round on branches of its own: a figure, and whether more or less is better.

A writer names as expected hash the last hash it saw, its own last commit, as clients do; on a busy branch that is an
old one.  Writers write different tables, so every conflict is one too many, and is counted.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple
from urllib.parse import quote

from benchmarks.load import Connection, connections, request
from benchmarks.nessie import (
    Filled,
    Table,
    WrongAnswer,
    branch_request,
    commit,
    commit_request,
    create_branch,
    expect,
    get,
    hash_of,
    merge_request,
)
from benchmarks.sides import Side

FAIR = "of fair"
READERS = 8
TABLES_OF_A_WRITER = 25
_TOKEN = re.compile(rb'"token"\s*:\s*"([^"]+)"')
SPREAD = 7919  # prime: neighbours in a writer's list are far apart in the index


@dataclass
class Subject:
    """A side under measurement: its filled branches by number of tables, and what went wrong so far."""

    side: Side
    prefix: str
    filled: dict[int, Filled] = field(default_factory=dict)
    conflicts: int = 0
    commits: int = 0
    failures: int = 0  # requests that the server gave up, where a measure goes on after them
    warming: bool = False
    reading_cpu: dict[str, list[float]] = field(default_factory=dict)  # microseconds per request, by what is read
    shares: dict[str, list[float]] = field(default_factory=dict)  # of a fair share, by the kind of writer
    waits: dict[str, list[float]] = field(default_factory=dict)  # milliseconds of each round's slowest publish
    _names: int = 0

    def new_name(self) -> str:
        self._names += 1
        return f"{self.prefix}_{self._names}"

    def note(self, into: dict[str, list[float]], name: str, values: Sequence[float]) -> None:
        """Keep figures beside the one that a measure gives."""
        if not self.warming:
            into.setdefault(name, []).extend(values)

    async def branch(self, connection: Connection, tables: int) -> str:
        """A new branch with this many tables."""
        name = self.new_name()
        await create_branch(connection, name, self.filled[tables].hash)
        return name


Run = Callable[[Subject, int, float], Awaitable[float]]


class Measure(NamedTuple):
    """`run` takes the subject, the number of tables and the seconds that a round lasts at most."""

    name: str
    unit: str  # of something per second more is better, of milliseconds less
    run: Run
    must: float = 1.0  # times as good as the peer; of a fair share it is the share itself


def disjoint(filled: Filled, sizes: Sequence[int]) -> list[list[Table]]:
    """Lists of these lengths of different tables."""
    if sum(sizes) > len(filled.ids):
        raise ValueError(f"{sum(sizes)} tables are needed, there are {len(filled.ids)}")
    numbers = iter(range(sum(sizes)))
    return [[filled.table(next(numbers) * SPREAD) for _ in range(size)] for size in sizes]


async def write(
    subject: Subject,
    connection: Connection,
    branch: str,
    head: str,
    tables: list[Table],
    *,
    puts: int = 1,
    until: float = math.inf,
    times: float = math.inf,
) -> list[float]:
    """Commit `puts` tables at a time, one commit after the other, once at least; the seconds that each commit took."""
    took: list[float] = []
    at = 0
    while ((start := time.perf_counter()) < until or not took) and len(took) < times:
        some = [tables[(at + n) % len(tables)] for n in range(puts)]
        at += puts
        answer = await connection.call(commit_request(branch, head, [table.put() for table in some]))
        if answer.status == 409:
            subject.conflicts += 1
            head = hash_of(await get(connection, f"trees/{branch}"))
        else:
            head = hash_of(expect(answer).body)
            took.append(time.perf_counter() - start)
    subject.commits += len(took)
    return took


async def write_together(
    subject: Subject, tables: int, seconds: float, puts: Sequence[int], branches: int = 1
) -> tuple[list[list[float]], float]:
    """One writer per element of `puts`, spread over new branches; each one's commits, and the seconds all took."""
    filled = subject.filled[tables]
    lists = disjoint(filled, [TABLES_OF_A_WRITER * n for n in puts])
    async with connections(subject.side.url, len(puts)) as made:
        names = [await subject.branch(made[0], tables) for _ in range(branches)]
        start = time.perf_counter()
        writers = [
            write(subject, made[n], names[n % branches], filled.hash, lists[n], puts=puts[n], until=start + seconds)
            for n in range(len(puts))
        ]
        done = await asyncio.gather(*writers)
        return done, time.perf_counter() - start


def commits(writers: int, branches: int = 1) -> Run:
    """Commits of one table per second."""

    async def run(subject: Subject, tables: int, seconds: float) -> float:
        done, took = await write_together(subject, tables, seconds, [1] * writers, branches)
        return sum(map(len, done)) / took

    return run


async def fairness(subject: Subject, tables: int, seconds: float) -> float:
    """The share of the writer that got least, of small and large commits beside each other; 1 is fair.

    A fair share is a sixteenth of all commits, as sixteen writers always have one waiting, and none should be served
    again before all others were.
    """
    puts = [1] * 8 + [20] * 8
    done, _ = await write_together(subject, tables, seconds, puts)
    fair = sum(map(len, done)) / len(puts)
    shares = [len(one) / fair for one in done]
    subject.note(subject.shares, "1 put", shares[:8])
    subject.note(subject.shares, "20 puts", shares[8:])
    return min(shares)


async def read_until(connection: Connection, requests: Sequence[bytes], until: float, *statuses: int) -> int:
    """Send requests in turn, one once at least; how many."""
    count = 0
    while time.perf_counter() < until or not count:
        expect(await connection.call(requests[count % len(requests)]), *statuses)
        count += 1
    return count


def reads(name: str, path: Callable[[Filled, int], str]) -> Run:
    """Requests per second of eight readers.  `path` is made of the branch and a random number of a table."""

    async def run(subject: Subject, tables: int, seconds: float) -> float:
        filled, numbers = subject.filled[tables], random.Random(1)
        paths = [request("GET", f"/api/v2/{path(filled, numbers.randrange(tables))}") for _ in range(1000)]
        async with connections(subject.side.url, READERS) as made:
            cpu, start = subject.side.cpu_seconds(), time.perf_counter()
            counts = await asyncio.gather(*(read_until(one, paths, start + seconds) for one in made))
            took = time.perf_counter() - start
            cpu = subject.side.cpu_seconds() - cpu
        subject.note(subject.reading_cpu, name, [cpu / sum(counts) * 1e6])
        return sum(counts) / took

    return run


def content_path(filled: Filled, number: int) -> str:
    return f"trees/{filled.branch}/contents/{quote('.'.join(filled.table(number).elements))}"


def entries(page: int | None) -> Run:
    """Milliseconds to list all tables and namespaces, in pages of this size or of the size that the server prefers."""

    async def run(subject: Subject, tables: int, seconds: float) -> float:
        limit = f"&max-records={page}" if page else ""
        async with connections(subject.side.url) as (connection,):

            async def once() -> None:
                found, token = 0, ""
                while True:
                    following = f"&page-token={token}" if token else ""
                    path = f"trees/{subject.filled[tables].branch}/entries?content=false{limit}{following}"
                    body = await get(connection, path)
                    found += body.count(b'"contentId"')
                    following_page = _TOKEN.search(body)
                    if following_page is None:
                        break
                    token = quote(following_page[1], safe="")
                if found < tables:
                    raise WrongAnswer(f"{found} entries of {tables} tables")

            return await repeated(once, seconds)

    return run


async def repeated(once: Callable[[], Awaitable[object]], seconds: float, times: int = 1000) -> float:
    """The median milliseconds of a call, repeated as often as fits."""
    took, until = [], time.perf_counter() + seconds
    while not took or (time.perf_counter() < until and len(took) < times):
        start = time.perf_counter()
        await once()
        took.append(time.perf_counter() - start)
    return median(took) * 1e3


async def log(subject: Subject, tables: int, seconds: float) -> float:
    """Milliseconds to read 250 commits of a branch that has more."""
    async with connections(subject.side.url) as (connection,):
        branch, head = await subject.branch(connection, tables), subject.filled[tables].hash
        own = disjoint(subject.filled[tables], [TABLES_OF_A_WRITER])[0]
        for n in range(260):
            head = hash_of(await commit(connection, branch, head, [own[n % len(own)].put()]))

        async def once() -> None:
            body = await get(connection, f"trees/{branch}/history?max-records=250")
            if body.count(b'"commitMeta"') != 250:
                raise WrongAnswer(f"{body.count(b'commitMeta')} commits of 250")

        return await repeated(once, seconds)


async def branching(subject: Subject, tables: int, seconds: float) -> float:
    """Milliseconds to create a branch."""
    filled = subject.filled[tables]
    async with connections(subject.side.url) as (connection,):

        async def once() -> None:
            expect(await connection.call(branch_request(subject.new_name(), filled.hash, filled.branch)))

        return await repeated(once, seconds, times=100)


async def diff(subject: Subject, tables: int, seconds: float) -> float:
    """Milliseconds to find the ten tables that differ between two branches."""
    filled = subject.filled[tables]
    async with connections(subject.side.url) as (connection,):
        branch = await subject.branch(connection, tables)
        puts = [table.put() for table in disjoint(filled, [10])[0]]
        await commit(connection, branch, filled.hash, puts)

        async def once() -> None:
            body = await get(connection, f"trees/{filled.branch}/diff/{branch}")
            if body.count(b'"key"') != 10:
                raise WrongAnswer(f"{body.count(b'key')} differences of 10")

        return await repeated(once, seconds)


async def merge(subject: Subject, tables: int, seconds: float) -> float:
    """Milliseconds to merge 500 changed tables into a branch that has moved on; what prepares it is not counted."""
    filled, took = subject.filled[tables], []
    changed, other = disjoint(filled, [min(500, tables // 2), 1])
    async with connections(subject.side.url) as (connection,):
        for _ in range(max(1, round(seconds * 2))):
            source, target = [await subject.branch(connection, tables) for _ in range(2)]
            at = hash_of(await commit(connection, source, filled.hash, [table.put() for table in changed]))
            head = hash_of(await commit(connection, target, filled.hash, [table.put() for table in other]))
            start = time.perf_counter()
            answer = expect(await connection.call(merge_request(target, head, source, at)))
            took.append(time.perf_counter() - start)
            if b'"wasApplied":true' not in answer.body.replace(b" ", b""):
                raise WrongAnswer(f"not merged: {answer.body[:500]!r}")
    return median(took) * 1e3


WRITING = [
    Measure("commits, 1 writer", "/s", commits(1), must=2),
    Measure("commits, 16 writers, 1 branch", "/s", commits(16), must=4),
    Measure("commits, 64 writers, 1 branch", "/s", commits(64)),
    Measure("commits, 16 writers, 16 branches", "/s", commits(16, branches=16), must=2),
    Measure("least share of 16 unlike writers", FAIR, fairness, must=0.5),
]
READING = [
    Measure("content read, 8 readers", "/s", reads("content", content_path)),
    Measure("reference read, 8 readers", "/s", reads("reference", lambda filled, _: f"trees/{filled.branch}")),
    Measure("entries, whole", "ms", entries(None)),
    Measure("entries, pages of 500", "ms", entries(500)),
    Measure("log of 250", "ms", log),
]
SIZED = [
    Measure("branch creation", "ms", branching),
    Measure("diff of 10 tables", "ms", diff),
    Measure("merge of 500 tables", "ms", merge),
]
