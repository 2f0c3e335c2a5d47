"""Delivery on each database: two stores on it, as two processes have them, share webhooks, leases and dead letters."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from nessie_ops.errors import StoreUnavailable, SubscriberAlreadyExists
from nessie_ops.events import Delivery, Policy, Webhooks
from nessie_ops.model import NewSubscriber, ReferenceType
from nessie_ops.store import subscribers
from nessie_ops.store.subscribers import SubscriberRecord
from nessie_ops.versioning import VersionStore
from tests.events.receivers import SECRET, Receiver
from tests.versioning.helpers import head, update

QUICK = Policy(timeout_s=5, first_retry_s=0.01, max_retry_s=0.05, lease_s=30, poll_s=0.02, pause_s=0.01)
COMMITS = 30


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def stores(url: str) -> Iterator[tuple[VersionStore, VersionStore]]:
    with closing(VersionStore.open(url)) as one, closing(VersionStore.open(url)) as other:
        yield one, other


def test_each_event_comes_once_and_in_order_though_two_deliver(stores: tuple[VersionStore, VersionStore]) -> None:
    webhooks = Webhooks(stores[0], policy=QUICK)
    with Receiver() as receiver, ExitStack() as stack:
        webhooks.create_subscriber(NewSubscriber(name="hook", url=receiver.url, secret=SECRET))
        for versions in stores:
            delivery = Delivery(versions, policy=QUICK)
            delivery.start()
            stack.callback(delivery.stop)
        for n in range(COMMITS):
            update(stores[n % 2], f"t{n}", 1)
        receiver.wait_for(COMMITS)
        while webhooks.get_subscriber("hook").behind:
            time.sleep(0.01)
    assert receiver.seqs() == list(range(2, COMMITS + 2))


def test_dead_letters_are_kept_sent_again_and_discarded(stores: tuple[VersionStore, VersionStore]) -> None:
    webhooks = Webhooks(stores[0], policy=QUICK)
    name = "release/" + "x" * 900
    stores[0].create_reference(ReferenceType.BRANCH, name, head(stores[0]))
    with Receiver(lambda _: 500) as receiver, ExitStack() as stack:
        new = NewSubscriber(name="hook", url=receiver.url, secret=SECRET, max_attempts=2, after=0)
        webhooks.create_subscriber(new)
        with pytest.raises(SubscriberAlreadyExists):
            Webhooks(stores[1]).create_subscriber(new)
        delivery = Delivery(stores[1], policy=QUICK)
        delivery.start()
        stack.callback(delivery.stop)
        while webhooks.get_subscriber("hook").dead_letters < 2:
            time.sleep(0.01)
        assert [letter.event.reference for letter in webhooks.list_dead_letters("hook")] == ["main", name]
        receiver.answer = lambda _: 204
        assert webhooks.retry_dead_letters("hook", 2) == 1
        while webhooks.get_subscriber("hook").dead_letters > 1:
            time.sleep(0.01)
        assert webhooks.discard_dead_letters("hook") == 1
        assert receiver.seqs() == [1, 1, 2, 2, 2]
    assert [hook.name for hook in Webhooks(stores[1]).list_subscribers()] == ["hook"]
    webhooks.delete_subscriber("hook")
    assert Webhooks(stores[1]).list_subscribers() == []


def test_progress_is_written_by_the_owner_of_the_lease_alone(stores: tuple[VersionStore, VersionStore]) -> None:
    webhooks = Webhooks(stores[0])
    webhooks.create_subscriber(NewSubscriber(name="hook", url="http://127.0.0.1/"))
    with stores[1].store.write() as tx:
        assert subscribers.lease(tx, "hook", "a", now=100, until=200)
        assert subscribers.lease(tx, "hook", "b", now=200, until=300) is None
        assert subscribers.lease(tx, "hook", "b", now=201, until=300)
        assert subscribers.save_progress(tx, "hook", "a", {"seq": 7}) is None
        assert subscribers.save_progress(tx, "hook", "b", {"seq": 8})
        assert subscribers.save_progress(tx, "hook", "b", {"seq": 8}), "though nothing changes"
        subscribers.renew_leases(tx, ["hook"], "a", 10_000)
        assert subscribers.lease(tx, "hook", "c", now=301, until=400)
    assert webhooks.get_subscriber("hook").cursor == 8


def test_an_error_of_the_database_does_not_tell_a_secret(url: str) -> None:
    """Errors go to the log, with those that caused them."""
    with closing(VersionStore.open(url)) as versions:
        with versions.store.write() as tx:
            tx.connection.exec_driver_sql("DROP TABLE dead_letter")
            tx.connection.exec_driver_sql("DROP TABLE subscriber")
            tx.connection.exec_driver_sql("CREATE TABLE subscriber AS SELECT 'x' AS name, 'y' AS secret")
        with pytest.raises(StoreUnavailable) as caught, versions.store.write() as tx:
            record = SubscriberRecord("hook", "http://127.0.0.1/", SECRET, "[]", "", 1, 1, 0, 0)
            subscribers.insert_subscriber(tx, record)
    told = "".join(traceback.format_exception(caught.value))
    assert "INSERT INTO subscriber" in told
    assert SECRET not in told
