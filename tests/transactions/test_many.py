"""A thousand open transactions cost nobody else anything: counted are statements, and what the database does for them.

SQLite tells how many instructions a statement took, PostgreSQL how many rows it looked at.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event

from nessie_ops.gc import identify
from nessie_ops.gc.identify import Context, MarkSettings
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.source import FIRST_PAGE, Catalog
from nessie_ops.model import CatalogTransaction, Isolation, NewCatalogTransaction, ReferenceType, Tag
from nessie_ops.store import Cache, Store
from nessie_ops.store.livesets import LiveSets
from nessie_ops.transactions import Transactions
from nessie_ops.transactions.reaping import Reaping
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import commit, head, put, table, update

MANY = 1_000


class Meter:
    """Counts what the connections of SQLite do that are opened from now on."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.instructions = 0

    def watch(self, connection: sqlite3.Connection, _record: object) -> None:
        connection.set_trace_callback(self.statements.append)
        connection.set_progress_handler(self._count, 1)

    def _count(self) -> int:
        self.instructions += 1
        return 0

    def measure(self, act: Callable[[], object]) -> tuple[int, int]:
        self.statements.clear()
        self.instructions = 0
        act()
        return len(self.statements), self.instructions


@contextmanager
def metered(url: str) -> Iterator[tuple[VersionStore, Meter]]:
    """A store without a cache, and its meter."""
    meter = Meter()
    event.listen(Engine, "connect", meter.watch)
    try:
        versions = VersionStore(Store.open(url, cache=Cache(0)))
        yield versions, meter
        versions.close()
    finally:
        event.remove(Engine, "connect", meter.watch)


def fill(versions: VersionStore) -> None:
    """Twenty commits, ten branches, and three tags."""
    for n in range(20):
        update(versions, f"t{n % 4}", n)
    for n in range(10):
        versions.create_reference(ReferenceType.BRANCH, f"{'az'[n % 2]}{n}", head(versions))
    for n in range(3):
        versions.create_reference(ReferenceType.TAG, f"{'av'[n % 2]}-tag{n}", head(versions))


def open_many(transactions: Transactions, count: int = MANY, **about: Any) -> list[CatalogTransaction]:
    new = NewCatalogTransaction(**about)
    with ThreadPoolExecutor(32) as threads:  # whose writes share transactions of the database
        return list(threads.map(lambda _: transactions.begin_transaction(new), range(count)))


def test_statements_and_their_work_are_the_same(tmp_path: Path) -> None:
    with metered(f"sqlite:///{tmp_path}/catalog.db") as (versions, meter):
        fill(versions)
        transactions, numbers = Transactions(versions), iter(range(1_000, 2_000))
        reaping = Reaping(versions.store, "main", lambda: datetime.now(UTC))
        reaping.tidy()

        def transact() -> None:
            begun = transactions.begin_transaction(NewCatalogTransaction(isolation=Isolation.REPEATED_READ))
            update(versions, "t1", next(numbers), begun.branch)
            transactions.commit_transaction(begun.id)

        acts: dict[str, Callable[[], object]] = {
            "list": versions.list_references,
            "list a page": lambda: versions.list_references(limit=3),
            "list the next page": lambda: versions.list_references(after=(ReferenceType.BRANCH, "main"), limit=3),
            "list hidden ones by page": lambda: versions.list_references(hidden=True, limit=5),
            "list by prefix": lambda: versions.list_references(prefix="a"),
            "get": lambda: versions.get_reference("main"),
            "commit": lambda: update(versions, "t0", next(numbers)),
            "begin, write and commit": transact,
            "look for leases that are over": lambda: (reaping.find_next_end(), reaping.reap(), reaping.forget()),
        }
        before = {name: meter.measure(act) for name, act in acts.items()}
        begun = open_many(transactions)
        assert len(transactions.list_transactions()) == MANY
        after = {name: meter.measure(act) for name, act in acts.items()}
        for name in acts:
            (statements, work), (more_statements, more_work) = before[name], after[name]
            assert more_statements <= statements + 2, name  # a deeper commit may look at another ancestor
            assert more_work < 1.5 * work + 100, (name, work, more_work)
        listed: list[str] = []
        last: tuple[ReferenceType, str] | None = None
        while page := versions.list_references(hidden=True, after=last, limit=100):
            listed += [row.name for row in page]
            last = (ReferenceType.TAG if isinstance(page[-1], Tag) else ReferenceType.BRANCH), page[-1].name
        assert listed == [row.name for row in versions.list_references(hidden=True)] and len(listed) == MANY + 14
        hidden_page = meter.measure(
            lambda: versions.list_references(hidden=True, after=(ReferenceType.BRANCH, begun[0].branch), limit=5)
        )
        assert hidden_page[1] < 1.5 * before["list hidden ones by page"][1] + 100, "a page costs what is on it"


def test_postgresql_looks_at_no_more_rows(postgresql_url: str) -> None:
    versions = VersionStore.open(postgresql_url)
    fill(versions)
    transactions = Transactions(versions)
    open_many(transactions)
    statements: list[tuple[str, Any]] = []
    event.listen(versions.store._engine, "before_cursor_execute", lambda *given: statements.append(given[2:4]))
    engine = create_engine(versions.store._engine.url, isolation_level="AUTOCOMMIT")
    reaping = Reaping(versions.store, "main", lambda: datetime.now(UTC))
    with engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
        for act, most in (
            (versions.list_references, 2 * 15),
            (lambda: versions.list_references(hidden=True, limit=5), 20),
            (reaping.find_next_end, 1),
            (reaping.reap, 0),
            (reaping.forget, 0),
        ):
            statements.clear()
            act()
            plans = [
                connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {text}", given)
                for text, given in statements
            ]
            seen = sum(count_rows(json.loads(row) if isinstance(row, str) else row) for plan in plans for [row] in plan)
            assert statements and seen <= most, (act, seen, statements)
    engine.dispose()
    versions.close()


def count_rows(plan: Any) -> int:
    """The rows that the scans of a plan looked at."""
    if isinstance(plan, list):
        return sum(count_rows(part) for part in plan)
    if "Plan" in plan:
        return count_rows(plan["Plan"])
    removed = sum(plan.get(name, 0) for name in ("Rows Removed by Filter", "Rows Removed by Index Recheck"))
    own = plan["Actual Rows"] + removed if "Scan" in plan["Node Type"] and "Plans" not in plan else 0
    return int(own * plan["Actual Loops"]) + count_rows(plan.get("Plans", []))


def test_a_mark_visits_each_commit_once(tmp_path: Path) -> None:
    """Transactions begun at a few commits cost a mark nothing; one that has written costs its own commits."""
    versions = VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")
    fill(versions)
    transactions = Transactions(versions)
    sets = LiveSets.open(f"sqlite:///{tmp_path}/sets.db")
    statements: list[str] = []
    event.listen(sets._engine, "before_cursor_execute", lambda *given: statements.append(given[2]))

    def mark(id: str, policy: str) -> tuple[int, int, int]:
        """Commits fetched, statements, references that are pinned."""
        statements.clear()
        source, context = Catalog(versions), Context(lambda: datetime.now(UTC), "me", lambda step, count: None)
        identify.begin(sets, source, id, MarkSettings("test", Policies(datetime.now(UTC), policy)), context)
        record = identify.identify(sets, source, id, context)
        return source.fetched, len(statements), len(sets.list_references(record.number))

    before = {policy: mark(f"before {policy}", policy) for policy in ("NONE", "3", "PT1H")}
    begun = [one for _ in range(4) for one in open_many(transactions, MANY // 4)]
    assert {policy: mark(f"same {policy}", policy) for policy in before} == before
    for n in range(3):
        update(versions, "t3", 100 + n)
        begun += open_many(transactions, 5)
    for policy, (fetched, _, pinned) in before.items():
        found = mark(f"later {policy}", policy)
        assert found[0] <= fetched + FIRST_PAGE and found[2] == pinned + 2, policy  # main has moved
    for n, one in enumerate(begun[:10]):
        commit(versions, put(f"own{n}", table(n)), branch=one.branch)
    fetched, _, pinned = mark("own", "NONE")
    assert pinned == before["NONE"][2] + 2 + 10 and fetched <= before["NONE"][0] + (1 + 10) * FIRST_PAGE
    sets.close()
    versions.close()
