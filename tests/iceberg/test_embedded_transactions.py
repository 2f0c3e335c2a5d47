"""Transactions over many tables with PyIceberg on the store: they read what they wrote, and are one commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import BadRequestError, CommitFailedException, NoSuchTableError

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.model import Isolation, ReferenceType

SCHEMA = pa.schema([("id", pa.int64())])
READ_COMMITTED, REPEATED_READ, SERIALIZABLE = Isolation


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(catalog: NessieOpsCatalog, name: str) -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[NessieOpsCatalog]:
    """The tables bank.source with a row, and bank.target with none."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{tmp_path}/warehouse"}
    with NessieOpsCatalog("lake", **properties) as catalog:
        catalog.create_namespace("bank")
        catalog.create_table("bank.source", SCHEMA).append(rows(1))
        catalog.create_table("bank.target", SCHEMA)
        yield catalog


def log(catalog: NessieOpsCatalog) -> list[str]:
    versions = catalog.version_store
    return [entry.commit_meta.message for entry in versions.list_log(versions.get_reference("main").hash)]


def move(tx: NessieOpsCatalog) -> None:
    """All rows of source into target."""
    tx.load_table("bank.target").append(tx.load_table("bank.source").scan().to_arrow())
    tx.load_table("bank.source").delete("id >= 0")


def test_all_or_nothing_and_its_own_writes(catalog: NessieOpsCatalog) -> None:
    before = log(catalog)
    with catalog.transaction(on="main", author="ann") as tx:
        move(tx)
        table = tx.create_table("bank.audit", SCHEMA)
        table.append(rows(7))
        table.append(rows(8))
        tx.rename_table("bank.audit", "bank.checked")
        assert (ids(tx, "bank.source"), ids(tx, "bank.target"), ids(tx, "bank.checked")) == ([], [1], [7, 8])
        assert tx.list_tables("bank") == [("bank", name) for name in ("checked", "source", "target")]
        assert not tx.table_exists("bank.audit") and not catalog.table_exists("bank.checked")
        assert (ids(catalog, "bank.source"), ids(catalog, "bank.target"), log(catalog)) == ([1], [], before)
    assert (ids(catalog, "bank.source"), ids(catalog, "bank.target"), ids(catalog, "bank.checked")) == ([], [1], [7, 8])
    [message, *others] = log(catalog)
    assert others == before and "bank.target" in message and "create table bank.audit" in message


def test_given_up(catalog: NessieOpsCatalog) -> None:
    before = log(catalog)
    with pytest.raises(ZeroDivisionError), catalog.transaction() as tx:
        tx.drop_table("bank.source")
        with pytest.raises(NoSuchTableError):
            tx.load_table("bank.source")
        raise ZeroDivisionError
    assert log(catalog) == before and ids(catalog, "bank.source") == [1]


@pytest.mark.parametrize("level", Isolation)
def test_a_move_with_a_writer_beside_it(catalog: NessieOpsCatalog, level: Isolation) -> None:
    """True before and after: what is written to source meanwhile shows in target, stays in source, or is refused."""

    def copy() -> None:
        with catalog.transaction(isolation=level) as tx:
            tx.load_table("bank.target").append(tx.load_table("bank.source").scan().to_arrow())
            if not done:
                catalog.load_table("bank.source").append(rows(2))
                done.append(True)
            seen.append(ids(tx, "bank.source"))

    done: list[bool] = []
    seen: list[list[int]] = []
    if level is SERIALIZABLE:
        with pytest.raises(CommitFailedException, match=r"conflicts with others' commits to main: .*'bank\.source'"):
            copy()
        assert ids(catalog, "bank.target") == []
    copy()
    assert seen[0] == ([1, 2] if level is READ_COMMITTED else [1])
    assert ids(catalog, "bank.target") == ([1, 2] if level is SERIALIZABLE else [1])
    with pytest.raises(CommitFailedException, match=r"'bank\.source'"), catalog.transaction(isolation=level) as tx:
        move(tx)
        catalog.load_table("bank.source").append(rows(3))
    assert ids(catalog, "bank.source") == [1, 2, 3]


def test_what_it_is_not_about(catalog: NessieOpsCatalog) -> None:
    versions = catalog.version_store
    versions.create_reference(ReferenceType.BRANCH, "dev", versions.get_reference("main").hash)
    start = versions.get_reference("main").hash
    with catalog.transaction(on="dev") as tx:
        tx.load_table("bank.target").append(rows(5))
        assert (ids(tx.on("main"), "bank.target"), ids(tx.on(f"main@{start}"), "bank.target")) == ([], [])
        with pytest.raises(BadRequestError, match="the transaction is on dev; it cannot write to main"):
            tx.on("main").load_table("bank.target").append(rows(6))
    assert (ids(catalog.on("dev"), "bank.target"), ids(catalog, "bank.target")) == ([5], [])
    with pytest.raises(BadRequestError), catalog.transaction(on="nowhere"):
        pass
