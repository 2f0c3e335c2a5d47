"""No room for what 8 writers write: they are answered 503 when nothing was applied, 504 when that is not known.

Reads go on, and nothing acknowledged is lost.  On a file system that is full, and where files may not grow.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.crash.small_disk import SmallDisk, mounted
from tests.crash.writers import Writers
from tests.databases import PostgreSQL, account, execute
from tests.server.helpers import Api
from tests.server.processes import Served

WRITERS, ROUNDS, ENOUGH = 8, 2, 40


@contextmanager
def sqlite() -> Iterator[tuple[str, SmallDisk]]:
    with mounted("8m") as disk:
        yield f"sqlite:///{disk.folder}/catalog.db", disk


@contextmanager
def postgresql() -> Iterator[tuple[str, SmallDisk]]:
    """A database whose tables are on the small disk; the server's own log is not, since without it no server runs."""
    with PostgreSQL.running() as server, mounted("24m", account().get("user", 0)) as disk:
        execute(
            server.url, f"CREATE TABLESPACE small LOCATION '{disk.folder}'", "CREATE DATABASE small TABLESPACE small"
        )
        yield make_url(server.url).set(database="small").render_as_string(hide_password=False), disk
        server.stop()


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        api = Api(served.base_uri)
        api.add_table("before")
        with Writers(served.base_uri, ["main"] * WRITERS) as writers:
            writers.wait_for(200, ENOUGH)
            size = max(file.stat().st_size for file in tmp_path.glob("catalog.db*"))
            _, most = resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            writers.wait_for(504, ENOUGH)  # of an error of the disk while it commits the database does not say enough
            assert api.http.get("/health").status_code == 200
            resource.prlimit(served.process.pid, resource.RLIMIT_FSIZE, (most, most))
            writers.wait_for(200, ENOUGH)
        api.http.close()
        writers.assert_kept(f"sqlite:///{tmp_path}/catalog.db")


@pytest.mark.parametrize("store", [sqlite, postgresql], ids=lambda store: store.__name__)
def test_nothing_is_lost(store: Callable[[], AbstractContextManager[tuple[str, SmallDisk]]], tmp_path: Path) -> None:
    with store() as (url, disk), Served(tmp_path, store=url) as served:
        api = Api(served.base_uri)
        api.add_table("before")
        with Writers(served.base_uri, ["main"] * WRITERS) as writers:
            for _ in range(ROUNDS):
                writers.wait_for(200, ENOUGH)
                disk.fill()
                writers.wait_for(503, ENOUGH)
                assert api.http.get("/health").status_code == 200
                assert "before" in {entry["name"]["elements"][0] for entry in api.get("trees/main/entries")["entries"]}
                disk.free()
                writers.wait_for(200, ENOUGH)
        api.http.close()
        writers.assert_kept(url)
