"""Spark SQL on a branch of the catalog: DDL, DML, MERGE, views, and the evolution of schemas and partitions."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from tests.iceberg.sql import column, error_of, one, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def sales(spark: SparkSession, spark_db: str) -> str:
    """A table by place, of three rows in two places."""
    spark.sql(f"CREATE TABLE {spark_db}.sales (id INT, place STRING, amount INT) USING iceberg PARTITIONED BY (place)")
    spark.sql(f"INSERT INTO {spark_db}.sales VALUES (1, 'Ulm', 10), (2, 'Ulm', 20), (3, 'Bonn', 30)")
    return f"{spark_db}.sales"


def sold(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return rows(spark, f"SELECT id, place, amount FROM {table} ORDER BY id")


def test_every_type(spark: SparkSession, spark_db: str) -> None:
    spark.sql(
        f"CREATE TABLE {spark_db}.types (flag BOOLEAN, small INT, large BIGINT, half FLOAT, full DOUBLE, "
        "price DECIMAL(9, 2), name STRING NOT NULL COMMENT 'who', day DATE, moment TIMESTAMP, wall TIMESTAMP_NTZ, "
        "raw BINARY, list ARRAY<STRUCT<a: INT, b: STRING>>, map MAP<STRING, ARRAY<BIGINT>>, "
        "deep STRUCT<x: STRUCT<y: DATE>>) USING iceberg COMMENT 'all of them' TBLPROPERTIES ('team' = 'ops')"
    )
    spark.sql(
        f"INSERT INTO {spark_db}.types SELECT true, 1, 2L, 0.5F, 0.25D, 12.34, 'ü', DATE'2024-02-29', "
        "TIMESTAMP'2024-02-29 12:00:00Z', TIMESTAMP_NTZ'2024-02-29 13:00:00', X'00FF', "
        "array(named_struct('a', 1, 'b', NULL)), map('k', array(3L, NULL)), "
        "named_struct('x', named_struct('y', DATE'1969-12-31'))"
    )
    values = one(spark, f"SELECT * FROM {spark_db}.types")
    moment = one(spark, f"SELECT moment = TIMESTAMP'2024-02-29 12:00:00Z' FROM {spark_db}.types")[0]
    assert values.asDict(recursive=True) | {"moment": moment} == {
        "flag": True,
        "small": 1,
        "large": 2,
        "half": 0.5,
        "full": 0.25,
        "price": Decimal("12.34"),
        "name": "ü",
        "day": date(2024, 2, 29),
        "moment": True,
        "wall": datetime(2024, 2, 29, 13),
        "raw": b"\x00\xff",
        "list": [{"a": 1, "b": None}],
        "map": {"k": [3, None]},
        "deep": {"x": {"y": date(1969, 12, 31)}},
    }
    described = {row[0]: row[1:] for row in rows(spark, f"DESCRIBE TABLE EXTENDED {spark_db}.types")}
    assert described["name"] == ("string", "who")
    assert described["Comment"][0] == "all of them"
    assert "CANNOT_FIND_DATA" in error_of(spark, f"INSERT INTO {spark_db}.types (flag) VALUES (true)")


def test_create_like_a_query(spark: SparkSession, spark_db: str, sales: str) -> None:
    spark.sql(
        f"CREATE TABLE {spark_db}.big USING iceberg PARTITIONED BY (bucket(4, id), truncate(place, 1)) "
        f"TBLPROPERTIES ('a' = '1') AS SELECT * FROM {sales} WHERE amount > 10"
    )
    assert sold(spark, f"{spark_db}.big") == [(2, "Ulm", 20), (3, "Bonn", 30)]
    assert one(spark, f"SHOW TBLPROPERTIES {spark_db}.big ('a')")[1] == "1"
    spark.sql(f"CREATE OR REPLACE TABLE {spark_db}.big USING iceberg AS SELECT id FROM {sales}")
    assert column(spark, f"SELECT count(*) FROM {spark_db}.big.snapshots") == [2]
    first = column(spark, f"SELECT snapshot_id FROM {spark_db}.big.snapshots ORDER BY committed_at")[0]
    assert sold(spark, f"{spark_db}.big VERSION AS OF {first}") == [(2, "Ulm", 20), (3, "Bonn", 30)]
    assert "CREATE TABLE" in str(one(spark, f"SHOW CREATE TABLE {spark_db}.big")[0])
    spark.sql(f"TRUNCATE TABLE {spark_db}.big")
    assert rows(spark, f"SELECT * FROM {spark_db}.big") == []
    spark.sql(f"DROP TABLE {spark_db}.big")
    assert "TABLE_OR_VIEW_NOT_FOUND" in error_of(spark, f"SELECT * FROM {spark_db}.big")


def test_overwrites(spark: SparkSession, sales: str) -> None:
    spark.sql(f"INSERT OVERWRITE {sales} PARTITION (place = 'Ulm') SELECT 4, 40")
    assert sold(spark, sales) == [(3, "Bonn", 30), (4, "Ulm", 40)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql(f"INSERT OVERWRITE {sales} VALUES (5, 'Bonn', 50), (6, 'Köln', 60)")
    assert sold(spark, sales) == [(4, "Ulm", 40), (5, "Bonn", 50), (6, "Köln", 60)]
    spark.sql(f"INSERT INTO {sales} REPLACE WHERE place = 'Ulm' SELECT 7, 'Ulm', 70")
    spark.sql(f"INSERT INTO {sales} BY NAME SELECT 'Ulm' AS place, 80 AS amount, 8 AS id")
    assert sold(spark, sales) == [(5, "Bonn", 50), (6, "Köln", 60), (7, "Ulm", 70), (8, "Ulm", 80)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    spark.sql(f"INSERT OVERWRITE {sales} VALUES (9, 'Ulm', 90)")
    assert sold(spark, sales) == [(9, "Ulm", 90)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_merged_updated_deleted(spark: SparkSession, sales: str, mode: str) -> None:
    settings = ", ".join(f"'write.{verb}.mode' = '{mode}'" for verb in ("merge", "update", "delete"))
    spark.sql(f"ALTER TABLE {sales} SET TBLPROPERTIES ({settings})")
    spark.sql(
        f"MERGE INTO {sales} old USING (SELECT * FROM VALUES (1, 'Ulm', 0), (2, 'Ulm', 21), (4, 'Köln', 40), "
        "(5, 'Köln', NULL) AS new(id, place, amount)) new ON old.id = new.id "
        "WHEN MATCHED AND new.amount = 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET old.amount = new.amount "
        "WHEN NOT MATCHED AND new.amount IS NOT NULL THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET old.amount = -old.amount"
    )
    assert sold(spark, sales) == [(2, "Ulm", 21), (3, "Bonn", -30), (4, "Köln", 40)]
    spark.sql(
        f"UPDATE {sales} SET amount = amount + 1, place = 'Ulm' WHERE id IN (SELECT id FROM {sales} WHERE id > 3)"
    )
    spark.sql(f"INSERT INTO {sales} SELECT id + 10, place, amount FROM {sales} WHERE place = 'Ulm'")
    spark.sql(f"DELETE FROM {sales} WHERE amount = 41 AND id > 10")
    assert sold(spark, sales) == [(2, "Ulm", 21), (3, "Bonn", -30), (4, "Ulm", 41), (12, "Ulm", 21)]
    has_deletes = column(spark, f"SELECT count(*) > 0 FROM {sales}.delete_files")
    assert has_deletes == [mode == "merge-on-read"]
    twice = f"MERGE INTO {sales} o USING (SELECT 2 AS id UNION ALL SELECT 2) n ON o.id = n.id "
    assert "MERGE_CARDINALITY_VIOLATION" in error_of(spark, f"{twice} WHEN MATCHED THEN UPDATE SET amount = 0")
    spark.sql(f"DELETE FROM {sales} WHERE place = 'Ulm'")
    assert sold(spark, sales) == [(3, "Bonn", -30)]


def test_schemas_evolve(spark: SparkSession, spark_db: str) -> None:
    table = f"{spark_db}.s"
    spark.sql(
        f"CREATE TABLE {table} (id INT NOT NULL, size FLOAT, at STRUCT<x: INT, y: INT>, n DECIMAL(4, 1)) USING iceberg"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 0.5, named_struct('x', 1, 'y', 2), 1.5)")
    first = one(spark, f"SELECT snapshot_id FROM {table}.snapshots")[0]
    for change in (
        "ADD COLUMNS (label STRING COMMENT 'shown' AFTER id, tags ARRAY<STRUCT<k: STRING>>)",
        "ADD COLUMN at.z DOUBLE FIRST",
        "ADD COLUMN tags.element.v INT",
        "ALTER COLUMN size TYPE DOUBLE",
        "ALTER COLUMN at.x TYPE BIGINT",
        "ALTER COLUMN n TYPE DECIMAL(8, 1)",
        "RENAME COLUMN at.y TO why",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN n COMMENT 'how many'",
        "ALTER COLUMN n FIRST",
        "DROP COLUMN size",
        "ADD COLUMN size STRING",  # the name again, which means another column
    ):
        spark.sql(f"ALTER TABLE {table} {change}")
    spark.sql(
        f"INSERT INTO {table} BY NAME SELECT 12345.5 AS n, 2 AS id, 'b' AS label, 'XL' AS size, "
        "named_struct('z', 0.5D, 'x', 5000000000, 'why', 3) AS at, array(named_struct('k', 'a', 'v', 1)) AS tags"
    )
    new, old = one(spark, f"SELECT * FROM {table} WHERE id = 2"), one(spark, f"SELECT * FROM {table} WHERE id = 1")
    assert list(new.asDict()) == ["n", "id", "label", "at", "tags", "size"]
    assert old.asDict(recursive=True) == {
        "n": Decimal("1.5"),
        "id": 1,
        "label": None,
        "at": {"z": None, "x": 1, "why": 2},
        "tags": None,
        "size": None,
    }
    assert (new.at.x, new.size, new.tags[0].v) == (5_000_000_000, "XL", 1)
    assert list(one(spark, f"SELECT * FROM {table} VERSION AS OF {first}").asDict()) == ["id", "size", "at", "n"]
    assert "LONG" in error_of(spark, f"ALTER TABLE {table} ALTER COLUMN at.x TYPE INT").upper().replace(
        "BIGINT", "LONG"
    )


def test_partitions_evolve(spark: SparkSession, spark_db: str) -> None:
    table = f"{spark_db}.p"
    spark.sql(f"CREATE TABLE {table} (id INT, place STRING, at TIMESTAMP) USING iceberg")
    changes = (
        "ADD PARTITION FIELD months(at)",
        "REPLACE PARTITION FIELD months(at) WITH days(at) AS day",
        "ADD PARTITION FIELD bucket(2, id) AS shard",
        "DROP PARTITION FIELD day",
        "ADD PARTITION FIELD truncate(place, 1)",
        "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY place DESC NULLS LAST, id",
        "ADD PARTITION FIELD months(at)",
        "WRITE UNORDERED",
    )
    for number, change in enumerate(("SET IDENTIFIER FIELDS place", *changes)):
        if "IDENTIFIER" not in change:
            spark.sql(f"ALTER TABLE {table} {change}")
        spark.sql(f"INSERT INTO {table} VALUES ({number}, 'U{number % 2}', TIMESTAMP'2024-01-31 12:00:00Z')")
    assert column(spark, f"SELECT id FROM {table} ORDER BY id") == list(range(9))
    assert column(spark, f"SELECT id FROM {table} WHERE place = 'U1' AND id > 2 ORDER BY id") == [3, 5, 7]
    assert set(column(spark, f"SELECT spec_id FROM {table}.files")) == {0, 1, 2, 3, 4, 5, 6}
    assert column(spark, f"SELECT sum(record_count) FROM {table}.partitions") == [9]
    spark.sql(f"UPDATE {table} SET place = 'V' WHERE id BETWEEN 2 AND 6")
    spark.sql(f"DELETE FROM {table} WHERE place LIKE 'U%'")
    assert column(spark, f"SELECT id FROM {table} ORDER BY id") == [2, 3, 4, 5, 6]


def test_identifier_fields(spark: SparkSession, spark_db: str) -> None:
    spark.sql(f"CREATE TABLE {spark_db}.keyed (id INT NOT NULL, n INT) USING iceberg")
    spark.sql(f"ALTER TABLE {spark_db}.keyed SET IDENTIFIER FIELDS id")
    assert "id" in error_of(spark, f"ALTER TABLE {spark_db}.keyed DROP COLUMN id")
    spark.sql(f"ALTER TABLE {spark_db}.keyed DROP IDENTIFIER FIELDS id")
    spark.sql(f"ALTER TABLE {spark_db}.keyed DROP COLUMN id")
    assert rows(spark, f"SELECT * FROM {spark_db}.keyed") == []


def test_views(spark: SparkSession, spark_db: str, sales: str) -> None:
    spark.sql(
        f"CREATE VIEW {spark_db}.dear (number COMMENT 'its id', town) COMMENT 'the dear ones' "
        f"TBLPROPERTIES ('a' = '1') AS WITH big AS (SELECT id, place FROM {sales} WHERE amount >= 20) SELECT * FROM big"
    )
    spark.sql(f"USE {spark_db}")
    spark.sql("CREATE VIEW towns AS SELECT town, count(*) AS n FROM dear GROUP BY town")
    spark.sql("USE lake")
    assert rows(spark, f"SELECT * FROM {spark_db}.towns ORDER BY town") == [("Bonn", 1), ("Ulm", 1)]
    spark.sql(f"INSERT INTO {sales} VALUES (4, 'Ulm', 99)")
    assert rows(spark, f"SELECT * FROM {spark_db}.towns ORDER BY town") == [("Bonn", 1), ("Ulm", 2)]
    described = {row[0]: row[1:] for row in rows(spark, f"DESCRIBE EXTENDED {spark_db}.dear")}
    assert described["number"] == ("int", "its id")
    assert "the dear ones" in str(one(spark, f"SHOW CREATE TABLE {spark_db}.dear")[0])
    assert sorted(row.viewName for row in spark.sql(f"SHOW VIEWS IN {spark_db}").collect()) == ["dear", "towns"]
    spark.sql(f"CREATE VIEW IF NOT EXISTS {spark_db}.dear AS SELECT 1 AS other")
    spark.sql(
        f"CREATE OR REPLACE VIEW {spark_db}.dear (number, town) AS SELECT id, upper(place) FROM {sales} WHERE id = 1"
    )
    assert rows(spark, f"SELECT * FROM {spark_db}.towns") == [("ULM", 1)]
    for taken in (f"CREATE VIEW {sales} AS SELECT 1 AS n", f"CREATE TABLE {spark_db}.dear (n INT) USING iceberg"):
        assert "ALREADY EXISTS" in error_of(spark, taken).upper().replace("_", " ")
    spark.sql(f"DROP VIEW {spark_db}.dear")
    assert "dear" in error_of(spark, f"SELECT * FROM {spark_db}.towns")
