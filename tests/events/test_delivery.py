"""Delivery to real receivers: in order, at least once, tried again, given up, taken over; no writer waits for it."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from nessie_ops.events import Delivery, Networks, Policy, Webhooks
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.model import Event, EventKind, NewMergeRequest, NewSubscriber, ReferenceType, Subscriber
from nessie_ops.store import subscribers
from nessie_ops.versioning import VersionStore
from tests.events.receivers import SECRET, Receiver
from tests.versioning.helpers import head, update

QUICK = Policy(timeout_s=5, first_retry_s=0.01, max_retry_s=0.05, lease_s=30, poll_s=0.02, pause_s=0.01)


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[VersionStore]:
    with closing(VersionStore.open(f"sqlite:///{tmp_path}/catalog.db")) as opened:
        yield opened


@pytest.fixture
def webhooks(versions: VersionStore) -> Webhooks:
    return Webhooks(versions, policy=QUICK)


@contextmanager
def delivering(versions: VersionStore, policy: Policy = QUICK, **options: object) -> Iterator[Delivery]:
    delivery = Delivery(versions, policy=policy, **options)  # type: ignore[arg-type]
    delivery.start()
    try:
        yield delivery
    finally:
        delivery.stop()


def add(webhooks: Webhooks, url: str, name: str = "hook", **fields: object) -> Subscriber:
    new = NewSubscriber(name=name, url=url, secret=SECRET, **fields)  # type: ignore[arg-type]
    return webhooks.create_subscriber(new).subscriber


def wait_until(webhooks: Webhooks, is_so: Callable[[Subscriber], bool], name: str = "hook") -> Subscriber:
    while not is_so(found := webhooks.get_subscriber(name)):
        time.sleep(0.01)
    return found


def write(versions: VersionStore, count: int) -> None:
    for n in range(count):
        update(versions, f"t{n}", 1)


def test_each_event_is_delivered_once_in_order(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver() as receiver, delivering(versions):
        add(webhooks, receiver.url)
        write(versions, 250)  # more than a batch, and more than are saved at once
        assert [event.seq for event in receiver.wait_for(250)] == list(range(2, 252))
        found = wait_until(webhooks, lambda hook: hook.behind == 0)
        assert (found.cursor, found.attempts, found.error, found.dead_letters) == (251, 0, "", 0)
    assert receiver.errors == 0, "all signatures were right"
    assert len(receiver.messages) == 250
    listed = versions.list_events(after_seq=1).events
    assert [message.event for message in receiver.messages] == listed
    assert receiver.messages[0].headers["content-type"] == "application/json"


def test_it_tells_what_was_asked_for(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver() as receiver, delivering(versions):
        add(webhooks, receiver.url, kinds=(EventKind.COMMIT, EventKind.MERGE), references="dev/.*", after=0)
        update(versions, "t", 1)
        versions.create_reference(ReferenceType.BRANCH, "dev/a", head(versions))
        update(versions, "t", 2, branch="dev/a")
        assert [event.seq for event in receiver.wait_for(1)] == [4]
        update(versions, "t", 2)
        wait_until(webhooks, lambda hook: hook.cursor == 5)
    assert receiver.seqs() == [4]


def test_a_merge_by_a_merge_request_is_told_at_once_and_whole(versions: VersionStore, webhooks: Webhooks) -> None:
    update(versions, "t", 1)
    versions.create_reference(ReferenceType.BRANCH, "run/1", head(versions))
    at = update(versions, "u", 1, branch="run/1")
    requests = MergeRequests(versions)
    new = NewMergeRequest(
        source="run/1", title="Load May", author="ann", delete_source=True, properties={"nessie_ops.run_id": ("7",)}
    )
    with Receiver() as receiver, delivering(versions, QUICK._replace(poll_s=600)):
        add(webhooks, receiver.url, kinds=(EventKind.MERGE, EventKind.REFERENCE_DELETED))
        before, merged = head(versions), requests.merge_merge_request(requests.create_merge_request(new).number)
        merge, deleted = receiver.wait_for(2)
    assert (merge.kind, merge.reference) == (EventKind.MERGE, "main")
    assert (merge.hash_before, merge.hash_after) == (before, merged.merge_hash)
    [commit] = merge.commits
    assert commit.commit_meta == versions.get_commit(merge.hash_after)
    assert (commit.commit_meta.message, commit.commit_meta.authors) == ("Load May", ("ann",))
    assert commit.commit_meta.all_properties == {"nessie_ops.run_id": ("7",), "nessie_ops.merge_request": ("1",)}
    assert commit.commit_meta.parent_commit_hashes == (before, at)
    assert [str(operation.key) for operation in commit.operations] == ["u"]
    assert (deleted.kind, deleted.reference, deleted.hash_before) == (EventKind.REFERENCE_DELETED, "run/1", at)


def test_what_fails_is_tried_again_before_what_follows(versions: VersionStore, webhooks: Webhooks) -> None:
    failures = iter([500, 302, 404])
    with Receiver(lambda event: next(failures, 204) if event.seq == 3 else 204) as receiver, delivering(versions):
        receiver.answer_headers = {"location": receiver.url + "&redirected"}
        add(webhooks, receiver.url)
        write(versions, 3)
        assert [event.seq for event in receiver.wait_for(6)] == [2, 3, 3, 3, 3, 4]
        ids = {message.headers["webhook-id"] for message in receiver.messages if message.event.seq == 3}
        assert len(ids) == 1, "a receiver can tell repetitions by the id"
        assert wait_until(webhooks, lambda hook: hook.behind == 0).error == ""


def test_after_all_attempts_it_is_a_dead_letter_and_the_next_is_sent(
    versions: VersionStore, webhooks: Webhooks
) -> None:
    accepts = threading.Event()

    def answer(event: Event) -> int:
        return 204 if event.seq != 3 or accepts.is_set() else 500

    with Receiver(answer) as receiver, delivering(versions):
        add(webhooks, receiver.url, max_attempts=3)
        write(versions, 3)
        assert [event.seq for event in receiver.wait_for(5)] == [2, 3, 3, 3, 4]
        wait_until(webhooks, lambda hook: hook.behind == 0 and hook.dead_letters == 1)
        [letter] = webhooks.list_dead_letters("hook")
        assert (letter.seq, letter.attempts, letter.error) == (3, 3, "HTTP status 500")
        assert letter.event == versions.list_events(after_seq=2, limit=1).events[0]
        assert webhooks.retry_dead_letters("hook", 3) == 1
        receiver.wait_for(6)
        while webhooks.list_dead_letters("hook")[0].retrying:
            time.sleep(0.01)
        assert webhooks.list_dead_letters("hook")[0].attempts == 4
        accepts.set()
        assert webhooks.retry_dead_letters("hook") == 1
        wait_until(webhooks, lambda hook: hook.dead_letters == 0)
        assert receiver.seqs() == [2, 3, 3, 3, 4, 3, 3]


def test_dead_letters_are_discarded(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver(lambda _: 500) as receiver, delivering(versions):
        add(webhooks, receiver.url, max_attempts=1)
        write(versions, 3)
        wait_until(webhooks, lambda hook: hook.dead_letters == 3)
    assert [letter.seq for letter in webhooks.list_dead_letters("hook", after_seq=2, limit=1)] == [3]
    assert webhooks.discard_dead_letters("hook", 3) == 1
    assert webhooks.discard_dead_letters("hook", 3) == 0
    assert webhooks.retry_dead_letters("hook", 3) == 0
    assert webhooks.discard_dead_letters("hook") == 2
    assert webhooks.get_subscriber("hook").dead_letters == 0


def test_a_receiver_that_hangs_is_given_up_and_delays_nobody(versions: VersionStore, webhooks: Webhooks) -> None:
    release = threading.Event()
    policy = QUICK._replace(timeout_s=0.3)
    with (
        Receiver(lambda _: 204 if release.wait(120) else 500) as hanging,
        Receiver() as prompt,
        delivering(versions, policy),
    ):
        add(webhooks, hanging.url, max_attempts=2)
        add(webhooks, prompt.url, "prompt")
        write(versions, 1)
        hanging.wait_for(1)
        write(versions, 20)  # while it hangs
        prompt.wait_for(20)
        assert "no answer within 0.3 seconds" in wait_until(webhooks, lambda hook: hook.dead_letters > 0).error
        release.set()


def test_a_dead_receiver_is_found_again(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver() as first:
        port = first.port
    with delivering(versions):
        add(webhooks, f"http://127.0.0.1:{port}/", max_attempts=1000)
        write(versions, 3)
        assert "ConnectError" in wait_until(webhooks, lambda hook: hook.attempts > 2).error
        with Receiver(port=port) as receiver:
            assert [event.seq for event in receiver.wait_for(3)] == [2, 3, 4]
            assert wait_until(webhooks, lambda hook: hook.behind == 0).attempts == 0


def test_one_that_drips_its_answer_is_given_up(versions: VersionStore, webhooks: Webhooks) -> None:
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        with listener.accept()[0] as connection:
            while not ended.is_set():
                try:
                    connection.sendall(b"H")
                except OSError:
                    return
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        with delivering(versions, QUICK._replace(timeout_s=0.5)):
            add(webhooks, f"http://127.0.0.1:{listener.getsockname()[1]}/", max_attempts=1)
            write(versions, 1)
            assert wait_until(webhooks, lambda hook: hook.dead_letters == 1).error
        ended.set()
        thread.join()


def test_a_receiver_that_is_gone_is_paused_and_can_be_resumed(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver(lambda _: 410) as receiver, delivering(versions):
        add(webhooks, receiver.url)
        write(versions, 2)
        assert "410" in wait_until(webhooks, lambda hook: not hook.active).error
        assert receiver.seqs() == [2]
        receiver.answer = lambda _: 204
        assert webhooks.resume_subscriber("hook").active
        assert [event.seq for event in receiver.wait_for(3)] == [2, 2, 3]


def test_pausing_keeps_events_for_later(versions: VersionStore, webhooks: Webhooks) -> None:
    with Receiver() as receiver, delivering(versions):
        add(webhooks, receiver.url)
        add(webhooks, receiver.url, "other")
        assert not webhooks.pause_subscriber("hook").active
        write(versions, 2)
        wait_until(webhooks, lambda hook: hook.behind == 0, "other")
        assert webhooks.get_subscriber("hook").behind == 2
        webhooks.resume_subscriber("hook")
        wait_until(webhooks, lambda hook: hook.behind == 0)
    assert sorted(receiver.seqs()) == [2, 2, 3, 3]


def test_a_busy_receiver_says_when(versions: VersionStore, webhooks: Webhooks) -> None:
    busy = iter([503])
    with Receiver(lambda _: next(busy, 204)) as receiver, delivering(versions, QUICK._replace(max_retry_s=1000)):
        receiver.answer_headers = {"retry-after": "900"}
        add(webhooks, receiver.url)
        write(versions, 1)
        found = wait_until(webhooks, lambda hook: hook.attempts == 1)
        assert found.retry_at is not None
        assert 800 < (found.retry_at - versions.list_moves(after_seq=1)[0].at).total_seconds() < 1000
        webhooks.resume_subscriber("hook")
        receiver.wait_for(2)


def test_a_dead_process_s_work_is_taken_over(versions: VersionStore, webhooks: Webhooks) -> None:
    add(webhooks, "http://127.0.0.1/")
    write(versions, 1)
    now = time.time_ns() // 1000
    with versions.store.write() as tx:
        assert subscribers.lease(tx, "hook", "dead", now, now + 1_000_000)
    with Receiver() as receiver:
        with versions.store.write() as tx:
            subscribers.update_subscriber(tx, "hook", url=receiver.url, secret=SECRET)
        with delivering(versions):
            receiver.wait_for(1)


def test_refused_addresses_are_not_called(versions: VersionStore, webhooks: Webhooks) -> None:
    networks = Networks.from_env({"NESSIE_OPS_EVENTS_REFUSE": "127.0.0.0/8,::1/128"})
    with Receiver() as receiver, delivering(versions, networks=networks):
        add(webhooks, f"http://localhost:{receiver.port}/", max_attempts=1)
        write(versions, 1)
        assert "are refused" in wait_until(webhooks, lambda hook: hook.dead_letters == 1).error
        assert receiver.messages == []


def test_no_secret_is_logged_and_a_deleted_subscriber_is_forgotten(
    versions: VersionStore, webhooks: Webhooks, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG), Receiver(lambda _: 500) as receiver, delivering(versions):
        add(webhooks, receiver.url, max_attempts=1)
        write(versions, 2)
        wait_until(webhooks, lambda hook: hook.dead_letters == 2)
        webhooks.delete_subscriber("hook")
        add(webhooks, receiver.url)
        assert webhooks.get_subscriber("hook").dead_letters == 0
    assert SECRET not in caplog.text and SECRET.removeprefix("whsec_") not in caplog.text
