"""Schema, partitions, sort order, format version and properties: changed, and old rows still read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyiceberg.table.sorting import NullOrder
from pyiceberg.table.update import SetLocationUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType, NestedField, StringType, StructType

from tests.iceberg.contract.helpers import SCHEMA, batch, ids
from tests.iceberg.deployments import Deployment


def test_columns(catalog: Catalog, table: Table) -> None:
    table.append(batch(1))
    with table.update_schema() as update:
        update.add_column("place", StructType(NestedField(0, "city", StringType(), required=False)), doc="where")
        update.rename_column("name", "label")
        update.move_first("name")
    table.append(pa.table({"label": ["b"], "id": [2], "place": [{"city": "Ulm"}]}))
    with table.update_schema() as update:
        update.delete_column(("place", "city"))
        update.add_column(("place", "zip"), IntegerType())
    with table.update_schema() as update:
        update.add_column(("place", "city"), StringType())
    found = catalog.load_table(table.name())
    assert [field.name for field in found.schema().fields] == ["label", "id", "place"]
    assert found.scan(row_filter="id = 2").to_arrow()["place"].to_pylist() == [{"zip": None, "city": None}]
    assert sorted(found.schemas()) == [0, 1, 2, 3]
    assert found.metadata.last_column_id == 6


def test_types_widen(catalog: Catalog, db: str) -> None:
    table = catalog.create_table(f"{db}.w", pa.schema([("i", pa.int32()), ("f", pa.float32())]))
    table.append(pa.table({"i": pa.array([1], pa.int32()), "f": pa.array([0.5], pa.float32())}))
    assert [field.field_type for field in table.schema().fields] == [IntegerType(), FloatType()]
    with table.update_schema() as update:
        update.update_column("i", LongType())
        update.update_column("f", DoubleType())
    assert catalog.load_table(table.name()).scan().to_arrow().to_pylist() == [{"i": 1, "f": 0.5}]
    with pytest.raises(Exception, match="int"), table.update_schema() as update:
        update.update_column("i", IntegerType())


def test_an_older_schema_again(catalog: Catalog, table: Table) -> None:
    """A schema that the table had gets its old id back."""
    with table.update_schema() as update:
        update.add_column("more", LongType())
    with table.update_schema() as update:
        update.delete_column("more")
    assert catalog.load_table(table.name()).metadata.current_schema_id == 0


def test_identifiers_and_requirements(catalog: Catalog, table: Table) -> None:
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
        update.set_identifier_fields("id")
    loaded = catalog.load_table(table.name())
    assert loaded.schema().identifier_field_names() == {"id"}
    loaded.append(batch(1).cast(pa.schema([pa.field("id", pa.int64(), nullable=False), SCHEMA.field("name")])))
    assert loaded.upsert(batch(1, name="x").cast(loaded.schema().as_arrow())).rows_updated == 1


def test_partitions(catalog: Catalog, table: Table) -> None:
    table.append(batch(1))
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform(), "part")
    table.append(batch(2))
    with table.update_spec() as update:
        update.rename_field("part", "spread")
        update.add_field("name", IdentityTransform(), "label")
    with table.update_spec() as update:
        update.remove_field("spread")
    table.append(batch(3))
    loaded = catalog.load_table(table.name())
    assert [field.name for field in loaded.spec().fields] == ["label"]
    assert sorted(loaded.specs()) == [0, 1, 2, 3]
    assert loaded.metadata.last_partition_id == 1001
    assert ids(loaded, row_filter="id >= 2") == [2, 3]


def test_sort_order(catalog: Catalog, table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("name", IdentityTransform(), NullOrder.NULLS_FIRST)
    with table.update_sort_order() as update:
        update.desc("id", IdentityTransform(), NullOrder.NULLS_LAST)
    loaded = catalog.load_table(table.name())
    assert [field.source_id for field in loaded.sort_order().fields] == [1]
    assert sorted(loaded.sort_orders()) == [0, 1, 2]


def test_format_version(catalog: Catalog, db: str) -> None:
    table = catalog.create_table(f"{db}.v", SCHEMA, properties={"format-version": "1"})
    table.append(batch(1))
    with table.transaction() as change:
        change.upgrade_table_version(2)
    table.append(batch(2))
    loaded = catalog.load_table(table.name())
    assert (loaded.format_version, ids(loaded)) == (2, [1, 2])


def test_properties_and_location(catalog: Catalog, table: Table, deployment: Deployment, namespace: str) -> None:
    with table.transaction() as change:
        change.set_properties({"a": "1", "b": "ü"})
        change.remove_properties("a")
    moved = SetLocationUpdate(
        location=f"{deployment.warehouse}/moved/{namespace}"
    )  # PyIceberg 0.12 has no method for it
    catalog.commit_table(table, (), (moved,))
    table.refresh().append(batch(1))
    loaded = catalog.load_table(table.name())
    assert "a" not in loaded.properties
    assert (loaded.properties["b"], loaded.properties["gc.enabled"]) == ("ü", "false")
    assert loaded.metadata_location.startswith(f"{deployment.warehouse}/moved/{namespace}/metadata/")
    assert ids(loaded) == [1]
