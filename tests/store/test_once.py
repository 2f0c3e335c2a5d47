"""Keys of requests in the database: one transaction with what the request does, on every database."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Any

import pytest

from nessie_ops.errors import KeyReused, OutcomeUnknown
from nessie_ops.model import NewCommit
from nessie_ops.store import Job, Store, libpq, once
from nessie_ops.store.dialects import Dialect, InDoubt, Statement
from nessie_ops.store.writing import EXPIRED_AT_ONCE
from nessie_ops.versioning import VersionStore
from tests.store.helpers import execute, faults_of
from tests.versioning.helpers import commit, head, put, table

HOUR_US = 3_600_000_000
_numbers = itertools.count(1)


class Clock:
    """Nanoseconds since 1970, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000_000_000_000

    def __call__(self) -> int:
        return self.now


@contextmanager
def keyed(key: int, digest: int = 0) -> Iterator[once.KeyedRequest]:
    """A request whose answer is the value of the property that it has set."""
    request = once.KeyedRequest(key.to_bytes(16, "big"), digest.to_bytes(32, "big"), HOUR_US)
    token = once.enter(request)
    try:
        with once.answering(lambda reference: reference.properties[f"p{key}"].encode()):
            yield request
    finally:
        once.leave(token)


def write(versions: VersionStore, n: int) -> bytes:
    """Set the property `p<n>` of main to what it never was: nothing but a key keeps this from being done twice."""
    value = str(next(_numbers))
    versions.update_properties("main", {f"p{n}": value})
    return value.encode()


def count(versions: VersionStore) -> int:
    return len(versions.list_moves()) - 1


def test_once(versions: VersionStore, store: Store) -> None:
    with keyed(1) as request:
        first = write(versions, 1)
    assert request.answer == first
    for _ in range(2):
        with keyed(1) as again, pytest.raises(once.AlreadyAnswered):
            write(versions, 1)
        assert again.answer == first
    with keyed(1, digest=1) as other, pytest.raises(KeyReused):
        write(versions, 1)
    assert other.answer is None and count(versions) == 1 and faults_of(store) == []
    assert versions.get_reference("main").properties == {"p1": first.decode()}


def test_one_statement_more_and_none_without_a_key(versions: VersionStore, store: Store) -> None:
    def statements_of(path: str) -> list[str]:
        statements: list[str] = []
        store.dialect.on_statement = lambda _raw, text: statements.append(text)
        commit(versions, put(path, table(1)))
        store.dialect.on_statement = None
        return statements

    commit(versions, put("t", table(1)))
    without = statements_of("t1")
    token = once.enter(once.KeyedRequest(bytes(15) + b"\x01", bytes(32), HOUR_US))
    with once.answering(lambda _: b""):
        having = statements_of("t2")
    once.leave(token)
    recorded = [text for text in having if "idempotency_key" in text]
    assert len(recorded) == 1 and [text for text in having if text not in recorded] == without


def test_a_group_takes_two_round_trips_and_one_for_each_key(
    postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips: list[int] = []
    real = libpq.run
    numbers = itertools.count(1)

    def run(raw: Any, statements: Sequence[Statement]) -> Any:
        trips.append(1)
        return real(raw, statements)

    monkeypatch.setattr(libpq, "run", run)

    def count_trips(versions: VersionStore, size: int, keyed: bool) -> int:
        """Of one group of commits; the first leads when all have been submitted."""
        at, jobs, leads = head(versions), list[Job](), list[Callable[[], None]]()
        for n in itertools.islice(numbers, size):
            token = once.enter(once.KeyedRequest(bytes(14) + n.to_bytes(1) + b"\x01", bytes(32), HOUR_US))
            with once.answering(lambda _: b"") if keyed else nullcontext():
                meta = NewCommit(message="m")
                versions.submit_commit("main", at, meta, [put(f"t{n}", table(n))], jobs.append, leads.append)
            once.leave(token)
        trips.clear()
        (lead,) = leads
        lead()
        assert [job.error for job in jobs] == [None] * size
        return len(trips)

    with closing(VersionStore.open(postgresql_url)) as versions:
        commit(versions, put("t", table(1)))
        assert count_trips(versions, 1, keyed=False) == count_trips(versions, 8, keyed=False) == 2
        assert count_trips(versions, 1, keyed=True) == 3
        assert count_trips(versions, 8, keyed=True) == 10


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_commit_is_not_an_answer(database_url: str, applied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database did not answer a COMMIT, the key tells whether it was applied."""
    with closing(Store.open(database_url)) as store:
        versions, dialect = VersionStore(store), store.dialect
        write(versions, 0)

        def lose(raw: Any, statements: Sequence[Statement]) -> None:
            if applied:
                Dialect.commit(dialect, raw, statements)
            raise InDoubt(dialect.errors[0]("the connection is lost"))

        with monkeypatch.context() as patch, keyed(1) as request, pytest.raises(OutcomeUnknown):
            patch.setattr(dialect, "commit", lose)
            write(versions, 1)
        assert request.answer is None
        with keyed(1) as again, pytest.raises(once.AlreadyAnswered) if applied else nullcontext():
            write(versions, 1)
        assert count(versions) == 2
        assert again.answer == versions.get_reference("main").properties["p1"].encode()


def test_many_at_once(url: str, store: Store, versions: VersionStore) -> None:
    """Eight threads send each request; on a file or a server, half of them through another store."""
    other = store if url == "sqlite://" else Store.open(url)
    answers: dict[int, list[bytes | None]] = {n: [] for n in range(1, 11)}

    def send(through: VersionStore) -> None:
        for n in answers:
            with keyed(n) as request:
                with suppress(once.AlreadyAnswered):
                    write(through, n)
                answers[n].append(request.answer)

    write(versions, 0)
    threads = [threading.Thread(target=send, args=(VersionStore(each),)) for each in (store, other) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if other is not store:
        other.close()
    found = versions.get_reference("main").properties
    assert answers == {n: [found[f"p{n}"].encode()] * 8 for n in answers}
    assert count(versions) == 11


def test_settings_are_not_written_twice(versions: VersionStore, store: Store) -> None:
    def run(value: str) -> None:
        token = once.enter(once.KeyedRequest(bytes(16), bytes(32), HOUR_US))
        with once.answering(lambda _: b""):
            try:
                store.run(lambda tx: tx.put_setting("a", value))
            finally:
                once.leave(token)

    run("1")
    store.run(lambda tx: tx.put_setting("a", "2"))
    with pytest.raises(once.AlreadyAnswered):
        run("1")
    with store.read() as tx:
        assert tx.get_setting("a") == "2"


def rows(store: Store) -> int:
    return int(str(execute(store, "SELECT count(*) FROM idempotency_key")[0][0]))


def test_keys_expire(versions: VersionStore, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(store, "_clock_ns", clock)
    for n in range(1, 4):
        with keyed(n):
            write(versions, n)
    clock.now += HOUR_US * 1000 - 1000
    with keyed(1), pytest.raises(once.AlreadyAnswered):
        write(versions, 1)
    clock.now += 1000
    with keyed(1, digest=9) as request:
        again = write(versions, 1)
    assert request.answer == again and count(versions) == 4 and rows(store) == 3
    clock.now += 1000
    with keyed(32):  # one of those that clean up
        write(versions, 32)
    assert rows(store) == 2


def test_purge_removes_expired_keys_in_steps(
    versions: VersionStore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(store, "_clock_ns", clock)
    write(versions, 0)
    with store.write() as tx:
        for n in range(EXPIRED_AT_ONCE + 5):
            tx.record_answer((2 * n + 1).to_bytes(16, "big"), bytes(32), b"", HOUR_US)
    clock.now += 2 * HOUR_US * 1000
    store.record_answer(once.KeyedRequest(bytes(15) + b"\x02", bytes(32), HOUR_US), b"")
    versions.purge(dry_run=True)
    assert rows(store) == EXPIRED_AT_ONCE + 6
    versions.purge()
    assert rows(store) == 1
