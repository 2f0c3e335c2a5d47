"""Spark as a client: every kind of statement, on the default branch and on a branch with a slash in its name."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from tests.iceberg.sql import error_of, one, rows

pytestmark = pytest.mark.spark

SparkOn = Callable[..., SparkSession]


@pytest.fixture(params=["main", "prefix", "path"])
def spark(
    request: pytest.FixtureRequest, spark_on: SparkOn, new_branch: Callable[[], str], base_uri: str
) -> SparkSession:
    """A session on main; on a new branch by the property `prefix`; on a new branch by the path of the URI."""
    if request.param == "main":
        return spark_on()
    branch = quote(new_branch(), safe="")
    return spark_on(prefix=branch) if request.param == "prefix" else spark_on(uri=f"{base_uri}/iceberg/{branch}")


@pytest.fixture
def db(spark: SparkSession, namespace: str) -> str:
    spark.sql(f"CREATE NAMESPACE {namespace}")
    return namespace


@pytest.fixture
def flights(spark: SparkSession, db: str) -> str:
    """A partitioned table with two rows."""
    spark.sql(
        f"CREATE TABLE {db}.flights (id BIGINT NOT NULL, carrier STRING COMMENT 'who flies', at TIMESTAMP) "
        "USING iceberg PARTITIONED BY (month(at))"
    )
    spark.sql(f"INSERT INTO {db}.flights VALUES (1, 'UA', TIMESTAMP'2013-01-01'), (2, 'AA', TIMESTAMP'2013-02-01')")
    return f"{db}.flights"


def test_namespaces(spark: SparkSession, db: str) -> None:
    spark.sql(f"CREATE NAMESPACE {db}.inner COMMENT 'nested'")
    assert rows(spark, f"SHOW NAMESPACES IN {db}") == [(f"{db}.inner",)]
    assert (db,) in rows(spark, "SHOW NAMESPACES")
    spark.sql(f"ALTER NAMESPACE {db}.inner SET PROPERTIES ('team' = 'ops')")
    described = dict(rows(spark, f"DESCRIBE NAMESPACE EXTENDED {db}.inner"))
    assert described["Comment"] == "nested"
    assert "(team,ops)" in described["Properties"]
    assert "NamespaceNotEmptyException" in error_of(spark, f"DROP NAMESPACE {db}")
    spark.sql(f"DROP NAMESPACE {db}.inner")
    spark.sql(f"DROP NAMESPACE {db}")
    assert (db,) not in rows(spark, "SHOW NAMESPACES")


def test_merge_update_delete(spark: SparkSession, flights: str) -> None:
    spark.sql(
        f"MERGE INTO {flights} old USING (SELECT 2 AS id, 'DL' AS carrier, TIMESTAMP'2013-02-01' AS at "
        "UNION ALL SELECT 3, 'B6', TIMESTAMP'2013-02-02') new ON old.id = new.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, f"SELECT id, carrier FROM {flights} ORDER BY id") == [(1, "UA"), (2, "DL"), (3, "B6")]
    spark.sql(f"UPDATE {flights} SET carrier = 'WN' WHERE id = 3")
    spark.sql(f"DELETE FROM {flights} WHERE id = 1")
    assert rows(spark, f"SELECT id, carrier FROM {flights} ORDER BY id") == [(2, "DL"), (3, "WN")]


def test_ctas_and_replace(spark: SparkSession, db: str, flights: str) -> None:
    spark.sql(f"CREATE TABLE {db}.copy USING iceberg AS SELECT id, carrier FROM {flights}")
    assert rows(spark, f"SELECT * FROM {db}.copy ORDER BY id") == [(1, "UA"), (2, "AA")]
    spark.sql(f"CREATE OR REPLACE TABLE {db}.copy USING iceberg AS SELECT id FROM {flights}")
    assert rows(spark, f"SELECT * FROM {db}.copy ORDER BY id") == [(1,), (2,)]
    spark.sql(f"REPLACE TABLE {db}.copy USING iceberg AS SELECT carrier FROM {flights} WHERE id = 1")
    assert rows(spark, f"SELECT * FROM {db}.copy") == [("UA",)]
    spark.sql(f"CREATE OR REPLACE TABLE {db}.copy (n INT) USING iceberg")
    assert rows(spark, f"SELECT * FROM {db}.copy") == []
    spark.sql(f"CREATE OR REPLACE TABLE {db}.fresh USING iceberg AS SELECT 1 AS n")
    assert rows(spark, f"SELECT * FROM {db}.fresh") == [(1,)]
    spark.sql(f"CREATE TABLE IF NOT EXISTS {db}.fresh USING iceberg AS SELECT 2 AS n")
    assert "already exists" in error_of(spark, f"CREATE TABLE {db}.fresh (n INT) USING iceberg").lower()


def test_alter_table(spark: SparkSession, flights: str) -> None:
    for change in (
        "ADD COLUMN delay INT",
        "RENAME COLUMN carrier TO airline",
        "ALTER COLUMN delay TYPE BIGINT",
        "ADD COLUMN gone INT",
        "DROP COLUMN gone",
        "ADD PARTITION FIELD bucket(4, id)",
        "DROP PARTITION FIELD bucket(4, id)",
        "ADD PARTITION FIELD bucket(4, id)",  # the same spec again
        "WRITE ORDERED BY airline",
        "SET TBLPROPERTIES ('team' = 'ops', 'other' = '1')",
        "UNSET TBLPROPERTIES ('other')",
        "UNSET TBLPROPERTIES IF EXISTS ('never')",
    ):
        spark.sql(f"ALTER TABLE {flights} {change}")
    spark.sql(f"INSERT INTO {flights} VALUES (3, 'B6', TIMESTAMP'2013-03-01', 7)")
    assert rows(spark, f"SELECT id, airline, delay FROM {flights} ORDER BY id") == [
        (1, "UA", None),
        (2, "AA", None),
        (3, "B6", 7),
    ]
    properties = dict(rows(spark, f"SHOW TBLPROPERTIES {flights}"))
    assert properties["team"] == "ops"
    assert properties["gc.enabled"] == "false"
    assert properties["format-version"] == "2"
    assert "other" not in properties
    assert {row.spec_id for row in spark.sql(f"SELECT spec_id FROM {flights}.files").collect()} == {0, 1}


def test_views(spark: SparkSession, db: str, flights: str) -> None:
    spark.sql(f"CREATE VIEW {db}.late AS SELECT id FROM {flights}")
    assert rows(spark, f"SELECT * FROM {db}.late ORDER BY id") == [(1,), (2,)]
    spark.sql(f"CREATE OR REPLACE VIEW {db}.late AS SELECT id, carrier FROM {flights} WHERE id = 1")
    assert rows(spark, f"SELECT * FROM {db}.late") == [(1, "UA")]
    spark.sql(f"ALTER VIEW {db}.late SET TBLPROPERTIES ('team' = 'ops')")
    assert [row.viewName for row in spark.sql(f"SHOW VIEWS IN {db}").collect()] == ["late"]
    spark.sql(f"ALTER VIEW {db}.late RENAME TO {db}.early")
    assert rows(spark, f"SELECT * FROM {db}.early") == [(1, "UA")]
    assert dict(rows(spark, f"SHOW TBLPROPERTIES {db}.early"))["team"] == "ops"
    spark.sql(f"DROP VIEW {db}.early")
    assert rows(spark, f"SHOW VIEWS IN {db}") == []


def test_time_travel_and_metadata_tables(spark: SparkSession, flights: str) -> None:
    spark.sql(f"INSERT INTO {flights} VALUES (3, 'B6', TIMESTAMP'2013-02-02')")
    snapshots = spark.sql(f"SELECT snapshot_id, operation FROM {flights}.snapshots ORDER BY committed_at").collect()
    assert [row.operation for row in snapshots] == ["append", "append"]
    first = snapshots[0].snapshot_id
    assert one(spark, f"SELECT count(*) FROM {flights} VERSION AS OF {first}")[0] == 2
    assert one(spark, f"SELECT sum(record_count) FROM {flights}.files")[0] == 3
    assert len(rows(spark, f"SELECT * FROM {flights}.history")) == 2
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{flights}', {first})")
    assert one(spark, f"SELECT count(*) FROM {flights}")[0] == 2


def test_branches_inside_a_table(spark: SparkSession, db: str, flights: str) -> None:
    spark.sql(f"ALTER TABLE {flights} CREATE BRANCH audit")
    spark.sql(f"INSERT INTO {flights}.branch_audit VALUES (3, 'B6', TIMESTAMP'2013-02-02')")
    assert one(spark, f"SELECT count(*) FROM {flights}")[0] == 2
    assert one(spark, f"SELECT count(*) FROM {flights}.branch_audit")[0] == 3
    spark.sql(f"CALL lake.system.fast_forward('{flights}', 'main', 'audit')")
    assert one(spark, f"SELECT count(*) FROM {flights}")[0] == 3
    spark.sql(f"CREATE TABLE {db}.empty (n INT) USING iceberg")
    spark.sql(f"ALTER TABLE {db}.empty CREATE BRANCH first")
    assert rows(spark, f"SELECT name FROM {db}.empty.refs") == [("first",)]


def test_rename_and_drop(spark: SparkSession, db: str, flights: str) -> None:
    spark.sql(f"CREATE NAMESPACE {db}.inner")
    spark.sql(f"ALTER TABLE {flights} RENAME TO {db}.inner.moved")
    assert one(spark, f"SELECT count(*) FROM {db}.inner.moved")[0] == 2
    assert rows(spark, f"SHOW TABLES IN {db}") == []
    spark.sql(f"DROP TABLE {db}.inner.moved")
    assert rows(spark, f"SHOW TABLES IN {db}.inner") == []


def test_names_need_no_care(spark: SparkSession, db: str) -> None:
    name = f"{db}.`a b+c/d%2Fe.ü`"
    spark.sql(f"CREATE TABLE {name} (n INT) USING iceberg")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    assert rows(spark, f"SELECT * FROM {name}") == [(1,)]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {db}").collect()] == ["a b+c/d%2Fe.ü"]
    spark.sql(f"DROP TABLE {name}")


def test_another_reference_in_the_table_name(spark: SparkSession, spark_on: SparkOn, namespace: str) -> None:
    on_main = spark_on()
    on_main.sql(f"CREATE NAMESPACE {namespace}")
    on_main.sql(f"CREATE TABLE {namespace}.t USING iceberg AS SELECT 1 AS n")
    assert rows(spark, f"SELECT * FROM {namespace}.`t@main`") == [(1,)]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("ALTER TABLE {} SET TBLPROPERTIES ('gc.enabled' = 'true')", "branches share files"),
        ("ALTER TABLE {} SET TBLPROPERTIES ('format-version' = '4')", "format-version: 4 is not supported"),
        ("ALTER TABLE {} SET TBLPROPERTIES ('write.data.path' = 'file:/tmp/x')", "outside the warehouse"),
        ("ALTER TABLE {} SET LOCATION 'file:/tmp/x'", "outside the warehouse"),
        ("CREATE TABLE {}2 (n INT) USING iceberg LOCATION 'file:/tmp/x'", "outside the warehouse"),
        ("CREATE TABLE {}2 (n INT) USING iceberg TBLPROPERTIES ('format-version' = '4')", "4 is not supported"),
    ],
)
def test_what_is_refused(spark: SparkSession, flights: str, statement: str, reason: str) -> None:
    before = rows(spark, f"SHOW TBLPROPERTIES {flights}")
    assert reason in error_of(spark, statement.format(flights))
    assert rows(spark, f"SHOW TBLPROPERTIES {flights}") == before


def test_the_log_says_what_happened(spark_on: SparkOn, new_branch: Callable[[], str], nessie: NessieClient) -> None:
    branch = new_branch()
    spark = spark_on(prefix=quote(branch, safe=""), **{"header.Nessie-Commit-Authors": "Ada, Grace"})
    start = nessie.get_reference(branch).hash
    for statement in (
        "CREATE NAMESPACE logged",
        "CREATE TABLE logged.t (n INT) USING iceberg",
        "INSERT INTO logged.t VALUES (1)",
        "ALTER TABLE logged.t ADD COLUMN m INT",
        "DROP TABLE logged.t",
    ):
        spark.sql(statement)
    log = nessie.list_log(nessie.get_reference(branch).hash, limit_hash=start)[:-1]
    messages = [entry.commit_meta.message for entry in log][::-1]
    assert messages[2].startswith("append to table logged.t: snapshot ")
    assert messages[:2] + messages[3:] == [
        "create namespace logged",
        "create table logged.t",
        "alter table logged.t: add-schema, set-current-schema",
        "drop table logged.t",
    ]
    assert {entry.commit_meta.authors for entry in log} == {("Ada", "Grace")}
