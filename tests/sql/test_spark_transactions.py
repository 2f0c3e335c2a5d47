"""Transactions of real Sparks with others who write meanwhile, and what the server sees of what Spark reads."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.errors import TransactionConflict
from nessie_ops.model import NewCatalogTransaction, ReferenceType
from nessie_ops.sql.spark import NessieSession
from resources.spark import SparkLake

pytestmark = pytest.mark.spark
READ_COMMITTED, REPEATED_READ, SERIALIZABLE = LEVELS = ["READ COMMITTED", "REPEATED READ", "SERIALIZABLE"]


@pytest.fixture
def branch(lake: SparkLake, request: pytest.FixtureRequest) -> str:
    """A branch of the test's own, with the tables bank.table1 of the rows 1 and 2, and bank.table2 of the row 10."""
    name = "sqltx/" + re.sub(r"\W", "-", request.node.name).strip("-")
    client = lake.catalog.client
    client.create_reference(ReferenceType.BRANCH, name, client.get_reference("main").hash)
    with lake.session(name) as spark:
        spark.sql("CREATE NAMESPACE IF NOT EXISTS bank")
        for table, values in (("table1", "(1), (2)"), ("table2", "(10)")):
            spark.sql(f"CREATE TABLE bank.{table} USING iceberg AS SELECT * FROM VALUES {values} AS rows (x)")
    return name


@pytest.fixture
def other(lake: SparkLake, branch: str) -> Iterator[SparkSession]:
    """Somebody else on the branch."""
    with lake.session(branch) as spark:
        yield spark


@pytest.fixture
def session(lake: SparkLake, branch: str) -> Iterator[NessieSession]:
    with lake.session(branch) as spark, NessieSession(spark, "lake") as made:
        yield made


def rows(spark: SparkSession | NessieSession, table: str) -> list[int]:
    return sorted(row.x for row in spark.sql(f"SELECT x FROM lake.bank.{table}").collect())


def add(spark: SparkSession | NessieSession, table: str, x: int) -> None:
    spark.sql(f"INSERT INTO lake.bank.{table} VALUES ({x})")


def copy(session: NessieSession) -> None:
    session.sql("INSERT INTO bank.table2 SELECT x FROM bank.table1")


def empty(session: NessieSession) -> None:
    session.sql("DELETE FROM bank.table1")


def overwrite(session: NessieSession) -> None:
    session.sql("INSERT OVERWRITE bank.table1 SELECT x FROM bank.table1 WHERE false")


@pytest.mark.parametrize("level", LEVELS)
def test_the_example_with_a_copy(session: NessieSession, other: SparkSession, branch: str, level: str) -> None:
    """All of table1 shall be in table2, while somebody adds to table1 at every moment there is."""
    session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
    add(other, "table1", 3)  # before it is read
    read = rows(session, "table1")
    assert read == ([1, 2, 3] if level == READ_COMMITTED else [1, 2])
    add(other, "table1", 4)  # between reading and writing
    assert rows(session, "table1") == ([*read, 4] if level == READ_COMMITTED else read)
    copy(session)
    add(other, "table1", 5)  # after writing
    assert rows(session, "table1") == ([1, 2, 3, 4, 5] if level == READ_COMMITTED else [1, 2])
    moved = [1, 2, 3, 4] if level == READ_COMMITTED else [1, 2]
    assert rows(session, "table2") == [*moved, 10] and rows(other, "table2") == [10]
    if level != SERIALIZABLE:
        session.sql("COMMIT")
        assert rows(other, "table2") == [*moved, 10]  # not all of table1: these levels do not promise it
    else:
        [last] = session._client.list_log(session._client.get_reference(branch).hash, limit=1)
        with pytest.raises(TransactionConflict, match=r"key 'bank\.table1' was read") as caught:
            session.sql("COMMIT")
        [change] = caught.value.changes
        meta = last.commit_meta
        assert (change.key, change.commit_hash, change.time) == ("bank.table1", meta.hash, meta.commit_time)
        assert (
            meta.hash[:16] in caught.value.message and f"{meta.commit_time:%Y-%m-%d %H:%M:%S}Z" in caught.value.message
        )
        assert session.ref.startswith("txn/") and rows(session, "table2") == [*moved, 10]  # it is open still
        session.sql("ROLLBACK; START TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        copy(session)
        session.sql("COMMIT")
        assert rows(session, "table2") == [1, 2, 3, 4, 5, 10]
    add(other, "table1", 6)  # after COMMIT
    assert rows(session, "table1") == [1, 2, 3, 4, 5, 6] and session.ref == branch


@pytest.mark.parametrize("remove", [empty, overwrite])
@pytest.mark.parametrize("level", LEVELS)
def test_the_example_with_a_move(
    session: NessieSession, other: SparkSession, level: str, remove: Callable[[NessieSession], None]
) -> None:
    """As table1 is written, too, no level lets somebody's row in it be lost: they see to it at COMMIT."""

    def move() -> None:
        session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
        copy(session)
        remove(session)

    move()
    add(other, "table1", 3)
    with pytest.raises(TransactionConflict, match=r"bank\.table1"):
        session.sql("COMMIT")
    session.sql("ROLLBACK")
    assert (rows(session, "table1"), rows(session, "table2")) == ([1, 2, 3], [10])
    move()
    session.sql("COMMIT")
    assert (rows(other, "table1"), rows(other, "table2")) == ([], [1, 2, 3, 10])


@pytest.mark.parametrize("level", LEVELS)
def test_the_example_between_copy_and_removal(session: NessieSession, other: SparkSession, level: str) -> None:
    """Two statements see two states at READ COMMITTED, as in other databases: a row goes that was not copied."""
    session.sql(f"START TRANSACTION ISOLATION LEVEL {level}")
    copy(session)
    add(other, "table1", 3)
    empty(session)
    if level == READ_COMMITTED:
        session.sql("COMMIT")
        assert (rows(other, "table1"), rows(other, "table2")) == ([], [1, 2, 10])
    else:
        with pytest.raises(TransactionConflict, match=r"bank\.table1"):
            session.sql("COMMIT")


def test_moves_while_somebody_appends(session: NessieSession, lake: SparkLake, branch: str) -> None:
    """Each row that was added is in exactly one of the tables, however the moves and appends meet."""
    added = [1, 2]
    enough = threading.Event()

    def append() -> None:
        with lake.session(branch) as spark:
            for x in range(100, 160):
                add(spark, "table1", x)
                added.append(x)
                if enough.is_set():
                    return

    appender = threading.Thread(target=append)
    appender.start()
    moves = refusals = 0
    while moves < 3:
        session.sql(f"START TRANSACTION ISOLATION LEVEL {LEVELS[1 + moves % 2]}")
        copy(session)
        empty(session)
        try:
            session.sql("COMMIT")
            moves += 1
        except TransactionConflict:
            session.sql("ROLLBACK")
            refusals += 1
            if refusals == 3:
                enough.set()  # it has been seen that they meet
    enough.set()
    appender.join()
    assert sorted(rows(session, "table1") + rows(session, "table2")) == sorted([*added, 10])


READS = {
    "SELECT * FROM bank.table1": {"bank.table1"},
    "SELECT count(*) FROM bank.table1 JOIN bank.table2 USING (x)": {"bank.table1", "bank.table2"},
    "SELECT * FROM bank.seen": {"bank.seen", "bank.table2"},  # a view of table2
    "DESCRIBE TABLE bank.table1": {"bank.table1"},
    "SELECT count(*) FROM bank.table1.snapshots": {"bank.table1"},
    "SHOW TABLES IN bank": {"bank.new"},
}


def test_what_spark_reads_is_seen(lake: SparkLake, other: SparkSession, branch: str) -> None:
    """A plain Spark, which caches tables, as Iceberg's does: a change of what it read, and no other, refuses COMMIT."""
    client = lake.catalog.client
    other.sql("CREATE VIEW lake.bank.seen AS SELECT x FROM lake.bank.table2")
    changes = {
        "bank.table1": "INSERT INTO lake.bank.table1 VALUES (3)",
        "bank.table2": "INSERT INTO lake.bank.table2 VALUES (3)",
        "bank.seen": "CREATE OR REPLACE VIEW lake.bank.seen AS SELECT x + 1 AS x FROM lake.bank.table2",
        "bank.new": "CREATE TABLE lake.bank.new (x INT) USING iceberg",
    }
    began = {(text, key): begin(client, branch) for text in READS for key in changes}
    for (text, _), id in began.items():
        read_plainly(lake, f"txn/{id}", text)
    for key, change in changes.items():
        head = client.get_reference(branch)
        other.sql(change)
        for text, seen in READS.items():
            assert commits(client, began[text, key]) == (key not in seen), (text, key)
        client.assign_reference(branch, client.get_reference(branch).hash, head.hash)


def begin(client: NessieClient, branch: str) -> str:
    return client.begin_transaction(NewCatalogTransaction(target=branch)).id


def commits(client: NessieClient, id: str) -> bool:
    try:
        client.commit_transaction(id)
    except TransactionConflict:
        client.rollback_transaction(id)
        return False
    return True


def read_plainly(lake: SparkLake, ref: str, text: str) -> None:
    with lake.session("main") as spark:
        spark = spark.newSession()
        for name, value in lake.catalog.spark_conf("lake", ref).items():
            if not name.endswith(".cache-enabled"):
                spark.conf.set(name, value)
        spark.sql("USE lake")
        for _ in range(2):
            spark.sql(text).collect()
