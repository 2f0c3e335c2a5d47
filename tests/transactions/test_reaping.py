"""How transactions end that nobody ends: leases, clocks, processes that die, hands that meddle."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import event, text

from nessie_ops.errors import (
    BadRequest,
    ReferenceNotFound,
    TransactionNotFound,
    TransactionNotOpen,
)
from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    Isolation,
    NewCatalogTransaction,
    ReferenceType,
)
from nessie_ops.store import rows
from nessie_ops.transactions import Transactions
from nessie_ops.transactions.reads import Kind, to_record
from nessie_ops.transactions.reaper import Reaper
from nessie_ops.versioning import VersionStore, references
from tests.transactions.endings import act, acting
from tests.transactions.test_transactions import World
from tests.versioning.helpers import commit, head, put, table

OPEN, COMMITTED, ROLLED_BACK, EXPIRED = CatalogTransactionState
WEEK_S = 7 * 24 * 3600


@pytest.fixture(params=["file", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"sqlite:///{tmp_path}/catalog.db"
    found: str = request.getfixturevalue("postgresql_url")
    return found


@pytest.fixture
def world(url: str) -> Iterator[World]:
    made = World(url)
    yield made
    made.versions.close()


def state_of(world: World, begun: CatalogTransaction) -> CatalogTransactionState:
    return world.transactions.get_transaction(begun.id).state


def read_much(world: World, begun: CatalogTransaction, count: int) -> None:
    many = [to_record(begun.id, Kind.VALUES, b"%d" % n, b"%d\0" % n) for n in range(count)]
    world.versions.store.run(lambda tx: tx.add_reads(many))


def count_reads(world: World, id: str) -> int:
    with world.versions.store.read() as tx:
        return len(tx.list_reads(id))


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_that_is_known_goes_a_week_after_the_end(world: World) -> None:
    done, dropped, forgotten, open = (world.begin(lease_seconds=WEEK_S) for _ in range(4))
    short = world.begin(lease_seconds=60)
    for begun in (done, open, short):
        read_much(world, begun, 3)
    read_much(world, dropped, 2 * rows.READS_AT_ONCE + 10)
    world.commit(done)
    world.transactions.rollback_transaction(dropped.id)
    world.versions.delete_reference(forgotten.branch, None)
    world.clock.pass_(61)
    assert world.transactions.tidy_transactions().expired == (short.id,)
    assert [count_reads(world, begun.id) for begun in (done, short, open)] == [0, 0, 3]
    assert 0 < count_reads(world, dropped.id) <= rows.READS_AT_ONCE + 9, "a bounded part goes at once"
    world.clock.pass_(WEEK_S - 62 - 1)
    assert world.transactions.renew_transaction(open.id, 3600).state is OPEN
    assert world.transactions.tidy_transactions() == world.transactions.tidy_transactions()
    assert [state_of(world, begun) for begun in (done, dropped)] == [COMMITTED, ROLLED_BACK]
    world.clock.pass_(70)
    found = world.transactions.tidy_transactions()
    assert (found.expired, found.forgotten) == ((forgotten.id,), 3)
    assert count_reads(world, dropped.id) == 0 and count_reads(world, open.id) == 3
    for begun in (done, dropped, short):
        with pytest.raises(TransactionNotFound, match="known for seven days"):
            world.commit(begun)
    with pytest.raises(ReferenceNotFound, match="no transaction of this name is known"):
        head(world.versions, done.branch)


def test_reads_are_deleted_on_each_database(mariadb_url: str) -> None:
    world = World(mariadb_url)
    begun = world.begin()
    read_much(world, begun, rows.READS_AT_ONCE + 5)
    world.commit(begun)
    assert count_reads(world, begun.id) == 4
    world.clock.pass_(WEEK_S + 1)
    assert world.transactions.tidy_transactions().forgotten == 1 and count_reads(world, begun.id) == 0
    world.versions.close()


def test_the_first_to_end_are_reaped_first_and_a_hundred_at_once(world: World) -> None:
    late = world.begin(lease_seconds=50)
    early = {world.begin(lease_seconds=20).id for _ in range(100)}
    world.clock.pass_(100)
    assert set(world.transactions.reap_transactions()) == early
    assert world.transactions.reap_transactions() == [late.id]
    names = [row.name for row in world.versions.list_references(hidden=True)]
    assert names == ["main"]


def test_clocks_jump(world: World) -> None:
    """A lease ends when the clock says so, and stays ended when it is set back."""
    begun, other = world.begin(lease_seconds=60), world.begin(lease_seconds=60)
    world.clock.pass_(-WEEK_S)
    assert world.transactions.tidy_transactions().expired == ()
    world.write(begun.branch, "a", 2)
    assert world.commit(begun).state is COMMITTED
    world.clock.pass_(WEEK_S + 3600)
    assert world.transactions.reap_transactions() == [other.id]
    world.clock.pass_(-3600)
    with pytest.raises(TransactionNotOpen, match="EXPIRED"):
        world.commit(other)
    with pytest.raises(TransactionNotOpen, match="EXPIRED"):
        world.transactions.renew_transaction(other.id, 60)
    assert state_of(world, begun) is COMMITTED and world.read("main", "a") == [2]


def test_what_is_said_of_a_branch_that_has_gone(world: World) -> None:
    expired, back, done, deleted = (world.begin(lease_seconds=60) for _ in range(4))
    world.transactions.rollback_transaction(back.id)
    world.commit(done)
    world.versions.delete_reference(deleted.branch, None)
    world.clock.pass_(61)
    world.transactions.reap_transactions()
    said = {expired: "its lease ended before COMMIT", back: "rolled back", done: "has been committed"}
    for begun, words in said.items():
        for use in (head, lambda versions, ref: versions.resolve(f"{ref}~1")):
            with pytest.raises(ReferenceNotFound, match=words):
                use(world.versions, begun.branch)
        with pytest.raises(ReferenceNotFound, match=words):
            commit(world.versions, put("x", table(1)), branch=begun.branch, at=head(world.versions))
    assert state_of(world, deleted) is EXPIRED


def test_hands_on_the_branch_of_a_transaction(world: World) -> None:
    begun, other = world.begin(), world.begin()
    later = commit(world.versions, put("c", table(1)))
    with pytest.raises(BadRequest, match="cannot be assigned"):
        world.versions.assign_reference(begun.branch, None, later)
    world.versions.delete_reference(other.branch, None)
    for use in (lambda: head(world.versions, other.branch), lambda: world.write(other.branch, "a", 1)):
        with pytest.raises(ReferenceNotFound, match=r"somebody deleted it\. Roll its transaction back"):
            use()
    with pytest.raises(BadRequest, match="transactions' own"):
        world.versions.create_reference(ReferenceType.BRANCH, other.branch, later)
    with pytest.raises(BadRequest, match="cannot be restored"):
        world.versions.restore(world.clock.now, [other.branch])
    assert world.commit(begun).state is COMMITTED
    steps = world.versions.restore(world.clock.now - timedelta(microseconds=1), dry_run=True)
    assert not [step for step in steps if step.name.startswith("txn/")], "they are not restored"


def test_strays(world: World) -> None:
    """Branches without their transactions, as a copy of a store has; one that is older than transactions stays."""
    begun = world.begin()

    def create(name: str, about: dict[str, str]) -> None:
        world.versions.store.run(
            lambda tx: references.create_reference(
                tx, ReferenceType.BRANCH, name, begun.start_hash, about, world.clock()
            )
        )

    for n in range(501):
        create(f"txn/{n}", {"transaction": str(n)})
    create("txn/old", {"expires_at": "2026-01-01T00:00:00Z"})
    assert len(world.transactions.tidy_transactions().branches) == 501
    assert {row.name for row in world.versions.list_references(hidden=True)} == {"main", "txn/old", begun.branch}


def test_the_reaper(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """It outlives the failures of its store, ends what is over, forgets, costs a query when idle, and stops at once."""
    versions = VersionStore.open(url)
    transactions = Transactions(versions)
    ago = Transactions(versions, clock=lambda: datetime.now(UTC) - timedelta(days=8))
    old = ago.rollback_transaction(ago.begin_transaction(NewCatalogTransaction()).id)
    transactions = Transactions(versions)
    with versions.store.write() as tx:
        tx.connection.execute(text('ALTER TABLE "catalog_transaction" RENAME TO "away"'))
    reaper = Reaper(versions, poll_s=3600)
    with caplog.at_level(logging.WARNING, "nessie_ops.transactions"), reaper:
        until(lambda: "wait" in caplog.text)
        with versions.store.write() as tx:
            tx.connection.execute(text('ALTER TABLE "away" RENAME TO "catalog_transaction"'))
        short = transactions.begin_transaction(NewCatalogTransaction(lease_seconds=1))
        until(lambda: transactions.get_transaction(short.id).state is EXPIRED)
        with pytest.raises(TransactionNotFound):
            until(lambda: transactions.get_transaction(old.id) is None)
    versions.close()


def test_a_look_without_work_is_one_query(world: World) -> None:
    world.begin()
    statements: list[str] = []
    event.listen(world.versions.store._engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    reaper = Reaper(world.versions, clock=world.clock)
    assert reaper._look() > 0
    statements.clear()
    assert 4.9 < reaper._look() <= 5 and len(statements) == 1


# -- processes ------------------------------------------------------------------------------------


def test_a_lease_ends_while_others_commit_renew_and_reap(url: str) -> None:
    """In three processes: a transaction is committed, or expired, or goes on, never two of these."""
    versions = VersionStore.open(url)
    transactions = Transactions(versions)
    new = NewCatalogTransaction(lease_seconds=1, isolation=Isolation.REPEATED_READ)
    with acting(url, "commit") as (committer, commits), acting(url, "reap") as (reaper, reaps):
        begun = [transactions.begin_transaction(new) for _ in range(24)]
        for n, one in enumerate(begun):
            commit(versions, put(f"t{n}", table(n)), branch=one.branch)
        # Each a little before its lease ends, to a little after.
        jobs = [(one.id, one.expires_at + timedelta(milliseconds=n - 12)) for n, one in enumerate(begun)]
        commits.send(jobs[::2])
        reaps.send(jobs)
        act(transactions, "renew", jobs[1::2])
    assert (committer.exitcode, reaper.exitcode) == (0, 0)
    found = [transactions.get_transaction(one.id) for one in begun]
    at = head(versions)
    visible = {str(entry.name) for entry in versions.list_entries(at)}
    branches = {row.name for row in versions.list_references(prefix="txn/")}
    for n, one in enumerate(found):
        assert (one.state is COMMITTED) == (f"t{n}" in visible)
        assert (one.state is OPEN) == (one.branch in branches)
        assert one.state in ((COMMITTED, EXPIRED, OPEN) if n % 2 == 0 else (OPEN, EXPIRED))
    committed = {one.commit_hash for one in found if one.state is COMMITTED}
    assert committed == {row.commit_meta.hash for row in versions.list_log(at)}
    versions.close()


def test_a_reaper_is_killed_half_way(url: str) -> None:
    versions = VersionStore.open(url)
    ago = Transactions(versions, clock=lambda: datetime.now(UTC) - timedelta(days=1))
    begun = [ago.begin_transaction(NewCatalogTransaction()) for _ in range(90)]
    transactions = Transactions(versions)
    with acting(url, "reap") as (killed, pipe):
        pipe.send([("", datetime.now(UTC))])
        until(lambda: transactions.list_transactions(state=EXPIRED, limit=1))
        killed.kill()
    states = {one.branch: transactions.get_transaction(one.id).state for one in begun}
    branches = {row.name for row in versions.list_references(prefix="txn/")}
    assert branches == {branch for branch, state in states.items() if state is OPEN}
    others = [VersionStore.open(url) for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda other: Transactions(other).tidy_transactions(), others))
    assert {transactions.get_transaction(one.id).state for one in begun} == {EXPIRED}
    assert versions.list_references(prefix="txn/") == []
    for each in (*others, versions):
        each.close()
