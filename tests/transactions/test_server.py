"""Transactions over HTTP: by our client, and by clients that know nothing of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError

from nessie_ops.client import NessieClient
from nessie_ops.errors import (
    BadRequest,
    ReferenceNotFound,
    TransactionConflict,
    TransactionNotFound,
    TransactionNotOpen,
)
from nessie_ops.model import CatalogTransactionState, Isolation, NewCatalogTransaction, NewCommit, Put
from nessie_ops.server.embedded import ensure_embedded
from tests.server.helpers import running_server
from tests.server.processes import Served
from tests.transactions.test_reaping import until
from tests.versioning.helpers import key, table

READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Isolation
SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def uri(tmp_path: Path) -> Iterator[str]:
    with running_server(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse") as found:
        yield found


@pytest.fixture
def client(uri: str) -> Iterator[NessieClient]:
    with NessieClient(uri) as found:
        yield found


def lake(uri: str, ref: str) -> RestCatalog:
    """PyIceberg on a reference, as it is: nothing in it knows of transactions."""
    return RestCatalog("lake", uri=f"{uri}/iceberg/{ref.replace('/', '%2F')}")


def rows(catalog: RestCatalog, name: str) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def append(catalog: RestCatalog, name: str, *ids: int) -> None:
    catalog.load_table(name).append(pa.table({"id": list(ids)}, schema=SCHEMA))


@pytest.fixture
def main(uri: str) -> RestCatalog:
    """Tables db.a and db.b, with the row 1 each."""
    catalog = lake(uri, "main")
    catalog.create_namespace("db")
    for name in ("db.a", "db.b"):
        catalog.create_table(name, SCHEMA)
        append(catalog, name, 1)
    return catalog


def test_two_tables_in_one_commit(uri: str, client: NessieClient, main: RestCatalog) -> None:
    begun = client.begin_transaction(NewCatalogTransaction(author="ann", message="both"))
    inside = lake(uri, begun.branch)
    append(inside, "db.a", 2)
    append(inside, "db.b", 2)
    inside.create_table("db.c", SCHEMA)
    assert rows(inside, "db.a") == [1, 2] and rows(main, "db.a") == [1]
    before = client.get_reference("main").hash
    done = client.commit_transaction(begun.id)
    assert done == client.commit_transaction(begun.id) == client.get_transaction(begun.id)
    assert rows(main, "db.a") == rows(main, "db.b") == [1, 2] and main.table_exists("db.c")
    [newest, older] = client.list_log(client.get_reference("main").hash, limit=2)
    assert older.commit_meta.hash == before and newest.commit_meta.hash == done.commit_hash
    assert (newest.commit_meta.authors, newest.commit_meta.message) == (("ann",), "both")


@pytest.mark.parametrize("isolation", list(Isolation))
def test_write_skew_of_pyiceberg(uri: str, client: NessieClient, main: RestCatalog, isolation: Isolation) -> None:
    """Each moves what it has seen in one table into the other."""
    first, second = (client.begin_transaction(NewCatalogTransaction(isolation=isolation)) for _ in range(2))
    for begun, source, target in ((first, "db.a", "db.b"), (second, "db.b", "db.a")):
        inside = lake(uri, begun.branch)
        append(inside, target, *(10 * row for row in rows(inside, source)))
    client.commit_transaction(first.id)
    if isolation is SERIALIZABLE:
        with pytest.raises(TransactionConflict, match=r"key 'db\.b' was read") as caught:
            client.commit_transaction(second.id)
        [change] = caught.value.changes
        assert change.key == "db.b" and change.commit_hash == client.get_reference("main").hash
    else:
        client.commit_transaction(second.id)
        assert rows(main, "db.a") == rows(main, "db.b") == [1, 10]


def test_what_each_endpoint_records(uri: str, client: NessieClient, main: RestCatalog) -> None:
    """Each way to read db.b, by either API, keeps a transaction from committing when db.b changes."""
    paths = [
        "/api/v2/trees/{ref}/contents/db.b",
        "/api/v2/trees/{ref}/contents?key=db.b",
        "/api/v2/trees/{ref}/entries?content=true",
        "/api/v2/trees/{ref}/diff/main",
        "/api/v1/contents/db.b?ref={ref}",
        "/api/v1/diffs/main...{ref}",
        "/iceberg/v1/{ref}/namespaces/db/tables/b",
    ]
    begun = {path: client.begin_transaction(NewCatalogTransaction()) for path in paths}
    unread = client.begin_transaction(NewCatalogTransaction())
    for path, transaction in begun.items():
        ref = transaction.branch.replace("/", "%2F")
        assert httpx.get(uri + path.format(ref=ref)).is_success, path
    append(main, "db.b", 2)
    for path, transaction in begun.items():
        with pytest.raises(TransactionConflict, match=r"db\.b"):
            client.commit_transaction(transaction.id)
        assert client.rollback_transaction(transaction.id).state is CatalogTransactionState.ROLLED_BACK, path
    client.commit_transaction(unread.id)


def test_what_listings_record(uri: str, client: NessieClient, main: RestCatalog) -> None:
    begun, calm = (client.begin_transaction(NewCatalogTransaction()) for _ in range(2))
    for transaction in (begun, calm):
        assert len(lake(uri, transaction.branch).list_tables("db")) == 2
    append(main, "db.b", 2)
    client.commit_transaction(calm.id)  # which tables there are is the same
    main.create_table("db.new", SCHEMA)
    with pytest.raises(TransactionConflict, match=r"db\.new"):
        client.commit_transaction(begun.id)


def test_a_head_request_is_a_read(uri: str, client: NessieClient, main: RestCatalog) -> None:
    begun = client.begin_transaction(NewCatalogTransaction())
    assert not lake(uri, begun.branch).table_exists("db.later")
    main.create_table("db.later", SCHEMA)
    with pytest.raises(TransactionConflict, match=r"db\.later"):
        client.commit_transaction(begun.id)


def test_read_committed_by_pyiceberg(uri: str, client: NessieClient, main: RestCatalog) -> None:
    begun = client.begin_transaction(NewCatalogTransaction(isolation=READ_COMMITTED))
    inside = lake(uri, begun.branch)
    append(inside, "db.a", 2)
    append(main, "db.b", 7)
    assert rows(inside, "db.b") == [1, 7] and rows(inside, "db.a") == [1, 2]
    append(inside, "db.b", 8)
    client.commit_transaction(begun.id)
    assert rows(main, "db.b") == [1, 7, 8]


def test_bad_input(uri: str, client: NessieClient) -> None:
    with pytest.raises(BadRequest, match="isolation"):
        client.begin_transaction(NewCatalogTransaction(isolation="NONE"))  # type: ignore[arg-type]
    with pytest.raises(BadRequest, match="leaseSeconds"):
        client.begin_transaction(NewCatalogTransaction(lease_seconds=10**9))
    with pytest.raises(TransactionNotFound):
        client.get_transaction("no/such")
    begun = client.begin_transaction(NewCatalogTransaction())
    client.rollback_transaction(begun.id)
    with pytest.raises(TransactionNotOpen):
        client.commit_transaction(begun.id)
    with pytest.raises(BadRequest, match="transactions' own"):
        client.create_reference("BRANCH", "txn/x", client.get_reference("main").hash)  # type: ignore[arg-type]


def test_pages(client: NessieClient) -> None:
    ids = {client.begin_transaction(NewCatalogTransaction()).id for _ in range(5)}
    found = client.list_transactions()
    assert {one.id for one in found} == ids
    assert client.list_transactions(after=found[1].id, limit=2) == found[2:4]


def test_a_commit_by_nessies_api(client: NessieClient) -> None:
    begun = client.begin_transaction(NewCatalogTransaction())
    client.commit(begun.branch, begun.start_hash, NewCommit(message="m"), [Put(key("t"), table(1))])
    assert client.commit_transaction(begun.id).commit_hash == client.get_reference("main").hash


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_write_with_a_key(uri: str, client: NessieClient, main: RestCatalog, isolation: Isolation) -> None:
    """What is recorded or refreshed before it is not the write that the request is answered with."""
    begun = client.begin_transaction(NewCatalogTransaction(isolation=isolation))
    append(main, "db.a", 2)
    at = f"{uri}/iceberg/v1/{begun.branch.replace('/', '%2F')}/namespaces"
    request = {"json": {"namespace": ["new"]}, "headers": {"Idempotency-Key": str(uuid4())}}
    first, again = (httpx.post(at, **request) for _ in range(2))  # type: ignore[arg-type]
    assert first.is_success and first.json()["namespace"] == ["new"] and first.content == again.content
    client.commit_transaction(begun.id)
    assert ("new",) in main.list_namespaces()


def test_a_server_reaps_and_every_api_says_so(tmp_path: Path) -> None:
    """A real server's thread ends a transaction whose clients go on writing; they are told what to do."""
    with Served(tmp_path) as served, NessieClient(served.base_uri) as client:
        main = lake(served.base_uri, "main")
        main.create_namespace("db")
        main.create_table("db.a", SCHEMA)
        begun = client.begin_transaction(NewCatalogTransaction(lease_seconds=2))
        inside = lake(served.base_uri, begun.branch)
        loaded = inside.load_table("db.a")
        until(lambda: client.get_transaction(begun.id).state is CatalogTransactionState.EXPIRED)
        said = r"its lease ended before COMMIT: .* Begin another one"
        with pytest.raises(BadRequestError, match=said):
            loaded.append(pa.table({"id": [2]}, schema=SCHEMA))
        for use in (lambda: inside.load_table("db.a"), lambda: inside.create_table("db.b", SCHEMA)):
            with pytest.raises(BadRequestError, match=said):
                use()
        with pytest.raises(ReferenceNotFound, match=said):
            client.commit(begun.branch, begun.start_hash, NewCommit(message="m"), [Put(key("t"), table(1))])
        old = httpx.get(f"{served.base_uri}/api/v1/trees/tree/{begun.branch.replace('/', '%2F')}")
        assert old.status_code == 404 and "its lease ended before COMMIT" in old.json()["message"]
        with pytest.raises(TransactionNotOpen, match="EXPIRED"):
            client.commit_transaction(begun.id)
        assert client.tidy_transactions().expired == () and rows(main, "db.a") == []
        assert served.stop(signal.SIGTERM)[0] == 0


def test_an_embedded_server_reaps(tmp_path: Path) -> None:
    uri = ensure_embedded(f"sqlite:///{tmp_path}/embedded.db", f"file://{tmp_path}")
    with NessieClient(uri) as client:
        begun = client.begin_transaction(NewCatalogTransaction(lease_seconds=1))
        until(lambda: client.get_transaction(begun.id).state is CatalogTransactionState.EXPIRED)
