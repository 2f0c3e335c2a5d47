"""What our own client reads through a transaction's branch is recorded, and what it only looks up is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nessie_ops.cli.output import to_text
from nessie_ops.client import NessieClient
from nessie_ops.errors import TransactionConflict
from nessie_ops.model import CatalogTransaction, CommitHash, NewCatalogTransaction, NewCommit
from nessie_ops.sql import SqlSession
from tests.server.helpers import running_server
from tests.versioning.helpers import delete, key, put, table


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NessieClient]:
    """A main with the table a."""
    home = tmp_path_factory.mktemp("through")
    with running_server(f"sqlite:///{home}/catalog.db") as uri, NessieClient(uri) as found:
        change(found, 1)
        yield found


def change(client: NessieClient, n: int) -> None:
    at = client.get_reference("main").hash
    before = client.get_contents(at, [key("a")]).get(key("a"))
    content = table(n, str(before.id) if before else None)
    client.commit("main", at, NewCommit(message="change"), [put("a", content)])


def find(client: NessieClient, branch: str) -> CommitHash:
    return client.resolve(branch).hash


Read = Callable[[NessieClient, CatalogTransaction], object]
READS: dict[str, Read] = {
    "contents": lambda client, open: client.get_contents(find(client, open.branch), [key("a")]),
    "of a reference": lambda client, open: client.get_contents(client.get_reference(open.branch).hash, [key("a")]),
    "entries": lambda client, open: client.list_entries(find(client, open.branch), with_content=True),
    "a difference": lambda client, open: client.diff(open.start_hash, find(client, open.branch)),
    "the other way round": lambda client, open: client.diff(find(client, open.branch), open.start_hash),
}


@pytest.mark.parametrize("way", READS)
def test_a_read_is_recorded(client: NessieClient, way: str) -> None:
    open = client.begin_transaction(NewCatalogTransaction())
    find(client, client.begin_transaction(NewCatalogTransaction()).branch)  # at the same commit
    READS[way](client, open)
    change(client, int(open.started_at.timestamp() * 1e6))
    with pytest.raises(TransactionConflict, match="key 'a' was read"):
        client.commit_transaction(open.id)


def test_what_is_looked_up_is_not(client: NessieClient) -> None:
    """Where a branch is depends on nobody else."""
    open = client.begin_transaction(NewCatalogTransaction())
    at = find(client, open.branch)
    assert at == client.get_reference(open.branch).hash == open.start_hash
    assert find(client, f"{open.branch}@{at}") == at and find(client, f"{open.branch}~1") != at
    assert f'"hash": "{at}"' in to_text(client.get_reference(open.branch))
    client.get_contents(open.start_hash, [key("a")])  # at a commit, through no branch
    client.list_log(at)
    name = f"own{open.id}"
    client.commit(open.branch, at, NewCommit(message="m"), [put(name, table(1))])
    change(client, int(open.started_at.timestamp() * 1e6))
    created = client.get_reference("main").hash
    client.commit("main", created, NewCommit(message="m"), [put(f"other{open.id}", table(1))])
    client.commit_transaction(open.id)
    assert client.get_contents(find(client, "main"), [key(name)])


def test_a_session_reads_what_its_statements_show(client: NessieClient) -> None:
    """Write skew of two sessions: both look at a and b, each drops one."""
    at = client.get_reference("main").hash
    client.commit("main", at, NewCommit(message="b"), [put("b", table(1))])
    sessions = [SqlSession(client), SqlSession(client)]
    for session in sessions:
        session.sql("START TRANSACTION; SHOW REFERENCE; SHOW TABLE a; SHOW TABLE b")
    for session, name in zip(sessions, "ab"):
        session.sql(f"DROP TABLE {name}")
    sessions[0].sql("COMMIT")
    with pytest.raises(TransactionConflict, match="key 'a' was read, and is gone now"):
        sessions[1].sql("COMMIT")
    sessions[1].close()
    client.commit("main", find(client, "main"), NewCommit(message="as before"), [put("a", table(1)), delete("b")])
