"""Several tables in one commit: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import httpx
import msgspec
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableRequest, Table, TableIdentifier, Transaction

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.catalog.pyiceberg_requests import requirements_of
from nessie_ops.client import NessieClient
from tests.iceberg.contract.helpers import SCHEMA, batch, ids
from tests.iceberg.deployments import Deployment

CommitTables = Callable[[Sequence[Transaction]], None]


@pytest.fixture
def commit_tables(catalog: Catalog, deployment: Deployment) -> CommitTables:
    """PyIceberg's client of REST catalogs has no such call, so its transactions are sent by hand."""

    def post(transactions: Sequence[Transaction]) -> None:
        changes = [msgspec.json.decode(to_request(transaction).model_dump_json()) for transaction in transactions]
        address = f"{deployment.base_uri}/iceberg/v1/main/transactions/commit"
        answer = httpx.post(address, json={"table-changes": changes})
        if answer.status_code == 409:
            raise CommitFailedException(answer.text)
        assert (answer.status_code, answer.content) == (204, b"")

    return catalog.commit_tables if isinstance(catalog, NessieOpsCatalog) else post


def to_request(transaction: Transaction) -> CommitTableRequest:
    *namespace, name = transaction._table.name()
    identifier = TableIdentifier(namespace=namespace, name=name)
    return CommitTableRequest(
        identifier=identifier, requirements=requirements_of(transaction), updates=transaction._updates
    )


@pytest.fixture
def other(catalog: Catalog, db: str) -> Table:
    return catalog.create_table(f"{db}.other", SCHEMA)


def test_one_commit(
    catalog: Catalog, nessie: NessieClient, commit_tables: CommitTables, db: str, table: Table, other: Table
) -> None:
    before = nessie.get_reference("main").hash
    changes = [table.transaction(), other.transaction(), catalog.create_table_transaction(f"{db}.new", SCHEMA)]
    for number, change in enumerate(changes):
        change.append(batch(number))
    with changes[0].update_schema() as update:
        update.rename_column("name", "label")
    changes[1].set_properties({"team": "ops"})
    commit_tables(changes)
    assert [ids(catalog.load_table(f"{db}.{name}")) for name in ("t", "other", "new")] == [[0], [1], [2]]
    assert catalog.load_table(f"{db}.t").schema().column_names == ["id", "label"]
    assert catalog.load_table(f"{db}.other").properties["team"] == "ops"
    log = nessie.list_log(nessie.get_reference("main").hash, limit_hash=before)
    assert len([entry for entry in log if entry.commit_meta.hash != before]) == 1


def test_all_or_none(
    catalog: Catalog, nessie: NessieClient, commit_tables: CommitTables, db: str, table: Table, other: Table
) -> None:
    staged = catalog.create_table_transaction(f"{db}.new", SCHEMA)
    changes = [staged, other.transaction(), table.transaction()]
    for change in changes:
        change.append(batch(1))
    catalog.load_table(f"{db}.t").append(batch(2))
    before = nessie.get_reference("main").hash
    with pytest.raises(CommitFailedException, match="main"):
        commit_tables(changes)
    assert nessie.get_reference("main").hash == before
    assert (ids(catalog.load_table(f"{db}.t")), ids(catalog.load_table(f"{db}.other"))) == ([2], [])
    assert not catalog.table_exists(f"{db}.new")
