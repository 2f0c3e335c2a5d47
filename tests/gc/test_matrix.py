"""Whole collections by the command line: every store of files, database of live sets and source, and who meets whom.

Exactly what no reference needs is gone afterwards, and every table of every reference is read by PyIceberg.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.buckets import Buckets
from tests.gc.commands import Commands, live_sets_at
from tests.gc.sites import ROWS, Place, Site, in_bucket, on_disk
from tests.iceberg.honest_buckets import honest
from tests.server.helpers import running_server

ROOT = Path(__file__).parents[2]
NOW = ("--grace-period", "PT0S", "--unreferenced-age", "PT0S", "--force")
DYING = """
import os, signal, sys
from nessie_ops.__main__ import make_app
from nessie_ops.gc.storage import Stores
delete = Stores.delete
def delete_and_die(self, locations):
    list(delete(self, locations))
    os.kill(os.getpid(), signal.SIGKILL)
Stores.delete = delete_and_die
make_app()(["gc", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def gateway(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buckets]:
    """A real S3 server's process."""
    with honest(tmp_path_factory.mktemp("buckets")) as server:
        yield server


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return on_disk(tmp_path / "wh")
    return in_bucket(request.getfixturevalue(request.param))


@pytest.fixture
def live_sets(request: pytest.FixtureRequest) -> str:
    """The URL of a database; empty for one in memory."""
    return str(request.getfixturevalue(f"{request.param}_url")) if request.param else ""


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/live-sets.db"


class Run:
    """The words that all commands of one collection share."""

    def __init__(self, site: Site, source: tuple[str, ...], live_sets: str, folder: Path) -> None:
        self.site, self.source, self.files = site, source, site.place.options
        self.sets = live_sets_at(live_sets) if live_sets else ()
        self.id_file = str(folder / "id")
        self.commands = Commands()

    def in_steps(self) -> None:
        """mark-live, sweep --defer-deletes, list-deferred, deferred-deletes."""
        before, dead = self.site.place.list_files(), self.site.place.list_files() - self.site.find_needed()
        run, chosen = self.commands.run, ("-L", self.id_file, *self.sets)
        known = self.source if "--store" in self.source else ()  # a server is remembered
        new = ("--jdbc-schema", "CREATE_IF_NOT_EXISTS")
        run("mark-live", "-c", "1", "--write-live-set-id-to", self.id_file, *self.source, *self.sets, *new)
        run("sweep", "--defer-deletes", *chosen, *known, *NOW, *self.files)
        assert self.site.place.list_files() == before
        listed = json.loads(run("list-deferred", *chosen, "--json").stdout)
        assert {row["location"] for row in listed} == dead
        done = run("deferred-deletes", *chosen, *known, *self.files).stdout
        assert f"{len(dead)} files deleted, 0 delete failures" in done

    def killed_and_resumed(self) -> None:
        """gc, killed after the first batch of deletions and before that is recorded; gc --resume."""
        new = ("--jdbc-schema", "CREATE_IF_NOT_EXISTS")
        words = ("gc", "-c", "1", "--write-live-set-id-to", self.id_file)
        words += (*self.source, *self.sets, *new, *NOW, *self.files)
        command = [sys.executable, "-c", DYING, *words]
        killed = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert self.site.place.list_files() == self.site.find_needed()
        id = Path(self.id_file).read_text()
        resumed = json.loads(
            self.commands.run("gc", "--resume", id, *self.source, *self.sets, *NOW, *self.files, "--json").stdout
        )
        assert resumed["liveSet"]["status"] == "EXPIRY_SUCCESS"
        assert set(resumed["report"]["states"]) == {"gone"}

    def in_memory(self) -> None:
        """gc --inmemory."""
        assert (
            "EXPIRY_SUCCESS" in self.commands.run("gc", "--inmemory", "-c", "1", *self.source, *NOW, *self.files).stdout
        )


@pytest.mark.parametrize(
    ("place", "live_sets", "source", "collect"),
    [
        ("disk", "sqlite", "server", Run.in_steps),
        ("disk", "mariadb", "own", Run.killed_and_resumed),
        ("buckets", "postgresql", "server", Run.killed_and_resumed),
        ("buckets", "mariadb", "own", Run.in_steps),
        ("buckets", "", "own", Run.in_memory),
        ("gateway", "postgresql", "own", Run.in_steps),
        ("gateway", "mariadb", "server", Run.in_steps),
        ("gateway", "sqlite", "own", Run.killed_and_resumed),
        ("gateway", "", "server", Run.in_memory),
    ],
    indirect=["place", "live_sets"],
)
def test_a_whole_collection(
    place: Place,
    live_sets: str,
    source: str,
    collect: Callable[[Run], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    # Our own store may share a database with the live sets.
    shares = source == "own" and bool(live_sets)
    site = Site(place, live_sets if shares else f"sqlite:///{tmp_path}/catalog.db")
    site.fill()
    needed = site.find_needed()
    assert needed < place.list_files()
    with ExitStack() as stack:
        if source == "server":
            words = ("-u", f"{stack.enter_context(running_server(site.store))}/api/v2")
        else:
            words = ("--store", site.store)
        collect(Run(site, words, live_sets, tmp_path))
    assert place.list_files() == needed
    assert site.read() == ROWS
