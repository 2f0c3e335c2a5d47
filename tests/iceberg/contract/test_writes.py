"""Rows: appended, overwritten, deleted, merged by key; by one writer and by two."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo, GreaterThanOrEqual
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from tests.iceberg.contract.helpers import SCHEMA, batch, ids
from tests.iceberg.deployments import Deployment

KEYED = Schema(
    NestedField(1, "city", StringType(), required=False), NestedField(2, "people", LongType(), required=False)
)
BY_CITY = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "city"))


@pytest.fixture
def by_city(catalog: Catalog, db: str, cities: pa.Table) -> Table:
    table = catalog.create_table(f"{db}.cities", KEYED, partition_spec=BY_CITY)
    table.append(cities)
    return table


def people(table: Table) -> dict[str, int]:
    found = table.scan().to_arrow()
    return dict(zip(found["city"].to_pylist(), found["people"].to_pylist(), strict=True))


def test_appended(table: Table) -> None:
    table.append(batch(1, 2), snapshot_properties={"run": "7"})
    table.append(batch(3))
    first, second = table.snapshots()
    assert first.summary is not None
    assert (first.summary.operation, first.summary["added-records"], first.summary["run"]) == (
        Operation.APPEND,
        "2",
        "7",
    )
    assert (second.parent_snapshot_id, second.sequence_number) == (first.snapshot_id, 2)
    assert ids(table, row_filter=GreaterThanOrEqual("id", 2)) == [2, 3]
    assert table.scan(limit=1).to_arrow().num_rows == 1
    assert table.scan(selected_fields=("name",)).to_arrow().column_names == ["name"]
    assert table.scan().count() == 3


def test_overwritten_and_deleted(catalog: Catalog, table: Table) -> None:
    table.append(batch(1, 2, 3))
    table.overwrite(batch(9), overwrite_filter="id >= 2")
    assert ids(table) == [1, 9]
    table.delete("id = 1")
    assert ids(table) == [9]
    table.overwrite(batch(5))
    assert ids(catalog.load_table(table.name())) == [5]


def test_upserted(table: Table) -> None:
    table.append(batch(1, 2))
    outcome = table.upsert(batch(2, 3, name="new"), join_cols=["id"])
    assert (outcome.rows_updated, outcome.rows_inserted) == (1, 1)
    assert sorted(table.scan().to_arrow()["name"].to_pylist()) == ["n1", "new2", "new3"]
    again = table.upsert(batch(2, 3, name="new"), join_cols=["id"])
    assert (again.rows_updated, again.rows_inserted) == (0, 0)


def test_partitions(catalog: Catalog, by_city: Table) -> None:
    assert len(list(by_city.scan(row_filter=EqualTo("city", "大阪")).plan_files())) == 1
    by_city.dynamic_partition_overwrite(pa.table({"city": ["Ulm"], "people": [130]}))
    by_city.delete(EqualTo("city", "Köln"))
    assert people(catalog.load_table(by_city.name())) == {"Ulm": 130, "大阪": 2753}
    assert by_city.inspect.partitions().num_rows == 2


def test_files_that_were_there(table: Table, deployment: Deployment, namespace: str) -> None:
    rows = f"{deployment.warehouse}/foreign-{namespace}/rows.parquet"
    with table.io.new_output(rows).create() as file:
        parquet.write_table(batch(7, 8), file)
    table.add_files([rows])
    assert ids(table) == [7, 8]


def test_manifests_merged(catalog: Catalog, db: str) -> None:
    properties = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
    table = catalog.create_table(f"{db}.m", SCHEMA, properties=properties)
    for number in range(4):
        table.append(batch(number))
    assert table.inspect.manifests().num_rows == 1
    assert ids(table) == [0, 1, 2, 3]


def test_many_changes_in_one_commit(catalog: Catalog, table: Table) -> None:
    table.append(batch(1, 2))
    with table.transaction() as change:
        change.delete("id = 1")
        change.append(batch(3))
        with change.update_schema() as update:
            update.add_column("more", LongType())
        change.append(pa.table({"id": [4], "name": ["d"], "more": [5]}))
        change.set_properties({"team": "ops"})
    loaded = catalog.load_table(table.name())
    assert ids(loaded) == [2, 3, 4]
    assert len(loaded.metadata.metadata_log) == 2
    assert loaded.properties["team"] == "ops"


def test_a_block_that_fails_changes_nothing(catalog: Catalog, table: Table) -> None:
    with pytest.raises(ZeroDivisionError), table.transaction() as change:
        change.append(batch(1))
        raise ZeroDivisionError
    assert ids(catalog.load_table(table.name())) == []


def test_an_append_to_a_table_that_grew(catalog: Catalog, table: Table) -> None:
    """PyIceberg is told that the commit failed, and tries again on what the table is by then."""
    other = catalog.load_table(table.name())
    table.append(batch(1))
    other.append(batch(2))
    assert ids(other) == ids(table.refresh()) == [1, 2]
    assert [snapshot.sequence_number for snapshot in table.snapshots()] == [1, 2]


def test_two_changes_of_the_schema(catalog: Catalog, table: Table) -> None:
    other = catalog.load_table(table.name())
    with table.update_schema() as update:
        update.add_column("a", LongType())
    with pytest.raises(CommitFailedException, match="expected 0 != 1"), other.update_schema() as update:
        update.add_column("b", LongType())
    assert catalog.load_table(table.name()).schema().column_names == ["id", "name", "a"]


def test_two_changes_of_the_partitions(catalog: Catalog, by_city: Table) -> None:
    other = catalog.load_table(by_city.name())
    with by_city.update_spec() as update:
        update.remove_field("city")
    with pytest.raises(CommitFailedException), other.update_spec() as update:
        update.add_field("people", BucketTransform(4), "bucket")
    assert catalog.load_table(by_city.name()).spec().fields == ()
