"""What a thousand open transactions cost everybody else: the same things done in two stores, in turns.

    .venv/bin/python -m benchmarks.transactions [--open 1000] [--rounds 30] [--written 0]

The stores are equal but for the open transactions of the second one.  Told are the median of each, and of the ratios of
the rounds: a machine that is busy for a while is so for both.  `--written` is how many have a commit of their own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median

from nessie_ops.gc import identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import Catalog
from nessie_ops.model import Isolation, NewCatalogTransaction, NewCommit, Put, ReferenceType
from nessie_ops.store.livesets import LiveSets
from nessie_ops.transactions import Transactions
from nessie_ops.transactions.reaping import Reaping
from nessie_ops.versioning import VersionStore
from tests.databases import PostgresDatabases, PostgreSQL
from tests.versioning.helpers import head, key, table, update

TABLES, COMMITS, BRANCHES = 100, 300, 20
Acts = dict[str, Callable[[], object]]


def fill(versions: VersionStore) -> None:
    """Tables, commits, and branches of old commits."""
    puts = [Put(key(f"t{n}"), table(n)) for n in range(TABLES)]
    versions.commit("main", head(versions), NewCommit(message="m"), puts)
    for n in range(COMMITS):
        update(versions, f"t{n % TABLES}", TABLES + n)
        if n % (COMMITS // BRANCHES) == 0:
            versions.create_reference(ReferenceType.BRANCH, f"dev/{n}", head(versions))


def open_many(versions: VersionStore, many: int, written: int) -> None:
    """Open transactions from the head; some of them with a commit."""
    transactions, new = Transactions(versions), NewCatalogTransaction(isolation=Isolation.REPEATED_READ)
    with ThreadPoolExecutor(32) as threads:
        begun = list(threads.map(lambda _: transactions.begin_transaction(new), range(many)))
        list(threads.map(lambda n: update(versions, f"own{n}", n, begun[n].branch), range(written)))


def acts_of(versions: VersionStore) -> Acts:
    """What is measured."""
    transactions, numbers = Transactions(versions), count(1_000)
    reaping = Reaping(versions.store, versions.default_branch, lambda: datetime.now(UTC))

    def transact() -> None:
        begun = transactions.begin_transaction(NewCatalogTransaction(isolation=Isolation.REPEATED_READ))
        update(versions, "t1", next(numbers), begun.branch)
        transactions.commit_transaction(begun.id)

    def mark() -> None:
        sets = LiveSets.open("sqlite://")
        context = Context(lambda: datetime.now(UTC), "me", lambda step, count: None)
        source, settings = Catalog(versions), MarkSettings("benchmark", Policies(datetime.now(UTC), "NONE"))
        identify.begin(sets, source, "id", settings, context)
        identify.identify(sets, source, "id", context)
        sets.close()

    return {
        "list references": versions.list_references,
        "list a page of 20, with hidden ones": lambda: versions.list_references(hidden=True, limit=20),
        "get a reference, 100 times": lambda: [versions.get_reference("main") for _ in range(100)],  # one is too short
        "commit": lambda: update(versions, "t0", next(numbers)),
        "begin, write and commit a transaction": transact,
        "mark of a collection": mark,
        "the reaper's look": reaping.find_next_end,
    }


def measure(sides: list[Acts], rounds: int) -> dict[str, list[list[float]]]:
    """Milliseconds of each round, by act and side."""
    found: dict[str, list[list[float]]] = {name: [[] for _ in sides] for name in sides[0]}
    for n in range(rounds + 1):
        for name in found:
            for side in (0, 1) if n % 2 else (1, 0):
                began = time.perf_counter()
                sides[side][name]()
                if n:  # the first one fills caches
                    found[name][side].append((time.perf_counter() - began) * 1e3)
    return found


def compare(urls: list[str], given: argparse.Namespace) -> None:
    """Fill two stores, measure, and print a table."""
    with ExitStack() as stack:
        stores = [VersionStore.open(url) for url in urls]
        for versions in stores:
            stack.callback(versions.close)
            fill(versions)
        open_many(stores[1], given.open, given.written)
        found = measure([acts_of(versions) for versions in stores], given.rounds)
    database = urls[0].partition(":")[0].partition("+")[0]
    print(f"\n| {database}, ms | 0 open | {given.open:,} open | ratio |\n|---|--:|--:|--:|")
    for name, (none, many) in found.items():
        ratio = median(after / before for before, after in zip(none, many))
        print(f"| {name} | {median(none):.2f} | {median(many):.2f} | {ratio:.2f} |")


def main() -> None:
    """Measure on both databases."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("--open", 1_000), ("--rounds", 30), ("--written", 0)):
        parser.add_argument(name, type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        compare([f"sqlite:///{folder}/{side}.db" for side in "ab"], given)
        with PostgreSQL.running() as server:
            databases = PostgresDatabases(server.url)
            compare([databases.create(), databases.create()], given)


if __name__ == "__main__":
    main()
