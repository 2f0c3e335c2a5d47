"""kill -9 of a purge at every statement: what references need is whole, and the next purge finishes the work."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from nessie_ops.model import ReferenceType
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning import purge as purging
from nessie_ops.versioning.check import check
from tests.store.helpers import fill
from tests.versioning.helpers import head, update


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    found: str = request.getfixturevalue("postgresql_url")
    return found


def purge(url: str, kill_at: int = 0) -> int:
    """Purge in a process that kills itself before a statement; how it ended, 0 for well."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _purge(url, kill_at)
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def _purge(url: str, kill_at: int) -> None:
    store = Store.open(url)
    left = [kill_at]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(store._engine, "before_cursor_execute", count)
    store.dialect.on_statement = count
    purging.BATCH = 2
    now = datetime.now(UTC) + timedelta(hours=1)
    purging.purge(
        store, now=now, grace=timedelta(0), dry_run=False, progress=lambda what, n: None, sleep=lambda seconds: None
    )


def look(url: str, *, make_garbage: bool) -> Any:
    """What references hold, in a store without fault; then a branch with two commits comes and goes."""
    store = Store.open(url)
    versions = VersionStore(store)
    assert list(check(store, lambda what, n: None)) == []
    references = versions.list_references()
    held = [versions.list_entries(reference.hash, with_content=True) for reference in references]
    rows = [len(versions.list_log(reference.hash, with_operations=True)) for reference in references]
    if make_garbage:
        versions.create_reference(ReferenceType.BRANCH, "gone", head(versions))
        update(versions, f"g{time.time_ns()}", 1, "gone")
        update(versions, "n.t1", 2, "gone")
        versions.delete_reference("gone", None)
    store.close()
    return references, held, rows


def test_a_purge_killed_at_any_statement(url: str) -> None:
    store = Store.open(url)
    fill(VersionStore(store), range(30))
    store.close()
    before = look(url, make_garbage=True)
    kills = 0
    while (status := purge(url, kills + 1)) != 0:
        assert os.WTERMSIG(status) == signal.SIGKILL
        kills += 1
        assert look(url, make_garbage=True) == before
    assert kills > 40
    assert purge(url) == 0
    assert look(url, make_garbage=False) == before
    store = Store.open(url)
    with store.read() as tx:
        assert tx.connection.exec_driver_sql('SELECT count(*) FROM "commit"').scalar() == 13
    store.close()
