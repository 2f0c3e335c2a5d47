"""DuckDB as a client, with its own Iceberg extension: the statements that it has, on branches, tags and commits.

It shares tables with PyIceberg and Spark, so each must read what the other wrote, and lose when it came second.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.types import LongType
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.model import Merge, NewCommit, ReferenceType

Rows = list[tuple[object, ...]]
Connect = Callable[[str], RestCatalog]

EXTENSIONS = ("avro", "httpfs", "iceberg")  # each needs those before it
_numbers = itertools.count(1)


class Duck:
    """A connection to DuckDB of its own, whose unqualified names are those of a namespace on a reference."""

    def __init__(self, database: duckdb.DuckDBPyConnection, endpoint: str, namespace: str) -> None:
        self.catalog = f"c{next(_numbers)}"
        self._connection = database.cursor()
        self.run(
            f"ATTACH 'warehouse' AS {self.catalog} (TYPE iceberg, ENDPOINT '{endpoint}', AUTHORIZATION_TYPE 'none')"
        )
        self.run(f"CREATE SCHEMA IF NOT EXISTS {self.catalog}.{namespace}")
        self.run(f"USE {self.catalog}.{namespace}")

    def run(self, *statements: str) -> Rows:
        """The rows of the last statement."""
        found: Rows = []
        for statement in statements:
            found = self._connection.execute(statement).fetchall()
        return found

    def error_of(self, *statements: str) -> str:
        with pytest.raises(duckdb.Error) as caught:
            self.run(*statements)
        return str(caught.value)


@pytest.fixture(scope="session")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with the extensions of its packages; nothing is fetched."""
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        for name in EXTENSIONS:
            folder = files(f"duckdb_extension_{name}") / "extensions" / f"v{duckdb.__version__}"
            connection.execute(f"LOAD '{folder}/{name}.duckdb_extension'")
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture
def duck_on(database: duckdb.DuckDBPyConnection, base_uri: str, namespace: str) -> Callable[[str], Duck]:
    """A function that opens the test's namespace on a reference."""
    return lambda ref: Duck(database, f"{base_uri}/iceberg/{quote(ref, safe='')}", namespace)


DuckOn = Callable[[str], Duck]


@pytest.fixture
def duck(duck_on: DuckOn, ref: str) -> Duck:
    return duck_on(ref)


@pytest.fixture
def t(duck: Duck, namespace: str) -> str:
    """A table of two rows."""
    duck.run("CREATE TABLE t (id BIGINT, name VARCHAR)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    return f"{namespace}.t"


def test_statements(duck: Duck, t: str, connect: Connect, ref: str) -> None:
    duck.run("UPDATE t SET name = 'z' WHERE id = 1", "DELETE FROM t WHERE id = 2")
    duck.run(
        "MERGE INTO t USING (VALUES (1, 'y'), (3, 'c')) n(id, name) ON t.id = n.id "
        "WHEN MATCHED THEN UPDATE SET name = n.name WHEN NOT MATCHED THEN INSERT VALUES (n.id, n.name)"
    )
    assert duck.run("FROM t ORDER BY id") == [(1, "y"), (3, "c")]
    assert connect(ref).load_table(t).scan().to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "y"},
        {"id": 3, "name": "c"},
    ]
    duck.run("TRUNCATE t")
    assert duck.run("FROM t") == []


def test_create_list_rename_and_drop(duck: Duck, t: str, namespace: str) -> None:
    schema = f"{duck.catalog}.{namespace}"
    duck.run("CREATE TABLE IF NOT EXISTS t (n INT)", "CREATE TABLE copy AS FROM t")
    assert duck.run("SELECT count(*) FROM copy") == [(2,)]
    duck.run("ALTER TABLE copy RENAME TO moved", "DROP TABLE t")
    assert duck.run(f"SHOW TABLES FROM {schema}") == [("moved",)]
    inner = f'{duck.catalog}."{namespace}.inner"'
    duck.run(f"CREATE SCHEMA {inner}", f"CREATE TABLE {inner}.t AS FROM moved")
    assert duck.run(f"SELECT count(*) FROM {inner}.t") == [(2,)]
    assert "not empty" in duck.error_of(f"DROP SCHEMA {inner}")
    duck.run(f"DROP TABLE {inner}.t", f"DROP SCHEMA {inner}", f"DROP TABLE {schema}.moved", f"DROP SCHEMA {schema}")
    assert (namespace,) not in duck.run(
        f"SELECT schema_name FROM duckdb_schemas() WHERE database_name = '{duck.catalog}'"
    )


def test_changes_of_a_table(duck: Duck, t: str, connect: Connect, ref: str) -> None:
    for change in (
        "ADD COLUMN delay INTEGER",
        "RENAME COLUMN name TO airline",
        "ALTER COLUMN delay TYPE BIGINT",
        "ADD COLUMN gone INTEGER",
        "DROP COLUMN gone",
        "SET PARTITIONED BY (bucket(4, id))",
        "SET ('team' = 'ops')",
    ):
        duck.run(f"ALTER TABLE t {change}")
    duck.run("INSERT INTO t VALUES (3, 'c', 7)")
    assert duck.run("FROM t ORDER BY id") == [(1, "a", None), (2, "b", None), (3, "c", 7)]
    table = connect(ref).load_table(t)
    assert (table.properties["team"], table.properties["gc.enabled"]) == ("ops", "false")
    assert [str(field.transform) for field in table.spec().fields] == ["bucket[4]"]
    assert table.scan(row_filter="id = 3").to_arrow().to_pylist() == [{"id": 3, "airline": "c", "delay": 7}]


def test_time_travel(duck: Duck, t: str, connect: Connect, ref: str) -> None:
    first = connect(ref).load_table(t).metadata.snapshots[0]
    duck.run("DELETE FROM t WHERE id = 1")
    assert duck.run(f"FROM t AT (VERSION => {first.snapshot_id}) ORDER BY id") == [(1, "a"), (2, "b")]
    moment = f"epoch_ms({first.timestamp_ms})"
    assert duck.run(f"FROM t AT (TIMESTAMP => {moment}) ORDER BY id") == [(1, "a"), (2, "b")]
    assert duck.run("FROM t") == [(2, "b")]
    assert len(duck.run(f"FROM iceberg_snapshots({duck.catalog}.{t})")) == 2


def test_types(duck: Duck, namespace: str, connect: Connect, ref: str) -> None:
    duck.run(
        "CREATE TABLE kinds AS SELECT true a, 1::INTEGER b, 2.5::FLOAT c, 3.25::DECIMAL(10, 2) d, DATE '2020-01-01' e, "
        "TIMESTAMP '2020-01-01' f, TIMESTAMPTZ '2020-01-01 00:00:00+00' g, '\\x00'::BLOB h, TIME '10:00:00' i, "
        "'5f2b1a3e-0d7c-4a41-9c3b-1f0e2d3c4b5a'::UUID j, [1, 2] k, {'x': 1, 'y': 'z'} l, MAP {'k': 1} m"
    )
    found = connect(ref).load_table(f"{namespace}.kinds").scan().to_arrow().to_pylist()[0]
    found["j"] = str(found["j"])
    expected = duck.run("SELECT * REPLACE (j::VARCHAR AS j) FROM kinds")[0]
    assert found | {"m": dict(found["m"])} == dict(zip("abcdefghijklm", expected, strict=True))


def test_tags_and_commits_are_read_only(
    duck_on: DuckOn, new_branch: Callable[[], str], nessie: NessieClient, namespace: str
) -> None:
    branch = new_branch()
    on_branch = duck_on(branch)
    on_branch.run("CREATE TABLE t AS SELECT 1 AS n")
    head = nessie.get_reference(branch).hash
    tag = nessie.create_reference(ReferenceType.TAG, f"{branch}-tag", head).name
    on_branch.run("INSERT INTO t VALUES (2)")
    for ref, reason in ((tag, "is a tag"), (f"{branch}@{head}", "read-only")):
        duck = duck_on(ref)
        assert duck.run("FROM t") == [(1,)]
        assert reason in duck.error_of("INSERT INTO t VALUES (3)")
        assert reason in duck.error_of("CREATE TABLE other (n INT)")
        assert reason in duck.error_of("DROP TABLE t")
    assert on_branch.run("FROM t ORDER BY n") == [(1,), (2,)]


def test_a_branch_is_seen_elsewhere_once_it_is_merged(
    duck_on: DuckOn, new_branch: Callable[[], str], nessie: NessieClient
) -> None:
    on_main = duck_on("main")
    on_main.run("CREATE TABLE t AS SELECT 1 AS n")
    branch, before = new_branch(), nessie.get_reference("main").hash
    duck_on(branch).run("INSERT INTO t VALUES (2)")
    assert on_main.run("FROM t") == [(1,)]
    assert on_main.run(f'FROM "t@{branch}" ORDER BY n') == [(1,), (2,)]
    nessie.merge(
        "main",
        before,
        Merge(from_ref=branch, from_hash=nessie.get_reference(branch).hash, meta=NewCommit(message="publish")),
    )
    assert on_main.run("FROM t ORDER BY n") == [(1,), (2,)]
    assert on_main.run(f'FROM "t@main#{before}"') == [(1,)]


def test_two_tables_change_in_one_commit_or_not_at_all(duck: Duck, t: str, nessie: NessieClient, ref: str) -> None:
    duck.run("CREATE TABLE u (id BIGINT)")
    before = nessie.get_reference(ref).hash
    duck.run("BEGIN", "INSERT INTO t VALUES (3, 'c')", "INSERT INTO u VALUES (3)", "ROLLBACK")
    assert nessie.get_reference(ref).hash == before
    duck.run("BEGIN", "INSERT INTO t VALUES (3, 'c')", "INSERT INTO u VALUES (3)", "COMMIT")
    assert nessie.get_commit(nessie.get_reference(ref).hash).parent_commit_hashes[0] == before
    assert duck.run("SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u)") == [(3, 1)]


@pytest.mark.parametrize("change", ["INSERT INTO t VALUES (3, 'c')", "UPDATE t SET name = 'z'", "DELETE FROM t"])
def test_the_second_of_two_writers_changes_nothing(
    duck: Duck, t: str, connect: Connect, ref: str, nessie: NessieClient, change: str
) -> None:
    duck.run("CREATE TABLE u (id BIGINT)", "BEGIN", change, "INSERT INTO u VALUES (1)")
    other = connect(ref).load_table(t)
    other.append(pa.table({"id": [9], "name": ["other"]}))
    head = nessie.get_reference(ref).hash
    assert "409" in duck.error_of("COMMIT")
    assert nessie.get_reference(ref).hash == head
    assert duck.run("FROM u") == []
    duck.run(change)
    assert duck.run("SELECT count(*) FROM t") == [({"I": 4, "U": 3, "D": 0}[change[0]],)]


def test_another_client_comes_second(duck: Duck, t: str, connect: Connect, ref: str) -> None:
    """PyIceberg appends once more by itself; a schema it has not seen it leaves to its user."""
    other = connect(ref).load_table(t)
    duck.run("INSERT INTO t VALUES (3, 'c')")
    other.append(pa.table({"id": [4], "name": ["d"]}))
    assert duck.run("SELECT id FROM t ORDER BY id") == [(1,), (2,), (3,), (4,)]
    duck.run("ALTER TABLE t ADD COLUMN mine BIGINT")
    with pytest.raises(CommitFailedException):
        other.update_schema().add_column("late", LongType()).commit()
    assert duck.run("FROM t WHERE id = 3") == [(3, "c", None)]


def test_writers_at_the_same_time_lose_nothing_that_was_acknowledged(duck_on: DuckOn) -> None:
    duck_on("main").run("CREATE TABLE t (n BIGINT)")

    def write(n: int) -> list[int]:
        duck, done = duck_on("main"), []
        for value in range(n, n + 5):
            try:
                duck.run(f"INSERT INTO t VALUES ({value})")
            except duckdb.TransactionException as error:
                assert "409" in str(error)
            else:
                done.append(value)
        return done

    with ThreadPoolExecutor(4) as pool:
        acknowledged = [n for done in pool.map(write, range(0, 400, 100)) for n in done]
    assert acknowledged
    assert duck_on("main").run("FROM t ORDER BY n") == [(n,) for n in sorted(acknowledged)]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE x (n INT) WITH ('location' = 'file:///tmp/elsewhere')", "outside the warehouse"),
        ("ALTER TABLE t SET ('write.data.path' = 'file:///tmp/elsewhere')", "outside the warehouse"),
        ("ALTER TABLE t SET ('gc.enabled' = 'true')", "branches share files"),
        ('FROM "t@nowhere"', "nowhere"),
    ],
)
def test_what_is_refused(duck: Duck, t: str, nessie: NessieClient, ref: str, statement: str, reason: str) -> None:
    before = nessie.get_reference(ref).hash
    assert reason in duck.error_of(statement)
    assert nessie.get_reference(ref).hash == before


@pytest.mark.spark
@pytest.mark.parametrize("ref", ["slash"], indirect=True)
def test_spark_and_duckdb_read_each_other(
    duck: Duck, t: str, spark_on: Callable[..., SparkSession], ref: str, namespace: str
) -> None:
    spark = spark_on(prefix=quote(ref, safe=""))
    assert [tuple(row) for row in spark.sql(f"FROM {t} ORDER BY id").collect()] == [(1, "a"), (2, "b")]
    duck.run("DELETE FROM t WHERE id = 1")
    spark.sql(f"INSERT INTO {t} VALUES (3, 'c')")
    assert [row.id for row in spark.sql(f"FROM {t} ORDER BY id").collect()] == [2, 3]
    spark.sql(f"UPDATE {t} SET name = 'z' WHERE id = 3")
    assert duck.run("FROM t ORDER BY id") == [(2, "b"), (3, "z")]
    spark.sql(
        f"CREATE TABLE {namespace}.s (id BIGINT, day DATE) USING iceberg PARTITIONED BY (month(day)) "
        "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    spark.sql(f"INSERT INTO {namespace}.s VALUES (1, DATE'2013-01-01'), (2, DATE'2013-01-02'), (3, DATE'2013-02-01')")
    spark.sql(f"DELETE FROM {namespace}.s WHERE id = 2")
    assert duck.run("SELECT id FROM s ORDER BY id") == [(1,), (3,)]
    assert duck.run("SELECT id FROM s WHERE day < DATE '2013-02-01'") == [(1,)]
    duck.run("DELETE FROM s WHERE id = 1")
    assert [row.id for row in spark.sql(f"FROM {namespace}.s").collect()] == [3]
