"""Spark with Iceberg's NessieCatalog, a client of Nessie's own API: tables, views and branches through v2 and v1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.model import Content, ContentKey, ContentType, IcebergTable, Merge, NewCommit, ReferenceType
from resources.spark import SparkLake
from tests.server.helpers import running_server

pytestmark = pytest.mark.spark


class Nessie:
    """Spark sessions on the references of one server, by way of one version of its API."""

    def __init__(self, lake: SparkLake, uri: str, version: int, warehouse: Path) -> None:
        self._lake, self._uri, self._version, self._warehouse = lake, uri, version, warehouse
        self.client = NessieClient(uri)

    def session(self, ref: str) -> SparkSession:
        spark = self._lake.pyspark.spark_session.newSession()
        catalog = "spark.sql.catalog.nessie"
        settings = {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.catalog-impl": "org.apache.iceberg.nessie.NessieCatalog",
            f"{catalog}.uri": f"{self._uri}/api/v{self._version}",
            f"{catalog}.client-api-version": str(self._version),
            f"{catalog}.ref": ref,
            f"{catalog}.warehouse": self._warehouse.as_uri(),
            f"{catalog}.cache-enabled": "false",
        }
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.sql("USE nessie")
        return spark

    def branch(self, name: str, kind: ReferenceType = ReferenceType.BRANCH) -> None:
        self.client.create_reference(kind, name, self.client.get_reference("main").hash)

    def merge(self, source: str, target: str) -> None:
        request = Merge(from_ref=source, from_hash=self.client.get_reference(source).hash, meta=NewCommit(message=""))
        assert self.client.merge(target, None, request).was_applied

    def content(self, *key: str) -> Content:
        """What `key` is on main."""
        (found,) = self.client.get_contents(self.client.get_reference("main").hash, [ContentKey(key)]).values()
        return found

    def entries(self, ref: str) -> dict[str, ContentType]:
        found = self.client.list_entries(self.client.get_reference(ref).hash)
        return {str(entry.name): entry.type for entry in found}


@pytest.fixture(params=[2, 1], ids=["v2", "v1"])
def nessie(lake: SparkLake, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nessie]:
    with running_server() as uri:
        made = Nessie(lake, uri, request.param, tmp_path)
        yield made
        made.client.close()


def numbers(spark: SparkSession, table: str) -> list[int]:
    return [row[0] for row in spark.sql(f"SELECT x FROM {table} ORDER BY x").collect()]


def test_tables_on_branches(nessie: Nessie) -> None:
    main = nessie.session("main")
    main.sql("CREATE NAMESPACE db")
    main.sql("CREATE TABLE db.t (x INT) USING iceberg")
    main.sql("INSERT INTO db.t VALUES (1)")
    assert numbers(main, "db.t") == [1]

    nessie.branch("run/7")
    nessie.branch("before", ReferenceType.TAG)
    branch = nessie.session("run/7")
    assert numbers(branch, "db.t") == [1]
    branch.sql("INSERT INTO db.t VALUES (2)")
    branch.sql("DELETE FROM db.t WHERE x = 1")
    branch.sql("ALTER TABLE db.t ADD COLUMN y STRING")
    branch.sql("CREATE TABLE db.u AS SELECT 5 AS x")
    assert (numbers(branch, "db.t"), numbers(main, "db.t")) == ([2], [1])
    assert not main.catalog.tableExists("nessie.db.u")

    nessie.merge("run/7", "main")
    assert (numbers(main, "db.t"), numbers(main, "db.u")) == ([2], [5])
    assert main.table("db.t").columns == ["x", "y"]
    assert numbers(nessie.session("before"), "db.t") == [1]
    assert numbers(main, "db.`t@before`") == [1]  # a reference in the name of a table
    assert [row.tableName for row in main.sql("SHOW TABLES IN db").collect()] == ["t", "u"]

    table = nessie.content("db", "t")
    assert isinstance(table, IcebergTable)
    snapshots = main.sql("SELECT snapshot_id FROM db.t.snapshots ORDER BY committed_at").collect()
    assert table.snapshot_id == snapshots[-1][0]


def test_namespaces_renames_views_and_drops(nessie: Nessie) -> None:
    spark = nessie.session("main")
    spark.sql("CREATE NAMESPACE db")
    spark.sql("CREATE NAMESPACE db.inner WITH DBPROPERTIES ('keeper' = 'ann')")
    spark.sql("ALTER NAMESPACE db.inner SET DBPROPERTIES ('keeper' = 'bob')")
    described = {row.info_name: row.info_value for row in spark.sql("DESCRIBE NAMESPACE EXTENDED db.inner").collect()}
    assert "bob" in described["Properties"]
    assert [row.namespace for row in spark.sql("SHOW NAMESPACES IN db").collect()] == ["db.inner"]

    spark.sql("CREATE TABLE db.inner.t AS SELECT 1 AS x")
    before = nessie.content("db", "inner", "t").id
    spark.sql("ALTER TABLE db.inner.t RENAME TO db.renamed")
    assert nessie.content("db", "renamed").id == before
    assert numbers(spark, "db.renamed") == [1]

    spark.sql("CREATE VIEW db.v AS SELECT x + 1 AS x FROM db.renamed")
    assert numbers(spark, "db.v") == [2]
    assert nessie.entries("main")["db.v"] is ContentType.ICEBERG_VIEW
    spark.sql("DROP VIEW db.v")
    spark.sql("DROP TABLE db.renamed")
    with pytest.raises(Exception, match=r"(?i)not empty"):
        spark.sql("DROP NAMESPACE db")
    spark.sql("DROP NAMESPACE db.inner")
    spark.sql("DROP NAMESPACE db")
    assert nessie.entries("main") == {}
