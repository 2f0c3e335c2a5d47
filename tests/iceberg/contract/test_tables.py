"""Tables: create, stage, load, register, rename, drop."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchIdentifierError,
    NoSuchNamespaceError,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from tests.iceberg.contract.helpers import SCHEMA, batch, ids
from tests.iceberg.deployments import Deployment

NESTED = Schema(
    NestedField(10, "id", LongType(), required=True),
    NestedField(20, "place", StructType(NestedField(21, "city", StringType(), required=False)), required=False),
    NestedField(30, "tags", ListType(31, StringType(), element_required=False), required=False),
    NestedField(40, "counts", MapType(41, StringType(), 42, LongType(), value_required=False), required=False),
    identifier_field_ids=[10],
)


def test_loaded_as_created(catalog: Catalog, db: str, deployment: Deployment) -> None:
    spec = PartitionSpec(PartitionField(10, 1000, BucketTransform(4), "by_id"))
    order = SortOrder(SortField(10, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))
    created = catalog.create_table(f"{db}.t", NESTED, partition_spec=spec, sort_order=order, properties={"n": 42})
    loaded = catalog.load_table(created.name())
    assert loaded == created
    assert loaded.name() == (db, "t")
    assert loaded.location().startswith(f"{deployment.warehouse}/{db}/t_")
    assert loaded.properties["n"] == "42"
    assert loaded.schema().find_field("place.city").field_type == StringType()
    assert loaded.schema().identifier_field_names() == {"id"}
    assert [field.name for field in loaded.spec().fields] == ["by_id"]
    assert [(field.direction, field.null_order) for field in loaded.sort_order().fields] == [
        (SortDirection.DESC, NullOrder.NULLS_LAST)
    ]
    assert (loaded.sort_order().order_id, loaded.metadata.current_snapshot_id) == (1, None)


@pytest.mark.parametrize("version", [1, 2])
def test_format_versions(catalog: Catalog, db: str, version: int) -> None:
    table = catalog.create_table(f"{db}.t", SCHEMA, properties={"format-version": str(version)})
    table.append(batch(1))
    table.delete("id = 1")
    table.append(batch(2))
    assert (table.format_version, ids(catalog.load_table(f"{db}.t"))) == (version, [2])


def test_a_location_of_its_own(catalog: Catalog, db: str, deployment: Deployment) -> None:
    properties = {"write.metadata.path": f"{deployment.warehouse}/meta/{db}"}
    table = catalog.create_table(f"{db}.t", SCHEMA, f"{deployment.warehouse}/own/{db}/", properties=properties)
    table.append(batch(1))
    assert table.location() == f"{deployment.warehouse}/own/{db}"
    assert table.metadata_location.startswith(f"{deployment.warehouse}/meta/{db}/00001-")
    for wrong in ("file:///elsewhere", f"{deployment.warehouse}/../elsewhere", "http://169.254.169.254/"):
        with pytest.raises(BadRequestError):
            catalog.create_table(f"{db}.u", SCHEMA, wrong)
        with pytest.raises(BadRequestError):
            catalog.create_table(f"{db}.u", SCHEMA, properties={"write.data.path": wrong})
    assert catalog.list_tables(db) == [(db, "t")]


def test_wrong_properties(catalog: Catalog, db: str) -> None:
    with pytest.raises(ValueError, match="None"):
        catalog.create_table(f"{db}.t", SCHEMA, properties={"a": None})
    with pytest.raises(ValueError, match="two"):
        catalog.create_table(f"{db}.t", SCHEMA, properties={"format-version": "two"})
    with pytest.raises(BadRequestError, match="format-version"):
        catalog.create_table(f"{db}.t", SCHEMA, properties={"format-version": "9"})
    assert not catalog.table_exists(f"{db}.t")


def test_names(catalog: Catalog, db: str, table: Table) -> None:
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{db}.t", SCHEMA)
    assert catalog.create_table_if_not_exists(f"{db}.t", SCHEMA) == table
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table((db, "nowhere", "t"), SCHEMA)
    for refused in ("t@", "t#", ".."):
        with pytest.raises(BadRequestError, match="name"):
            catalog.create_table((db, refused), SCHEMA)
    for call in (catalog.load_table, catalog.drop_table, catalog.table_exists):
        with pytest.raises(NoSuchIdentifierError):
            call("t")
    with pytest.raises(NoSuchTableError, match=rf"Table does not exist: {db}\.u"):
        catalog.load_table(f"{db}.u")
    assert not catalog.table_exists("nowhere.at.all")
    assert catalog.table_exists((db, "t@main"))


@pytest.mark.parametrize("name", ["größe", "数据 表", "a.b", "a/b", "50%", "UPPER"])
def test_names_of_any_kind(catalog: Catalog, db: str, name: str) -> None:
    catalog.create_table((db, name), SCHEMA).append(batch(1))
    assert catalog.list_tables(db) == [(db, name)]
    assert ids(catalog.rename_table((db, name), (db, f"{name}2"))) == [1]
    assert ids(catalog.load_table((db, f"{name}2"))) == [1]
    catalog.drop_table((db, f"{name}2"))
    assert catalog.list_tables(db) == []


@pytest.mark.parametrize("version", [1, 2])
def test_created_with_its_first_rows(catalog: Catalog, db: str, version: int) -> None:
    wider = pa.table({"id": [3], "name": ["c"], "more": [4]})
    change = catalog.create_table_transaction(f"{db}.t", SCHEMA, properties={"format-version": str(version)})
    change.append(batch(1, 2))
    with change.update_schema() as update:
        update.union_by_name(wider.schema)
    change.append(wider)
    assert catalog.list_tables(db) == []
    change.commit_transaction()
    table = catalog.load_table(f"{db}.t")
    assert (table.format_version, ids(table), len(table.snapshots())) == (version, [1, 2, 3], 2)
    assert [entry.snapshot_id for entry in table.history()] == [table.metadata.current_snapshot_id]


def test_two_creators(catalog: Catalog, db: str) -> None:
    first, second = (catalog.create_table_transaction(f"{db}.t", SCHEMA) for _ in range(2))
    first.append(batch(1))
    second.append(batch(2))
    first.commit_transaction()
    with pytest.raises(CommitFailedException):
        second.commit_transaction()
    assert ids(catalog.load_table(f"{db}.t")) == [1]


def test_renamed(catalog: Catalog, db: str, table: Table) -> None:
    table.append(batch(1))
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_table(f"{db}.t", (db, "nowhere", "t"))
    moved = catalog.rename_table(table.name(), f"{db}.u")
    assert (moved.metadata_location, moved.metadata.table_uuid) == (table.metadata_location, table.metadata.table_uuid)
    with pytest.raises(NoSuchTableError):
        table.refresh()
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(f"{db}.t", f"{db}.v")
    again = catalog.create_table(f"{db}.t", SCHEMA)
    assert again.metadata.table_uuid != table.metadata.table_uuid


def test_dropped_and_purged(catalog: Catalog, db: str, table: Table) -> None:
    catalog.create_table(f"{db}.u", SCHEMA)
    table.append(batch(1))
    catalog.purge_table(f"{db}.t")
    catalog.drop_table(f"{db}.u")
    for name in ("t", "u"):
        for call in (catalog.load_table, catalog.drop_table, catalog.purge_table):
            with pytest.raises(NoSuchTableError, match=f"Table does not exist: {db}.{name}"):
                call(f"{db}.{name}")
    assert table.io.new_input(table.metadata_location).exists(), "other branches may have it"


def test_a_commit_to_another_table_of_the_name(catalog: Catalog, db: str, table: Table) -> None:
    catalog.drop_table(f"{db}.t")
    with pytest.raises((NoSuchTableError, RESTError)):
        table.append(batch(1))
    catalog.create_table(f"{db}.t", SCHEMA)
    with pytest.raises(CommitFailedException, match="UUID"), table.transaction() as change:
        change.set_properties({"a": "b"})


def test_registered(catalog: Catalog, db: str, table: Table) -> None:
    table.append(batch(1))
    older, newer = table.metadata.metadata_log[-1].metadata_file, table.metadata_location
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table(f"{db}.t", older)
    assert ids(catalog.register_table(f"{db}.t", older, overwrite=True)) == []
    assert ids(catalog.register_table(f"{db}.copy", newer)) == [1]
    with pytest.raises((NoSuchNamespaceError, RESTError)):
        catalog.register_table((db, "nowhere", "t"), newer)
    with pytest.raises(BadRequestError):
        catalog.register_table(f"{db}.other", "file:///etc/passwd")
