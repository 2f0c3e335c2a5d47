"""Maintenance by Spark on one branch deletes no file that another branch, or its own history, needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from nessie_ops.cli import build_app
from nessie_ops.client import NessieClient
from nessie_ops.model import NO_ANCESTOR, ReferenceType
from tests.iceberg.helpers import Json

pytestmark = pytest.mark.spark

BRANCHES = [f"care/{n}" for n in range(5)]
PROCEDURES = {
    "remove_orphan_files": "table => 'db.t', older_than => TIMESTAMP'2013-01-01'",
    "expire_snapshots": "table => 'db.t', older_than => TIMESTAMP'2100-01-01', retain_last => 1",
}


@pytest.fixture
def sessions(spark_on: Callable[..., SparkSession], nessie: NessieClient) -> dict[str, SparkSession]:
    """A session on each of five branches: the tables are made on the first one, then each branch adds a row of its own.

    `t` has small files, position deletes and a snapshot for each insert; `gone` is there to be dropped.
    """
    found = {branch: spark_on(prefix=quote(branch, safe="")) for branch in BRANCHES}
    nessie.create_reference(ReferenceType.BRANCH, BRANCHES[0], NO_ANCESTOR)
    first = found[BRANCHES[0]]
    first.sql("CREATE NAMESPACE db")
    first.sql(
        "CREATE TABLE db.t (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part) "
        "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    first.sql("INSERT INTO db.t SELECT /*+ COALESCE(1) */ id, 'a/b' FROM range(10, 14)")
    first.sql("INSERT INTO db.t VALUES (20, 'a/b')")
    first.sql("DELETE FROM db.t WHERE id = 10")
    first.sql("CREATE TABLE db.gone USING iceberg AS SELECT 1 AS n")
    for branch in BRANCHES[1:]:
        nessie.create_reference(ReferenceType.BRANCH, branch, nessie.get_reference(BRANCHES[0]).hash)
    for number, branch in enumerate(BRANCHES):
        found[branch].sql(f"INSERT INTO db.t VALUES ({number}, 'own')")
    return found


def ids(spark: SparkSession, table: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT * FROM {table} ORDER BY 1").collect()]


def check(store_url: str, warehouse: str, *branches: str) -> Json:
    words = ["check", "content", "--store", store_url, "--warehouse", warehouse, "--json"]
    result = CliRunner().invoke(build_app(lambda **_: None), [*words, *(f"--ref={branch}" for branch in branches)])
    report: Json = json.loads(result.stdout)
    assert result.exit_code == (1 if report["findings"] else 0)
    return report


def test_five_branches(sessions: dict[str, SparkSession], nessie: NessieClient, store_url: str, warehouse: str) -> None:
    before = check(store_url, warehouse, *BRANCHES)
    assert before["findings"] == []
    orphans, expires, compacts, drops, replaces = sessions.values()
    snapshot = compacts.sql("SELECT snapshot_id FROM db.t.snapshots ORDER BY committed_at").first()
    assert snapshot is not None
    for spark, (procedure, arguments) in zip((orphans, expires), PROCEDURES.items()):
        with pytest.raises(Exception, match="GC is disabled"):
            spark.sql(f"CALL lake.system.{procedure}({arguments})")
        with pytest.raises(Exception, match="branches share files"):
            spark.sql("ALTER TABLE db.t SET TBLPROPERTIES ('gc.enabled' = 'true')")
        with pytest.raises(Exception, match="branches share files"):
            spark.sql("ALTER TABLE db.t UNSET TBLPROPERTIES ('gc.enabled')")
    rewritten = compacts.sql(
        "CALL lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
    ).first()
    assert rewritten is not None
    assert rewritten["rewritten_data_files_count"] >= 3
    compacts.sql("CALL lake.system.rewrite_manifests('db.t')")
    with pytest.raises(Exception, match="GC is disabled"):
        drops.sql("DROP TABLE db.gone PURGE")
    drops.sql("DROP TABLE db.t")
    replaces.sql("CREATE OR REPLACE TABLE db.gone USING iceberg AS SELECT 7 AS n")

    after = check(store_url, warehouse, *BRANCHES)
    assert after["findings"] == []
    assert after["summary"]["files"]["delete file"] >= 1
    assert after["summary"]["files"]["data file"] > before["summary"]["files"]["data file"]
    for number, branch in enumerate(BRANCHES):
        if sessions[branch] is not drops:
            assert ids(sessions[branch], "db.t") == [number, 11, 12, 13, 20]
            assert ids(sessions[branch], f"db.t VERSION AS OF {snapshot[0]}") == [10, 11, 12, 13]
        assert ids(sessions[branch], "db.gone") == [7 if sessions[branch] is replaces else 1]
    with pytest.raises(Exception, match="GC is disabled"):  # what was made anew is as safe as what it replaced
        replaces.sql("CALL lake.system.expire_snapshots('db.gone')")
