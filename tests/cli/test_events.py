"""`nessie-ops events`: the same with a server and with the database itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app
from nessie_ops.cli.exits import code_of
from nessie_ops.errors import NessieOpsError
from nessie_ops.events import Delivery, Policy, Webhooks
from nessie_ops.versioning import VersionStore
from tests.events.receivers import SECRET, Receiver
from tests.server.helpers import running_server
from tests.versioning.helpers import update

APP = make_app()


def run(*arguments: str, code: int = 0) -> str:
    """What the command prints, and what its error says; `code` is the exit code that it must have."""
    done = CliRunner().invoke(APP, ["events", *arguments])
    if isinstance(done.exception, NessieOpsError):
        assert code_of(done.exception, "events") == code
        return done.exception.message
    assert done.exit_code == code, done.output
    return done.stdout + done.stderr


@pytest.fixture
def url(tmp_path: Path) -> str:
    store = f"sqlite:///{tmp_path}/catalog.db"
    with closing(VersionStore.open(store)) as versions:
        update(versions, "t", 1)
    return store


@pytest.mark.parametrize("place", ["store", "server"])
def test_a_subscriber_through_its_life(url: str, place: str) -> None:
    with running_server(url) as uri, Receiver() as receiver:
        where = ("--store", url) if place == "store" else ("--uri", uri)
        added = run("add", "hook", receiver.url, "--kind", "COMMIT", "--kind", "MERGE", "--after", "0", *where)
        assert "secret: whsec_" in added
        [listed] = json.loads(run("list", "--json", *where))
        assert (listed["name"], listed["kinds"], listed["behind"]) == ("hook", ["COMMIT", "MERGE"], 2)
        assert run("list", *where).split()[:5] == ["hook", receiver.url, "active", "2", "behind"]
        assert "paused hook after 0" in run("pause", "hook", *where)
        assert json.loads(run("resume", "hook", "--json", *where))["active"] is True
        assert "already exists" in run("add", "hook", receiver.url, *where, code=3)
        assert "deleted hook" in run("delete", "hook", *where)
        assert "'hook' not found" in run("pause", "hook", *where, code=4)


def test_dead_letters_from_the_command_line(url: str) -> None:
    with Receiver(lambda _: 500) as receiver, closing(VersionStore.open(url)) as versions:
        secret = ("--secret", SECRET)
        created = json.loads(run("add", "hook", receiver.url, "--max-attempts", "1", "--json", "--store", url, *secret))
        assert created["secret"] == SECRET
        with Delivery(versions, policy=Policy(poll_s=0.01, pause_s=0.01)):
            update(versions, "a", 1)
            update(versions, "b", 1)
            receiver.wait_for(2)
            while Webhooks(versions).get_subscriber("hook").dead_letters < 2:
                pass
        rows = run("dead-letters", "hook", "--store", url).splitlines()
        assert [row.split()[:3] for row in rows] == [["3", "COMMIT", "main"], ["4", "COMMIT", "main"]]
        assert "HTTP status 500" in rows[0]
        assert [row["seq"] for row in json.loads(run("dead-letters", "hook", "--json", "--store", url))] == [3, 4]
        assert "1 will be sent again" in run("retry", "hook", "--seq", "3", "--store", url)
        assert "discarded 2" in run("discard", "hook", "--store", url)
        assert "did not accept it: HTTP status 500" in run("test", "hook", "--store", url, code=1)
        receiver.answer = lambda _: 200
        assert "hook accepted it" in run("test", "hook", "--store", url)


def test_events_are_shown(url: str) -> None:
    lines = run("show", "--store", url).splitlines()
    assert [line.split()[3] for line in lines] == ["REFERENCE_CREATED", "COMMIT"]
    [event] = json.loads(run("show", "--after", "1", "--json", "--store", url))
    assert event["commits"][0]["operations"][0]["key"] == {"elements": ["t"]}
