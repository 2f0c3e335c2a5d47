"""Files of open transactions are kept, by our collector and by others; those of ended ones are garbage like any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.gc.source import Catalog
from nessie_ops.model import CatalogTransaction, CatalogTransactionState, Isolation, NewCatalogTransaction
from nessie_ops.store.livesets import LiveSets
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore
from tests.gc.lake import State
from tests.gc.lakes import Collection, LocalLake
from tests.server.helpers import running_server

JAVA = {"Nessie-Client-Spec": "2"}


class FileLake(LocalLake):
    """A lake in a folder whose catalog is in a file, too, so that a server can serve it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.versions.close()
        self.store = f"sqlite:///{self.folder.parent}/catalog.db"
        self.versions = VersionStore.open(self.store, clock=lambda: self.now)
        self.transactions = Transactions(self.versions, clock=lambda: self.now)

    def begin(self, isolation: Isolation = Isolation.SERIALIZABLE) -> CatalogTransaction:
        new = NewCatalogTransaction(isolation=isolation, lease_seconds=3 * 24 * 3600)
        return self.transactions.begin_transaction(new)

    def table(self, name: str) -> State:
        return State(f"{self.root}/{name}")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FileLake]:
    (tmp_path / "lake").mkdir()
    lake = FileLake(tmp_path / "lake")
    yield lake
    lake.close()


@pytest.fixture
def sets(tmp_path: Path) -> Iterator[LiveSets]:
    opened = LiveSets.open(f"sqlite:///{tmp_path}/sets.db")
    yield opened
    opened.close()


def overwrite(lake: FileLake, branch: str, key: str) -> set[str]:
    """Give a table one new snapshot and no other; the files that it had before and has no more."""
    before = lake.state(branch, key)
    lake.put(branch, key, lake.append(lake.table(key), ["x"]))
    return set().union(*(snapshot.files for snapshot in before.snapshots)) if before else set()


def added(lake: FileLake, before: set[str]) -> set[str]:
    return set(lake.list_files()) - before


@pytest.mark.parametrize("over_rest", [False, True])
def test_an_open_transaction_keeps_what_it_reads_and_writes(files: FileLake, sets: LiveSets, over_rest: bool) -> None:
    for key in ("read", "written"):
        overwrite(files, "main", key)
    begun, kept, idle = files.begin(), set(files.list_files()), files.begin(Isolation.REPEATED_READ)
    overwrite(files, begun.branch, "written")
    overwrite(files, begun.branch, "new")
    own = added(files, kept)
    for _ in range(2):
        overwrite(files, "main", "read")
    files.now += timedelta(hours=1)
    with ExitStack() as stack:
        source = Catalog(files.versions)
        if over_rest:
            client = stack.enter_context(NessieClient(stack.enter_context(running_server(files.store))))
            source = Catalog(client)
        gone = Collection(files, sets, source=source).run("1")
        assert gone and not gone & (own | kept), "only what main alone had in between"
        if over_rest:
            files.transactions.rollback_transaction(begun.id)
        else:
            files.now += timedelta(days=4)
            assert set(files.transactions.reap_transactions()) == {begun.id, idle.id}
        gone = Collection(files, sets, source=source, id="after").run("1", unreferenced_age=timedelta(0))
        assert own <= gone if over_rest else own | {name for name in kept if "/read/" in name} <= gone


def test_a_committed_transaction_leaves_its_files_to_main(files: FileLake, sets: LiveSets) -> None:
    begun = files.begin()
    overwrite(files, begun.branch, "t")
    own = set(files.list_files())
    assert files.transactions.commit_transaction(begun.id).state is CatalogTransactionState.COMMITTED
    assert Collection(files, sets).run("1") == set() and set(files.list_files()) == own


def test_who_is_shown_the_branches_of_transactions(files: FileLake) -> None:
    """Nessie's own collector lists references as its Java client does, which names its version and nothing else."""
    begun = files.begin()
    with running_server(files.store) as uri:

        def names(path: str, headers: dict[str, str], **query: str) -> set[str]:
            rows = httpx.get(f"{uri}/api/{path}/trees", headers=headers, params=query).json()["references"]
            return {row["name"] for row in rows}

        for path in ("v1", "v2"):
            assert names(path, {}) == {"main"}
            assert names(path, JAVA, fetch="MINIMAL") == {"main", begun.branch}
            assert names(path, JAVA, hidden="false") == {"main"}
            assert names(path, {}, hidden="true") == {"main", begun.branch}
        with NessieClient(uri) as client:
            assert [row.name for row in client.list_references()] == ["main"]
            assert [row.name for row in client.list_references(hidden=True)] == ["main", begun.branch]
