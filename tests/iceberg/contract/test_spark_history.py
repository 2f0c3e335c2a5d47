"""A table's history in Spark: time travel, metadata tables, its own branches, rollback; apart on each branch."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.model import Merge, NewCommit
from tests.iceberg.sql import column, error_of, one, rows

pytestmark = pytest.mark.spark

SparkOn = Callable[..., SparkSession]


@pytest.fixture
def t(spark: SparkSession, spark_db: str) -> str:
    """A table of three snapshots: of 1; of 1, 2; of 1, 2, 3."""
    spark.sql(f"CREATE TABLE {spark_db}.t (n INT) USING iceberg")
    for number in (1, 2, 3):
        spark.sql(f"INSERT INTO {spark_db}.t VALUES ({number})")
    return f"{spark_db}.t"


def numbers(spark: SparkSession, table: str) -> list[object]:
    return column(spark, f"SELECT n FROM {table} ORDER BY n")


def snapshots(spark: SparkSession, t: str) -> list[int]:
    """The ids of all snapshots, oldest first."""
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {t}.snapshots ORDER BY committed_at").collect()]


def history(spark: SparkSession, t: str) -> list[tuple[object, ...]]:
    """Which snapshots were current, in order, and whether they are ancestors of the one that is."""
    statement = f"SELECT snapshot_id, is_current_ancestor FROM {t}.history ORDER BY made_current_at"
    return rows(spark, statement)


def moments(spark: SparkSession, t: str) -> list[str]:
    """When each snapshot was committed, to the millisecond."""
    return [str(at) for at in column(spark, f"SELECT CAST(committed_at AS STRING) FROM {t}.snapshots ORDER BY 1")]


def test_versions(spark: SparkSession, t: str) -> None:
    first, second, _ = snapshots(spark, t)
    spark.sql(f"ALTER TABLE {t} CREATE TAG `v1.0` AS OF VERSION {first} RETAIN 30 DAYS")
    spark.sql(f"ALTER TABLE {t} CREATE BRANCH later AS OF VERSION {second}")
    for version, expected in ((first, [1]), (second, [1, 2]), ("'v1.0'", [1]), ("'later'", [1, 2])):
        assert numbers(spark, f"{t} VERSION AS OF {version}") == expected
        assert numbers(spark, f"{t} FOR SYSTEM_VERSION AS OF {version}") == expected
    assert numbers(spark, f"{t}.snapshot_id_{first}") == [1]
    assert numbers(spark, f"{t}.`tag_v1.0`") == [1]
    assert spark.read.option("versionAsOf", str(second)).table(t).count() == 2
    between = spark.read.format("iceberg").option("start-snapshot-id", first).option("end-snapshot-id", second)
    assert [row.n for row in between.load(f"lake.{t}").collect()] == [2]
    assert "12345" in error_of(spark, f"SELECT * FROM {t} VERSION AS OF 12345")
    assert "nothing" in error_of(spark, f"SELECT * FROM {t} VERSION AS OF 'nothing'")
    assert numbers(spark, t) == [1, 2, 3]


def test_timestamps(spark: SparkSession, t: str) -> None:
    times = moments(spark, t)
    for at, expected in zip(times, ([1], [1, 2], [1, 2, 3]), strict=True):
        assert numbers(spark, f"{t} TIMESTAMP AS OF '{at}'") == expected
    assert numbers(spark, f"{t} TIMESTAMP AS OF current_timestamp()") == [1, 2, 3]
    assert numbers(spark, f"{t} FOR SYSTEM_TIME AS OF '{times[1]}'") == [1, 2]
    assert "snapshot" in error_of(spark, f"SELECT * FROM {t} TIMESTAMP AS OF '2001-01-01'").lower()


def test_metadata_tables(spark: SparkSession, t: str) -> None:
    spark.sql(f"DELETE FROM {t} WHERE n = 2")
    ids = snapshots(spark, t)
    assert rows(spark, f"SELECT parent_id, operation FROM {t}.snapshots ORDER BY committed_at") == [
        (None, "append"),
        (ids[0], "append"),
        (ids[1], "append"),
        (ids[2], "delete"),
    ]
    assert column(spark, f"SELECT summary['total-records'] FROM {t}.snapshots ORDER BY committed_at") == list("1232")
    assert history(spark, t) == [(snapshot, True) for snapshot in ids]
    assert rows(spark, f"SELECT name, type, snapshot_id FROM {t}.refs") == [("main", "BRANCH", ids[-1])]
    log = rows(spark, f"SELECT file, latest_snapshot_id FROM {t}.metadata_log_entries ORDER BY timestamp")
    assert [snapshot for _, snapshot in log] == [None, *ids]
    assert len({file for file, _ in log}) == 5
    assert column(spark, f"SELECT sum(record_count) FROM {t}.files") == [2]
    assert column(spark, f"SELECT sum(record_count) FROM {t}.files VERSION AS OF {ids[2]}") == [3]
    assert column(spark, f"SELECT sum(record_count) FROM {t}.data_files") == [2]
    assert column(spark, f"SELECT count(DISTINCT file_path) FROM {t}.all_data_files") == [3]
    assert column(spark, f"SELECT record_count FROM {t}.partitions") == [2]
    for name in ("entries", "manifests", "all_manifests", "all_entries", "all_files"):
        assert column(spark, f"SELECT count(*) FROM {t}.{name}")[0] > 0, name
    for name in ("delete_files", "position_deletes", "all_delete_files"):
        assert column(spark, f"SELECT count(*) FROM {t}.{name}") == [0], name
    assert len(set(column(spark, f"SELECT _file FROM {t}"))) == 2


def test_rollback(spark: SparkSession, t: str) -> None:
    (first, second, third), times = snapshots(spark, t), moments(spark, t)
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{t}', {second})")
    assert numbers(spark, t) == [1, 2]
    spark.sql(f"CALL lake.system.set_current_snapshot('{t}', {third})")
    assert numbers(spark, t) == [1, 2, 3]
    spark.sql(f"CALL lake.system.rollback_to_timestamp('{t}', TIMESTAMP'{times[1]}')")
    assert numbers(spark, t) == [1]
    assert history(spark, t) == [
        (first, True),
        (second, False),
        (third, False),
        (second, False),
        (third, False),
        (first, True),
    ]
    spark.sql(f"INSERT INTO {t} VALUES (4)")
    fourth = snapshots(spark, t)[-1]
    assert column(spark, f"CALL lake.system.ancestors_of('{t}')") == [fourth, first]
    spark.sql(f"CALL lake.system.cherrypick_snapshot('{t}', {second})")
    assert numbers(spark, t) == [1, 2, 4]
    assert "not an ancestor" in error_of(spark, f"CALL lake.system.rollback_to_snapshot('{t}', {third})")
    assert "12345" in error_of(spark, f"CALL lake.system.set_current_snapshot('{t}', 12345)")
    assert numbers(spark, f"{t} VERSION AS OF {third}") == [1, 2, 3]


def test_audit_before_publishing(spark: SparkSession, t: str) -> None:
    """A snapshot that is staged is not read until it is published by its id."""
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.conf.set("spark.wap.id", "load-7")
    spark.sql(f"INSERT INTO {t} VALUES (4)")
    spark.conf.unset("spark.wap.id")
    assert numbers(spark, t) == [1, 2, 3]
    staged = column(spark, f"SELECT snapshot_id FROM {t}.snapshots WHERE summary['wap.id'] = 'load-7'")[0]
    assert numbers(spark, f"{t} VERSION AS OF {staged}") == [1, 2, 3, 4]
    spark.sql(f"CALL lake.system.publish_changes('{t}', 'load-7')")
    assert numbers(spark, t) == [1, 2, 3, 4]
    assert "load-7" in error_of(spark, f"CALL lake.system.publish_changes('{t}', 'load-7')")


def test_audit_on_a_branch_of_the_table(spark: SparkSession, spark_on: SparkOn, branch: str, t: str) -> None:
    other = spark_on(prefix=quote(branch, safe=""))
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    spark.sql(f"ALTER TABLE {t} CREATE BRANCH audit")
    spark.conf.set("spark.wap.branch", "audit")
    spark.sql(f"INSERT INTO {t} VALUES (4)")
    spark.sql(f"DELETE FROM {t} WHERE n = 1")
    assert (numbers(spark, t), numbers(other, t)) == ([2, 3, 4], [1, 2, 3])
    spark.conf.unset("spark.wap.branch")
    spark.sql(f"CALL lake.system.fast_forward('{t}', 'main', 'audit')")
    assert numbers(spark, t) == numbers(other, t) == [2, 3, 4]


def test_references_of_a_table(spark: SparkSession, t: str) -> None:
    first, second, third = snapshots(spark, t)
    for change in (
        f"CREATE BRANCH work AS OF VERSION {first} RETAIN 7 DAYS WITH SNAPSHOT RETENTION 2 SNAPSHOTS 3 DAYS",
        f"CREATE OR REPLACE TAG mark AS OF VERSION {first}",
        f"REPLACE TAG mark AS OF VERSION {second} RETAIN 1 DAYS",
        "CREATE TAG IF NOT EXISTS mark",
        "CREATE BRANCH gone",
        "DROP BRANCH gone",
        "DROP TAG IF EXISTS never",
    ):
        spark.sql(f"ALTER TABLE {t} {change}")
    spark.sql(f"MERGE INTO {t}.branch_work o USING (SELECT 1 AS n) s ON o.n = s.n WHEN MATCHED THEN UPDATE SET n = 10")
    spark.sql(f"INSERT INTO {t}.branch_work VALUES (11)")
    spark.sql(f"UPDATE {t}.branch_work SET n = 12 WHERE n = 11")
    assert (numbers(spark, f"{t}.branch_work"), numbers(spark, t)) == ([10, 12], [1, 2, 3])
    days = 24 * 60 * 60 * 1000
    found = rows(spark, f"SELECT name, type, snapshot_id, max_reference_age_in_ms FROM {t}.refs ORDER BY name")
    assert [found[0], found[1]] == [("main", "BRANCH", third, None), ("mark", "TAG", second, days)]
    assert (found[2][0], found[2][3]) == ("work", 7 * days)
    assert one(spark, f"SELECT min_snapshots_to_keep, max_snapshot_age_in_ms FROM {t}.refs WHERE name = 'work'") == (
        2,
        3 * days,
    )
    assert "Cannot write" in error_of(spark, f"INSERT INTO {t}.tag_mark VALUES (1)")
    spark.sql(f"ALTER TABLE {t} DROP TAG mark")
    assert column(spark, f"SELECT name FROM {t}.refs ORDER BY name") == ["main", "work"]


def test_each_branch_of_the_catalog_has_its_own_history(
    spark: SparkSession, spark_on: SparkOn, nessie: NessieClient, branch: str, new_branch: Callable[[], str], t: str
) -> None:
    common = snapshots(spark, t)
    there = new_branch()
    nessie.assign_reference(there, nessie.get_reference(there).hash, nessie.get_reference(branch).hash)
    other = spark_on(prefix=quote(there, safe=""))
    spark.sql(f"INSERT INTO {t} VALUES (4)")
    other.sql(f"CALL lake.system.rollback_to_snapshot('{t}', {common[0]})")
    other.sql(f"INSERT INTO {t} VALUES (20)")
    other.sql(f"ALTER TABLE {t} CREATE TAG only_there")
    assert (numbers(spark, t), numbers(other, t)) == ([1, 2, 3, 4], [1, 20])
    here_ids, there_ids = snapshots(spark, t), snapshots(other, t)
    assert (here_ids[:3], there_ids[:3]) == (common, common)
    assert len({*here_ids, *there_ids}) == 5
    assert history(spark, t) == [(snapshot, True) for snapshot in here_ids]
    assert [is_ancestor for _, is_ancestor in history(other, t)] == [True, False, False, True, True]
    assert column(spark, f"SELECT name FROM {t}.refs") == ["main"]
    assert str(here_ids[3]) in error_of(other, f"SELECT * FROM {t} VERSION AS OF {here_ids[3]}")
    logs = [column(session, f"SELECT file FROM {t}.metadata_log_entries") for session in (spark, other)]
    assert len(set(logs[0]) & set(logs[1])) == 4
    namespace, name = t.split(".")
    assert snapshots(spark, f"{namespace}.`{name}@{there}`") == there_ids
    assert numbers(spark, f"{namespace}.`{name}@{there}` VERSION AS OF {there_ids[3]}") == [1, 20]


def test_a_merge_brings_the_history(
    spark: SparkSession, spark_on: SparkOn, nessie: NessieClient, branch: str, new_branch: Callable[[], str], t: str
) -> None:
    target, head = new_branch(), nessie.get_reference(branch).hash
    before_the_table = nessie.list_log(head)[-1].commit_meta.hash
    nessie.assign_reference(target, nessie.get_reference(target).hash, before_the_table)
    nessie.merge(target, None, Merge(from_ref=branch, from_hash=head, meta=NewCommit(message="publish")))
    there = spark_on(prefix=quote(target, safe=""))
    for name in ("history", "snapshots", "refs", "metadata_log_entries"):
        statement = f"SELECT * FROM {t}.{name}"
        assert sorted(rows(there, statement), key=str) == sorted(rows(spark, statement), key=str)
    assert numbers(there, f"{t} VERSION AS OF {snapshots(spark, t)[0]}") == [1]
