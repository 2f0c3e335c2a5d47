"""Spark beside statements about branches and transactions: one real Spark, one real server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nessie_ops.errors import BadRequest, TransactionNotOpen
from nessie_ops.model import ReferenceType
from nessie_ops.sql import SqlSyntaxError
from nessie_ops.sql.spark import NessieSession
from resources.spark import SparkLake

pytestmark = pytest.mark.spark
REFERENCE = [("refType", "string"), ("name", "string"), ("hash", "string")]
LOG = [(name, "string") for name in ("author", "committer", "hash", "message", "signedOffBy")]
LOG += [("authorTime", "timestamp"), ("committerTime", "timestamp"), ("properties", "map<string,string>")]


@pytest.fixture
def branch(lake: SparkLake, request: pytest.FixtureRequest) -> str:
    """A branch of the test's own."""
    name = "sql/" + re.sub(r"\W", "-", request.node.name).strip("-")
    client = lake.catalog.client
    client.create_reference(ReferenceType.BRANCH, name, client.get_reference("main").hash)
    return name


@pytest.fixture
def session(lake: SparkLake, branch: str) -> Iterator[NessieSession]:
    """A session on a branch with two tables, source and target, of one row each: 1 and 10."""
    with lake.session(branch) as spark, NessieSession(spark, "lake") as made:
        made.sql("CREATE NAMESPACE IF NOT EXISTS bank")
        made.sql("USE lake.bank")
        for table, amount in (("source", 1), ("target", 10)):
            made.sql(f"CREATE TABLE {table} USING iceberg AS SELECT {amount} AS amount")
        yield made


def amounts(session: NessieSession | SparkSession, table: str) -> list[int]:
    return sorted(row.amount for row in session.sql(f"SELECT amount FROM lake.bank.{table}").collect())


def test_statements_and_their_columns(session: NessieSession, branch: str) -> None:
    columns: dict[str, list[tuple[str, str]]] = {
        "CREATE BRANCH `sql/c`": REFERENCE,
        "CREATE TAG `sql/t` IN lake": REFERENCE,
        "ASSIGN TAG `sql/t` TO `sql/c`": REFERENCE,
        "LIST REFERENCES CONTAINING sql": REFERENCE,
        "SHOW REFERENCE `sql/c`": REFERENCE,
        "USE REFERENCE `sql/t`": REFERENCE,
        "SHOW LOG LIMIT 3": LOG,
        "USE BRANCH `sql/c`": REFERENCE,
        "MERGE DRY TAG `sql/t` INTO `sql/c`": [("name", "string"), ("hash", "string")],
        "LIST CONTENTS STARTING WITH bank": [("type", "string"), ("key", "string")],
        "SHOW TABLE bank.source": [("content", "string")],
        "START TRANSACTION": [(name, "string") for name in ("id", "branch", "target", "isolation", "startHash")],
        "COMMIT": [("name", "string"), ("hash", "string")],
        "DROP TAG IF EXISTS `sql/t`": [("status", "string")],
        "DROP BRANCH `sql/c`": [("status", "string")],
    }
    for statement, expected in columns.items():
        found = session.sql(statement)
        assert found.dtypes == expected, statement
        assert found.collect(), statement
    session.sql(f"USE BRANCH `{branch}`")
    [newest] = session.sql("SHOW LOG LIMIT 1").collect()
    [entry] = session._client.list_log(session._client.get_reference(session.ref).hash, limit=1)
    assert newest.committerTime.astimezone() == entry.commit_meta.commit_time.astimezone()
    assert isinstance(newest.properties, dict) and newest.hash == entry.commit_meta.hash
    with pytest.raises(BadRequest, match="IN other"):
        session.sql("SHOW REFERENCE IN other")


def test_reading_and_writing_on_references(session: NessieSession, branch: str) -> None:
    session.sql("CREATE TEMP VIEW doubled AS SELECT 2 * amount AS amount FROM source")
    session.sql("SET spark.sql.shuffle.partitions = 3")
    session.sql("CACHE TABLE source")
    session.sql("CREATE NAMESPACE lake.bank.`in-side`; USE lake.bank.`in-side`")
    session.sql("CREATE BRANCH `sql/dev`; USE BRANCH `sql/dev`")
    assert session.sql("SELECT current_catalog(), current_schema()").collect() == [("lake", "bank.`in-side`")]
    session.sql("USE lake.bank")
    assert session.ref == "sql/dev"
    session.sql("INSERT INTO source VALUES (2)")
    assert amounts(session, "source") == [1, 2] and session.spark.table("source").count() == 2
    assert sorted(row.amount for row in session.sql("SELECT * FROM doubled").collect()) == [2, 4]
    assert session.spark.conf.get("spark.sql.shuffle.partitions") == "3"
    session.sql(f"USE BRANCH `{branch}`")
    assert amounts(session, "source") == [1]
    session.sql(f"MERGE BRANCH `sql/dev` INTO `{branch}`; DROP BRANCH `sql/dev`")
    session.sql("UNCACHE TABLE source")
    assert amounts(session, "source") == [1, 2]
    assert session.sql(f"USE REFERENCE `{branch}` AT '~1'").count() == 1 and amounts(session, "source") == [1]
    with pytest.raises(Exception, match=r"read-only|tag"):
        session.sql("INSERT INTO source VALUES (3)")
    session.sql(f"CREATE TAG `sql/end` FROM `{branch}`; USE TAG `sql/end`")
    assert amounts(session, "source") == [1, 2]
    with pytest.raises(Exception, match=r"read-only|tag"):
        session.sql("INSERT INTO source VALUES (3)")
    session.sql("DROP TAG `sql/end`")


def test_scripts_of_both_kinds(session: NessieSession, branch: str) -> None:
    script = """
        -- one's own branch; with a comment
        CREATE BRANCH `sql/script`; USE BRANCH `sql/script`;
        INSERT INTO source VALUES (:more);  /* ; */
        SELECT count(*) AS `a;b`, ';' AS c FROM source;
    """
    assert [tuple(row) for row in session.sql(script, {"more": 5}).collect()] == [(2, ";")]
    assert amounts(session, "source") == [1, 5]
    with pytest.raises(SqlSyntaxError, match="line 2, column 27: 'FORM' is in the way"):
        session.sql("INSERT INTO source VALUES (6);\nSHOW LOG; CREATE BRANCH x FORM y")
    assert amounts(session, "source") == [1, 5]
    assert session.sql("SELECT 1; SELECT 2;").collect() == [(2,)]
    with pytest.raises(PySparkException, match="no_such"):
        session.sql("SELECT * FROM no_such; DELETE FROM source")
    assert session.sql("BEGIN INSERT INTO source VALUES (7); SELECT count(*) FROM source; END").collect() == [(3,)]
    session.sql(f"USE BRANCH `{branch}`; DROP BRANCH `sql/script`")


def test_the_address_of_the_catalog(lake: SparkLake, branch: str) -> None:
    with lake.session(branch) as spark:
        uri = spark.conf.get("spark.sql.catalog.lake.uri")
        assert uri and uri.endswith(branch.replace("/", "%2F"))
        base = uri.rpartition("/")[0]
        for given, ref in ((base, "main"), (f"{base}/", "main"), (f"{base}/main", "main"), (uri, branch)):
            spark.conf.set("spark.sql.catalog.lake.uri", given)
            with NessieSession(spark, "lake") as session:
                assert session.ref == ref
                session.sql("SHOW NAMESPACES")
        for bad in ("http://127.0.0.1:1/api/v2", "http://iceberg/x"):
            spark.conf.set("spark.sql.catalog.lake.uri", bad)
            with pytest.raises(BadRequest, match=r"lake\.uri"):
                NessieSession(spark, "lake")
        with pytest.raises(BadRequest, match=r"nothing\.uri"):
            NessieSession(spark, "nothing")


def test_a_transaction_and_its_end(session: NessieSession, lake: SparkLake, branch: str) -> None:
    with pytest.raises(BadRequest, match="no transaction is open"):
        session.sql("COMMIT")
    session.sql("START TRANSACTION")
    with pytest.raises(BadRequest, match="is open"):
        session.sql(f"USE BRANCH `{branch}`")
    with pytest.raises(BadRequest, match="is open"):
        session.sql("START TRANSACTION")
    session.sql("INSERT INTO source VALUES (2)")
    session.sql("INSERT INTO target SELECT amount FROM source")
    session.sql("CREATE TABLE log USING iceberg AS SELECT 1 AS amount")
    before = session._client.get_reference(branch).hash
    [done] = session.sql("COMMIT MESSAGE 'moved'").collect()
    [newest, older] = session.sql("SHOW LOG LIMIT 2").collect()
    assert session.ref == done.name == branch and (newest.message, older.hash) == ("moved", before)
    assert done.hash == newest.hash and newest.properties["nessie_ops.isolation"] == "SERIALIZABLE"
    assert (amounts(session, "target"), amounts(session, "log")) == ([1, 2, 10], [1])
    session.sql("START TRANSACTION; DELETE FROM source; ROLLBACK")
    assert amounts(session, "source") == [1, 2] and session.ref == branch
    with lake.session(branch) as spark, NessieSession(spark, "lake") as closed:
        closed.sql("START TRANSACTION; DELETE FROM lake.bank.source")
        begun = closed.ref
    assert amounts(spark, "source") == [1, 2]
    assert begun.removeprefix("txn/") not in {row.id for row in lake.catalog.client.list_transactions()}


def test_leases(lake: SparkLake, session: NessieSession, branch: str) -> None:
    with lake.session(branch) as spark, NessieSession(spark, "lake", lease_seconds=1) as short:
        pause = threading.Event()
        [begun] = short.sql("START TRANSACTION").collect()
        first = lake.catalog.client.get_transaction(begun.id).expires_at
        while lake.catalog.client.get_transaction(begun.id).expires_at == first:
            pause.wait(0.05)
        short.sql("INSERT INTO lake.bank.source VALUES (2)")
        short.sql("COMMIT")
        [begun] = short.sql("START TRANSACTION").collect()
        assert short._lease
        short._lease.end()  # as in a process that is held up
        while lake.catalog.client.get_transaction(begun.id).expires_at > datetime.now(UTC):
            pause.wait(0.05)
        with pytest.raises(TransactionNotOpen, match=r"lease|EXPIRED"):
            short.sql("COMMIT")
        assert short.ref == begun.branch
        short.sql("ROLLBACK")
        assert short.ref == branch and amounts(short, "source") == [1, 2]


def test_in_an_asset(lake: SparkLake, session: NessieSession, branch: str) -> None:
    @dg.asset
    def moved(lake: SparkLake) -> None:
        with lake.session(branch) as spark, NessieSession(spark, "lake") as tables:
            tables.sql("START TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            tables.sql("INSERT INTO lake.bank.target SELECT amount FROM lake.bank.source")
            tables.sql("DELETE FROM lake.bank.source")
            tables.sql("COMMIT MESSAGE 'move source to target'")

    resources: dict[str, Any] = {"lake": lake}
    assert dg.materialize([moved], resources=resources).success
    assert (amounts(session, "source"), amounts(session, "target")) == ([], [1, 10])
