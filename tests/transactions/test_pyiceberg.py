"""PyIceberg as it is, pointed at a transaction's branch by its URI: what it reads is seen by the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.types import StringType

from nessie_ops.client import NessieClient
from nessie_ops.errors import TransactionConflict
from nessie_ops.model import CatalogTransaction, NewCatalogTransaction
from tests.server.helpers import running_server

SCHEMA = pa.schema([("id", pa.int64())])


class Lake:
    """A server with a namespace db, and the tables a and b of one row each in it."""

    def __init__(self, uri: str) -> None:
        self.uri, self.client = uri, NessieClient(uri)
        self.main = self.at("main")
        self.main.create_namespace("db")
        self.main.create_namespace("other")
        for name in ("db.a", "db.b"):
            self.main.create_table(name, SCHEMA)
            self.append(name)

    def at(self, ref: str) -> Catalog:
        return load_catalog("lake", type="rest", uri=f"{self.uri}/iceberg/{ref.replace('/', '%2F')}")

    def append(self, name: str) -> None:
        self.main.load_table(name).append(pa.table({"id": [1]}, schema=SCHEMA))

    def begin(self) -> CatalogTransaction:
        return self.client.begin_transaction(NewCatalogTransaction())

    def commits(self, begun: CatalogTransaction) -> bool:
        try:
            self.client.commit_transaction(begun.id)
        except TransactionConflict:
            return False
        return True


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder: Path = tmp_path_factory.mktemp("lake")
    with running_server(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse") as uri:
        made = Lake(uri)
        yield made
        made.client.close()


def miss(catalog: Catalog, name: str) -> None:
    with suppress(NoSuchTableError):
        catalog.load_table(name)


Act = Callable[[Catalog], object]
OF_A: list[Act] = [
    lambda catalog: catalog.load_table("db.a"),
    lambda catalog: catalog.load_table("db.a").scan().to_arrow(),
    lambda catalog: catalog.load_table("db.a").refresh(),
    lambda catalog: catalog.table_exists("db.a"),
    lambda catalog: catalog.create_table_if_not_exists("db.a", SCHEMA),
    lambda catalog: catalog.load_table("db.a").update_schema().add_column("x", StringType()),  # not committed
]
OF_NAMES: list[Act] = [
    lambda catalog: catalog.list_tables("db"),
    lambda catalog: catalog.table_exists("db.new"),
    lambda catalog: miss(catalog, "db.new"),
]
OF_NAMESPACES: list[Act] = [
    lambda catalog: catalog.list_namespaces(),
    lambda catalog: catalog.namespace_exists("new"),
    lambda catalog: catalog.create_namespace_if_not_exists("other"),
]


def try_each(lake: Lake, acts: list[Act], change: Callable[[], object]) -> list[bool]:
    """Whether each commits, a transaction of which does one act before the change."""
    begun = [lake.begin() for _ in acts]
    for act, one in zip(acts, begun, strict=True):
        act(lake.at(one.branch))
    change()
    return [lake.commits(one) for one in begun]


def test_tables_that_were_read(lake: Lake) -> None:
    assert try_each(lake, OF_A, lambda: lake.append("db.b")) == [True] * len(OF_A)
    assert try_each(lake, OF_A, lambda: lake.append("db.a")) == [False] * len(OF_A)


def test_tables_that_were_not_there(lake: Lake) -> None:
    assert try_each(lake, OF_NAMES, lambda: lake.append("db.a")) == [True] * len(OF_NAMES)
    assert try_each(lake, OF_NAMES, lambda: lake.main.create_table("db.new", SCHEMA)) == [False] * len(OF_NAMES)
    lake.main.drop_table("db.new")


def test_namespaces(lake: Lake) -> None:
    def change() -> None:
        lake.main.create_namespace("new")
        lake.main.update_namespace_properties("other", updates={"p": "1"})

    assert try_each(lake, OF_NAMESPACES, lambda: lake.append("db.a")) == [True] * len(OF_NAMESPACES)
    assert try_each(lake, OF_NAMESPACES, change) == [False] * len(OF_NAMESPACES)
    lake.main.drop_namespace("new")


def test_several_tables_in_one_request(lake: Lake) -> None:
    """Iceberg's `transactions/commit` through the branch: both tables or none, also when it is committed."""
    calm, overtaken = lake.begin(), lake.begin()
    for one in (calm, overtaken):
        changes = [
            {
                "identifier": {"namespace": ["db"], "name": name},
                "requirements": [],
                "updates": [{"action": "set-properties", "updates": {"by": one.id}}],
            }
            for name in ("a", "b")
        ]
        path = f"{lake.uri}/iceberg/v1/{one.branch.replace('/', '%2F')}/transactions/commit"
        httpx.post(path, json={"table-changes": changes}).raise_for_status()
    assert lake.commits(calm)
    assert [lake.main.load_table(name).properties["by"] for name in ("db.a", "db.b")] == [calm.id] * 2
    with pytest.raises(TransactionConflict) as caught:
        lake.client.commit_transaction(overtaken.id)
    assert {str(conflict.key) for conflict in caught.value.conflicts} == {"db.a", "db.b"}
    assert [change.commit_hash for change in caught.value.changes] == [lake.client.get_reference("main").hash] * 2
