"""Spark beside statements about branches and transactions: one real Spark, one real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from nessie_ops.errors import BadRequest, TransactionConflict
from nessie_ops.sql.spark import NessieSession
from resources.spark import SparkLake

pytestmark = pytest.mark.spark
LEVELS = ["READ COMMITTED", "REPEATED READ", "SERIALIZABLE"]


@pytest.fixture
def session(lake: SparkLake, request: pytest.FixtureRequest) -> Iterator[NessieSession]:
    """A session on a branch of its own with two tables, source and target, of one row each."""
    name = f"sql/{abs(hash(request.node.name))}"
    client = lake.catalog.client
    client.create_reference("BRANCH", name, client.get_reference("main").hash)  # type: ignore[arg-type]
    with lake.session(name) as spark:
        made = NessieSession(spark, "lake")
        made.sql("CREATE NAMESPACE IF NOT EXISTS bank")
        for table in ("source", "target"):
            made.sql(f"CREATE TABLE bank.{table} (amount INT) USING iceberg")
            made.sql(f"INSERT INTO bank.{table} VALUES (1)")
        yield made
        made.close()


def amounts(session: NessieSession, table: str) -> list[int]:
    return sorted(row.amount for row in session.sql(f"SELECT amount FROM lake.bank.{table}").collect())


def test_branches_and_merges(session: NessieSession) -> None:
    main = session.ref
    [row] = session.sql("CREATE BRANCH `sql/dev`; USE BRANCH `sql/dev`").collect()
    assert (row.refType, row.name) == ("Branch", "sql/dev") and session.ref == "sql/dev"
    session.sql("INSERT INTO bank.source VALUES (2)")
    assert amounts(session, "source") == [1, 2]
    [entry] = session.sql("SHOW LOG LIMIT 1").collect()
    assert isinstance(entry.committerTime, datetime) and isinstance(entry.properties, dict)
    session.sql(f"USE BRANCH `{main}`")
    assert amounts(session, "source") == [1]
    session.sql(f"MERGE BRANCH `sql/dev` INTO `{main}`; DROP BRANCH `sql/dev`")
    session.spark.catalog.refreshTable("lake.bank.source")
    assert amounts(session, "source") == [1, 2]
    session.sql(f"USE REFERENCE `{main}` AT '~1'")
    assert amounts(session, "source") == [1]
    assert session.spark.catalog.currentCatalog() == "lake"


@pytest.mark.parametrize("level", LEVELS)
def test_the_example(session: NessieSession, lake: SparkLake, level: str) -> None:
    """Move all of source into target; meanwhile somebody adds to source: true before and after, or refused."""
    main = session.ref
    session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
    session.sql("INSERT INTO bank.target SELECT amount FROM bank.source")
    with lake.session(main) as other:
        other.sql("INSERT INTO lake.bank.source VALUES (7)")
    assert amounts(session, "source") == ([1, 7] if level == "READ COMMITTED" else [1])
    if level == "SERIALIZABLE":
        with pytest.raises(TransactionConflict, match=r"bank\.source"):
            session.sql("COMMIT")
        session.sql("ROLLBACK")
        assert session.ref == main and amounts(session, "target") == [1]
        session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
        session.sql("INSERT INTO bank.target SELECT amount FROM bank.source")
        session.sql("COMMIT")
        assert amounts(session, "target") == [1, 1, 7]
    else:
        session.sql("COMMIT")
        assert amounts(session, "target") == [1, 1] and amounts(session, "source") == [1, 7]


def test_what_is_not_our_server(lake: SparkLake) -> None:
    with lake.session("main") as spark, pytest.raises(BadRequest, match=r"nowhere\.uri"):
        NessieSession(spark, "nowhere")
