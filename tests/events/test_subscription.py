"""Callables in the process: they are told everything, in order, and stand in nobody's way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.events import subscribe
from nessie_ops.model import Event, EventKind, NewCatalogTransaction, ReferenceType
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.versioning.helpers import head, update

WRITERS, WRITES = 4, 20
PATIENCE_S = 60


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionStore]:
    with closing(VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")) as opened:
        yield opened


class Heard:
    """What a subscriber was told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Event]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events) >= count, PATIENCE_S), self.events
            return list(self.events)


def test_events_of_many_threads_come_in_order_and_once(versions: VersionStore) -> None:
    heard = Heard()
    for writer in range(WRITERS):
        versions.create_reference(ReferenceType.BRANCH, f"b{writer}", head(versions))
    with subscribe(versions, heard, poll_s=PATIENCE_S):  # writes of this process need no polling

        def write(writer: int) -> None:
            for n in range(WRITES):
                update(versions, f"t{n}", n, branch=f"b{writer}")

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(write, range(WRITERS)))
        events = heard.wait_for(WRITERS * WRITES)
    assert [event.seq for event in events] == list(range(WRITERS + 2, WRITERS + 2 + WRITERS * WRITES))
    for writer in range(WRITERS):
        own = [event for event in events if event.reference == f"b{writer}"]
        assert all(event.kind is EventKind.COMMIT for event in own)
        assert [event.hash_before for event in own[1:]] == [event.hash_after for event in own[:-1]]


def test_it_begins_where_it_is_told_and_hears_what_it_asked_for(versions: VersionStore) -> None:
    everything, some = Heard(), Heard()
    update(versions, "t", 1)
    versions.create_reference(ReferenceType.BRANCH, "dev/a", head(versions))
    with (
        subscribe(versions, everything, after_seq=0),
        subscribe(versions, some, kinds=[EventKind.COMMIT], references="dev/.*", after_seq=0),
    ):
        update(versions, "t", 2)
        update(versions, "t", 3, branch="dev/a")
        assert [event.seq for event in everything.wait_for(5)] == [1, 2, 3, 4, 5]
        assert [event.seq for event in some.wait_for(1)] == [5]
    with pytest.raises(BadRequest, match="references"):
        subscribe(versions, some, references="(")


def test_an_error_of_a_subscriber_is_logged_and_the_next_event_is_told(
    versions: VersionStore, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()

    def fail_first(event: Event) -> None:
        heard(event)
        if event.seq == 2:
            raise ValueError("cannot")

    with caplog.at_level(logging.ERROR, "nessie_ops.events"), subscribe(versions, fail_first):
        update(versions, "a", 1)
        update(versions, "b", 1)
        assert [event.seq for event in heard.wait_for(2)] == [2, 3]
    assert "cannot" in caplog.text and heard.events[0].id in caplog.text


def test_writes_of_others_are_heard_too(versions: VersionStore, tmp_path: Path) -> None:
    heard = Heard()
    url = f"sqlite:///{tmp_path}/catalog.db"
    with closing(VersionStore.open(url)) as other, subscribe(versions, heard, poll_s=0.01):
        at = update(other, "a", 1)
        assert heard.wait_for(1)[0].hash_after == at


def test_a_subscriber_that_hangs_delays_no_writer_and_may_end_itself(versions: VersionStore) -> None:
    entered, release = threading.Event(), threading.Event()
    heard = Heard()

    def hang(event: Event) -> None:
        entered.set()
        assert release.wait(PATIENCE_S)
        subscription.close()
        heard(event)

    subscription = subscribe(versions, hang)
    update(versions, "a", 1)
    assert entered.wait(PATIENCE_S)
    update(versions, "b", 1)  # while the subscriber hangs
    release.set()
    heard.wait_for(1)
    subscription.close()
    assert len(heard.events) == 1, "nothing is told after the end"


def test_transactions_are_heard_of_when_they_commit(versions: VersionStore) -> None:
    """Unless a pattern names their branches."""
    heard, inside = Heard(), Heard()
    transactions = Transactions(versions)
    with subscribe(versions, heard), subscribe(versions, inside, references="txn/.*"):
        begun = transactions.begin_transaction(NewCatalogTransaction())
        update(versions, "t", 1, branch=begun.branch)
        transactions.commit_transaction(begun.id)
        update(versions, "u", 1)
        events = heard.wait_for(2)
        assert [event.reference for event in inside.wait_for(3)] == [begun.branch] * 3
    assert [(event.reference, event.kind) for event in events] == [
        ("main", EventKind.MERGE),
        ("main", EventKind.COMMIT),
    ]
    assert [str(operation.key) for operation in events[0].commits[0].operations] == ["t"]
