"""Format version 3 by Spark: row lineage, deletion vectors, its types, and the way up from version 2."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote, unquote

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_MERGE_ON_READ = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))
_LINEAGE = "SELECT id, _row_id, _last_updated_sequence_number FROM {} ORDER BY id"


@pytest.fixture
def branch(new_branch: Callable[[], str]) -> str:
    return quote(new_branch(), safe="")


@pytest.fixture
def spark(spark_on: Callable[..., SparkSession], branch: str, namespace: str) -> SparkSession:
    session = spark_on(prefix=branch)
    session.sql(f"CREATE NAMESPACE {namespace}")
    return session


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]


def test_row_lineage_and_deletion_vectors(
    spark: SparkSession, http: httpx.Client, connect: Callable[[str], RestCatalog], branch: str, namespace: str
) -> None:
    table = f"{namespace}.t"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version' = '3', {_MERGE_ON_READ})"
    )
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id, 'a' FROM RANGE(4)")
    assert rows(spark, _LINEAGE.format(table)) == [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1)]
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"UPDATE {table} SET name = 'b' WHERE id = 2")
    assert {row[0] for row in rows(spark, f"SELECT file_format FROM {table}.delete_files")} == {"PUFFIN"}
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT 7L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (7)"
    )
    found = rows(spark, _LINEAGE.format(table))
    assert found[:3] == [(0, 0, 1), (2, 2, 3), (3, 3, 1)]
    metadata = http.get(f"/v1/{branch}/namespaces/{namespace}/tables/t").json()["metadata"]
    assert found[3][1:] == (metadata["snapshots"][-1]["first-row-id"], 4)
    assert metadata["next-row-id"] == sum(snapshot["added-rows"] for snapshot in metadata["snapshots"])
    assert rows(spark, f"SELECT count(*) FROM {table} VERSION AS OF {metadata['snapshots'][0]['snapshot-id']}") == [
        (4,)
    ]
    read = connect(unquote(branch)).load_table(table)
    assert sorted(read.scan().to_arrow()["id"].to_pylist()) == [0, 2, 3, 7]


def test_types_and_defaults(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, v VARIANT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    spark.sql(f"INSERT INTO {table} SELECT 1, parse_json('{{\"a\": 7}}')")
    assert rows(spark, f"SELECT variant_get(v, '$.a', 'int') FROM {table}") == [(7,)]
    spark.sql(f"ALTER TABLE {table} ADD COLUMN n INT")
    assert rows(spark, f"SELECT id, n FROM {table}") == [(1, None)]


def test_upgrade(spark: SparkSession, namespace: str) -> None:
    """Rows from before have no ids until the next snapshot, which gives ids to all of them."""
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '1')")
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ id FROM RANGE(2)")
    for version in (2, 3):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '{version}')")
    assert rows(spark, f"SELECT id, _row_id FROM {table} ORDER BY id") == [(0, None), (1, None)]
    spark.sql(f"INSERT INTO {table} VALUES (2)")
    numbered = rows(spark, f"SELECT id, _row_id FROM {table} ORDER BY id")
    assert [row[0] for row in numbered] == [0, 1, 2]
    assert sorted(row[1] for row in numbered) == [0, 1, 2]  # type: ignore[type-var]
