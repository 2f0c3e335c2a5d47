"""Webhooks of a server: managed over HTTP, delivered by its processes, taken over when one is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, SubscriberAlreadyExists, SubscriberNotFound
from nessie_ops.model import Event, EventKind, NewSubscriber, Subscriber
from tests.events.receivers import SECRET, Receiver
from tests.server.helpers import Api, put, running_server
from tests.server.processes import Served

COMMITS = 40


def new(url: str, **fields: object) -> NewSubscriber:
    return NewSubscriber(name="hook", url=url, secret=SECRET, **fields)  # type: ignore[arg-type]


def wait_until(client: NessieClient, is_so: Callable[[Subscriber], bool]) -> Subscriber:
    while not is_so(found := client.get_subscriber("hook")):
        time.sleep(0.02)
    return found


def test_a_subscriber_is_made_shown_paused_and_deleted(base_uri: str) -> None:
    with NessieClient(base_uri) as client:
        fields = {"kinds": (EventKind.MERGE, EventKind.COMMIT), "references": "main|release/.*"}
        created = client.create_subscriber(NewSubscriber(name="a.b-c", url="https://example.org/x", **fields))  # type: ignore[arg-type]
        assert created.secret.startswith("whsec_") and len(created.secret) == 50
        shown = client.get_subscriber("a.b-c")
        assert shown == created.subscriber == client.list_subscribers()[0]
        assert (shown.kinds, shown.references, shown.cursor, shown.behind, shown.active) == (
            (EventKind.MERGE, EventKind.COMMIT),
            "main|release/.*",
            1,
            0,
            True,
        )
        assert not client.pause_subscriber("a.b-c").active
        assert client.resume_subscriber("a.b-c").active
        assert client.create_subscriber(NewSubscriber(name="b", url="http://h/", after=0)).subscriber.behind == 1
        with pytest.raises(SubscriberAlreadyExists):
            client.create_subscriber(NewSubscriber(name="b", url="http://h/"))
        assert client.delete_subscriber("b").name == "b"
        for call in (
            client.get_subscriber,
            client.delete_subscriber,
            client.pause_subscriber,
            client.resume_subscriber,
            client.send_test,
            client.list_dead_letters,
            client.retry_dead_letters,
            client.discard_dead_letters,
        ):
            with pytest.raises(SubscriberNotFound, match="'b'"):
                call("b")  # type: ignore[operator]
        everything = httpx.get(f"{base_uri}/api/v2/events/subscribers").text
        assert created.secret not in everything and "whsec_" not in everything and "secret" not in everything


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "name"),
        ({"name": "a", "url": 1}, "url"),
        ({"name": "", "url": "http://h/"}, "name"),
        ({"name": "a/b", "url": "http://h/"}, "name"),
        ({"name": "x" * 101, "url": "http://h/"}, "name"),
        ({"name": "a", "url": "ftp://h/"}, "url"),
        ({"name": "a", "url": "h"}, "url"),
        ({"name": "a", "url": "http:///x"}, "url"),
        ({"name": "a", "url": "http://h:0/"}, "url"),
        ({"name": "a", "url": "http://h:99999/"}, "url"),
        ({"name": "a", "url": "http://h/\x00"}, "url"),
        ({"name": "a", "url": "http://h\r\nx: y/"}, "url"),
        ({"name": "a", "url": "http://h/" + "x" * 2000}, "url"),
        ({"name": "a", "url": "http://user:hunter2@h/"}, "url"),
        ({"name": "a", "url": "http://h/", "secret": "hunter2"}, "secret"),
        ({"name": "a", "url": "http://h/", "kinds": ["NOPE"]}, "kinds"),
        ({"name": "a", "url": "http://h/", "kinds": ["TEST"]}, "kinds"),
        ({"name": "a", "url": "http://h/", "kinds": "COMMIT"}, "kinds"),
        ({"name": "a", "url": "http://h/", "references": "("}, "references"),
        ({"name": "a", "url": "http://h/", "references": "x" * 501}, "references"),
        ({"name": "a", "url": "http://h/", "maxAttempts": 0}, "maxAttempts"),
        ({"name": "a", "url": "http://h/", "maxAttempts": 10**30}, "maxAttempts"),
        ({"name": "a", "url": "http://h/", "after": -1}, "after"),
        ({"name": "a", "url": "http://h/", "after": 2**63}, "after"),
    ],
)
def test_what_is_wrong_is_named_and_secrets_are_not_repeated(api: Api, fields: dict[str, object], word: str) -> None:
    error = api.post("events/subscribers", fields, 400)
    assert word in error["message"] and "hunter2" not in error["message"]
    assert api.get("events/subscribers") == {"subscribers": []}


def test_paths_that_name_nothing(api: Api) -> None:
    api.post("events/subscribers", {"name": "a", "url": "http://h/"})
    for method, path in (
        ("GET", "events/subscribers/a/dead-letters?after=x"),
        ("POST", "events/subscribers/a/dead-letters/x/retry"),
        ("DELETE", "events/subscribers/a/dead-letters/-1"),
        ("DELETE", "events/subscribers/a/dead-letters/" + "9" * 30),
        ("GET", "events?after=x"),
        ("GET", "events?wait=x"),
    ):
        assert api.call(method, path).status_code == 404, path
    assert api.call("GET", "events/subscribers/%2F").status_code == 404
    assert api.call("PUT", "events/subscribers/a").status_code == 405


def test_a_test_event_tells_how_it_was_taken(base_uri: str) -> None:
    with NessieClient(base_uri) as client, Receiver() as receiver:
        client.create_subscriber(new(receiver.url))
        client.pause_subscriber("hook")
        assert client.send_test("hook").accepted
        [message] = receiver.messages
        assert (message.event.kind, message.event.reference) == (EventKind.TEST, "main")
        receiver.answer = lambda _: 418
        delivered = client.send_test("hook")
        assert (delivered.accepted, delivered.error) == (False, "HTTP status 418")


@pytest.mark.parametrize(("path", "rows"), [("reference-log", "moves"), ("events", "events")])
def test_the_log_is_followed_without_polling(api: Api, base_uri: str, path: str, rows: str) -> None:
    found: list[dict[str, object]] = []

    def follow() -> None:
        follower = Api(base_uri)
        found.extend(follower.get(path, after=1, wait=20)[rows])
        follower.http.close()

    thread = threading.Thread(target=follow)
    thread.start()
    api.commit(put("t"))
    thread.join()
    assert [row["seq"] for row in found] == [2], "it was answered because of the commit"
    assert api.get(path, after=2, wait=1)[rows] == []


def test_events_are_paged(api: Api) -> None:
    for n in range(4):
        api.commit(put(f"t{n}"))
    page = api.get("events", **{"max-records": 3})
    assert ([event["seq"] for event in page["events"]], page["lastSeq"], page["hasMore"]) == ([1, 2, 3], 3, True)
    page = api.get("events", **{"max-records": 3, "after": 3})
    assert ([event["seq"] for event in page["events"]], page["hasMore"]) == ([4, 5], False)
    api.branch("dev")
    assert [event["seq"] for event in api.get("events", name="dev")["events"]] == [6]


def test_a_server_that_stops_lets_nobody_wait(tmp_path: Path, api: Api, base_uri: str) -> None:
    """Of two requests that wait equally long, the later one is answered first, since its server stops."""
    answers: list[str] = []

    def follow(uri: str) -> None:
        assert httpx.get(f"{uri}/api/v2/events?after=1&wait=20", timeout=60).json()["events"] is not None
        answers.append(uri)

    with Served(tmp_path) as server:
        other = threading.Thread(target=follow, args=(base_uri,))
        other.start()
        waiting = threading.Thread(target=follow, args=(server.base_uri,))
        waiting.start()
        for _ in range(3):  # when these are answered, the one before has long been read
            assert httpx.get(f"{server.base_uri}/health").status_code == 200
        assert server.stop(signal.SIGTERM) == (0, "")
        waiting.join()
        assert answers == [server.base_uri]
    api.commit(put("t"))
    other.join()
    assert answers == [server.base_uri, base_uri]


def test_a_server_delivers_and_a_receiver_that_is_dead_delays_no_commit(tmp_path: Path) -> None:
    hangs = threading.Event()
    with (
        Receiver() as receiver,
        Receiver(lambda _: 204 if hangs.wait(300) else 500) as hanging,
        Served(tmp_path) as server,
        NessieClient(server.base_uri) as client,
    ):
        client.create_subscriber(new(receiver.url))
        client.create_subscriber(NewSubscriber(name="hanging", url=hanging.url, secret=SECRET))
        client.create_subscriber(NewSubscriber(name="dead", url="http://127.0.0.1:9/"))
        api = Api(server.base_uri)
        for n in range(COMMITS):
            api.commit(put(f"t{n}"))
        api.http.close()
        receiver.wait_for(COMMITS)
        assert client.get_subscriber("hanging").cursor == 1, "the first one still hangs"
        hangs.set()
        wait_until(client, lambda hook: hook.behind == 0)
        code, errors = server.stop(signal.SIGTERM)
        assert (code, errors) == (0, "")
    assert receiver.seqs() == list(range(2, COMMITS + 2)), "in order, and once since nobody died"
    assert receiver.errors == 0


def test_killed_after_the_delivery_and_before_it_is_saved_loses_nothing(tmp_path: Path) -> None:
    victims: list[int] = []

    def answer(event: Event) -> int:
        if event.seq == 4 and victims:
            os.kill(victims.pop(), signal.SIGKILL)
        return 204

    with Receiver(answer) as receiver:
        with Served(tmp_path) as server, NessieClient(server.base_uri) as client:
            api = Api(server.base_uri)
            client.create_subscriber(new(receiver.url, after=0))
            victims.append(server.process.pid)
            acknowledged = 1
            try:
                for n in range(COMMITS):
                    api.commit(put(f"t{n}"))
                    acknowledged += 1
            except httpx.TransportError:
                pass
            api.http.close()
            assert server.process.wait(60) == -signal.SIGKILL
        assert 4 in receiver.seqs()
        with Served(tmp_path) as server, NessieClient(server.base_uri) as client:
            found = wait_until(client, lambda hook: hook.behind == 0)
            assert found.cursor >= acknowledged
        seqs = receiver.seqs()
    assert set(seqs) == set(range(1, found.cursor + 1)), "none is lost"
    assert seqs.count(4) == 2, "what was not saved is sent again"
    again = seqs.index(4) + 1
    assert seqs[again:] == sorted(seqs[again:]), "and from there on in order"


def test_two_servers_on_one_database_deliver_each_event_once(tmp_path: Path) -> None:
    with Receiver() as receiver, Served(tmp_path) as one, Served(tmp_path) as other:
        with NessieClient(one.base_uri) as client:
            client.create_subscriber(new(receiver.url))
            apis = [Api(one.base_uri), Api(other.base_uri)]
            for n in range(COMMITS):
                apis[n % 2].commit(put(f"t{n}"))
            receiver.wait_for(COMMITS)
            wait_until(client, lambda hook: hook.behind == 0)
            for api in apis:
                api.http.close()
        for server in (one, other):
            assert server.stop(signal.SIGTERM) == (0, "")
    assert receiver.seqs() == list(range(2, COMMITS + 2))


def test_workers_of_one_server_deliver_each_event_once(tmp_path: Path) -> None:
    with Receiver() as receiver, Served(tmp_path, "--workers", "2") as server, NessieClient(server.base_uri) as client:
        client.create_subscriber(new(receiver.url))
        for n in range(COMMITS):
            api = Api(server.base_uri)  # another connection, and so perhaps another worker
            api.commit(put(f"t{n}"))
            api.http.close()
        wait_until(client, lambda hook: hook.behind == 0)
        assert server.stop(signal.SIGTERM) == (0, "")
    assert receiver.seqs() == list(range(2, COMMITS + 2))


def test_of_two_servers_the_second_takes_over_when_the_first_is_killed(tmp_path: Path) -> None:
    with Receiver() as receiver, Served(tmp_path) as one, Served(tmp_path) as other:
        with NessieClient(other.base_uri) as client:
            client.create_subscriber(new(receiver.url))
            api = Api(other.base_uri)
            for n in range(COMMITS):
                api.commit(put(f"t{n}"))
                if n == COMMITS // 2:
                    one.stop(signal.SIGKILL)
            api.http.close()
            wait_until(client, lambda hook: hook.behind == 0)
        assert other.stop(signal.SIGTERM) == (0, "")
    assert set(receiver.seqs()) == set(range(2, COMMITS + 2))


def test_the_client_refuses_what_the_server_refuses() -> None:
    with running_server() as uri, NessieClient(uri) as client, pytest.raises(BadRequest, match="url"):
        client.create_subscriber(NewSubscriber(name="a", url="file:///etc/passwd"))
