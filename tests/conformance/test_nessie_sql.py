"""Spark 3.5 with Nessie's own SQL extensions and NessieCatalog, as they are published, on a server of ours.

One such Spark, in a process of its own, carries out the statements of all tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import TransactionConflict
from nessie_ops.model import NewCatalogTransaction
from nessie_ops.runtime import jvm
from nessie_ops.runtime.home import get_cache
from nessie_ops.runtime.jars import Jar, ensure_jar
from nessie_ops.runtime.java import find_java
from tests.server.helpers import running_server

PINS = Path(".ci/spark35.txt")
PROGRAM = Path(__file__).with_name("nessie_spark.py")
ICEBERG = Jar(
    group="org.apache.iceberg",
    artifact="iceberg-spark-runtime-3.5_2.12",
    version="1.12.0",
    sha256="8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
    size_bytes=48_252_525,
)
NESSIE = Jar(
    group="org.projectnessie.nessie-integrations",
    artifact="nessie-spark-extensions-3.5_2.12",
    version="0.99.0",
    sha256="30a34c3d4981bd26b16f3a6ccf440048105871334bf96b7991f757f794ab3de9",
    size_bytes=2_542_960,
)
EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "org.projectnessie.spark.extensions.NessieSparkSessionExtensions",
)
REFERENCE = [["refType", "string"], ["name", "string"], ["hash", "string"]]
LOG = [[name, "string"] for name in ("author", "committer", "hash", "message", "signedOffBy")]
LOG += [["authorTime", "timestamp"], ["committerTime", "timestamp"], ["properties", "map<string,string>"]]
MERGED = [["name", "string"], ["hash", "string"]]


class Answer(NamedTuple):
    columns: list[list[str]]
    rows: list[list[Any]]


class Nessie:
    """Spark's `nessie` is Iceberg's NessieCatalog, its `rest` the same tables by Iceberg's own API."""

    def __init__(self, process: subprocess.Popen[str], client: NessieClient) -> None:
        self._process, self.client = process, client

    def ask(self, statement: str) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def sql(self, statement: str) -> Answer:
        found = self.ask(statement)
        assert "error" not in found, f"{statement}: {found['error'][:2000]}"
        return Answer(found["columns"], found["rows"])

    def refuse(self, statement: str, pattern: str) -> None:
        said = self.ask(statement).get("error", "")
        assert re.search(pattern, said), f"{statement}: {said[:2000]}"

    def numbers(self, table: str) -> list[int]:
        return sorted(row[0] for row in self.sql(f"SELECT x FROM nessie.{table}").rows)

    def head(self, ref: str) -> str:
        return self.client.get_reference(ref).hash

    def table(self, name: str, *numbers: int) -> None:
        self.sql(f"CREATE TABLE nessie.{name} (x INT) USING iceberg")
        self.sql(f"INSERT INTO nessie.{name} VALUES {', '.join(f'({x})' for x in numbers)}")


def settings(uri: str, warehouse: Path) -> dict[str, str]:
    nessie, rest = "spark.sql.catalog.nessie", "spark.sql.catalog.rest"
    return jvm.local_settings(ensure_jar(ICEBERG)) | {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": f"{ensure_jar(ICEBERG)}:{ensure_jar(NESSIE)}",
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.session.timeZone": "UTC",
        nessie: "org.apache.iceberg.spark.SparkCatalog",
        f"{nessie}.catalog-impl": "org.apache.iceberg.nessie.NessieCatalog",
        f"{nessie}.client-api-version": "2",  # the extensions take 1 to be meant, whatever the address says
        f"{nessie}.uri": f"{uri}/api/v2",
        f"{nessie}.ref": "main",
        f"{nessie}.warehouse": warehouse.as_uri(),
        f"{nessie}.cache-enabled": "false",
        rest: "org.apache.iceberg.spark.SparkCatalog",
        f"{rest}.type": "rest",
        f"{rest}.uri": f"{uri}/iceberg/main",
        f"{rest}.cache-enabled": "false",
    }


@pytest.fixture(scope="module")
def spark(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nessie]:
    home = get_cache() / PINS.read_text().split()[0].replace("==", "-")
    assert home.is_dir(), f"{home} is missing: run `make test`, or sh .ci/spark35.sh with the path of this Python"
    folder = tmp_path_factory.mktemp("nessie")
    warehouse = folder / "warehouse"
    variables = os.environ | jvm.environment(find_java(), is_local=True)
    variables |= {"SPARK_HOME": str(home / "pyspark"), "PYTHONPATH": str(home)}
    with (
        running_server(f"sqlite:///{folder}/catalog.db", f"file://{warehouse}") as uri,
        NessieClient(uri) as client,
        (folder / "spark.log").open("wb") as log,
    ):
        command = [sys.executable, PROGRAM, json.dumps(settings(uri, warehouse))]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=variables, text=True) as process:
            made = Nessie(process, client)
            made.sql("CREATE NAMESPACE nessie.db")
            yield made


@pytest.fixture
def nessie(spark: Nessie) -> Nessie:
    """The same on main."""
    spark.sql("USE nessie")
    spark.sql("USE REFERENCE main")
    return spark


def test_references(nessie: Nessie) -> None:
    main = nessie.head("main")
    made = nessie.sql("CREATE BRANCH dev IN nessie FROM main")
    assert made == Answer(REFERENCE, [["Branch", "dev", main]])
    assert nessie.sql("CREATE BRANCH IF NOT EXISTS dev IN nessie") == made
    nessie.refuse("CREATE BRANCH dev IN nessie", "NessieReferenceAlreadyExistsException.*dev")
    assert nessie.sql("CREATE TAG `run/7-a.b`") == Answer(REFERENCE, [["Tag", "run/7-a.b", main]])
    known = [["Branch", "dev", main], ["Branch", "main", main], ["Tag", "run/7-a.b", main]]
    assert nessie.sql("LIST REFERENCES IN nessie") == Answer(REFERENCE, known)
    assert nessie.sql("LIST REFERENCES STARTING WITH d CONTAINING e IN nessie").rows == known[:1]
    assert nessie.sql("LIST REFERENCES FILTER `refType == 'TAG'` IN nessie").rows == known[2:]
    nessie.client.update_properties("dev", {"owner": "me"})  # of which Nessie knows nothing
    assert nessie.sql("LIST REFERENCES").rows == known

    assert nessie.sql("USE REFERENCE dev IN nessie") == made == nessie.sql("SHOW REFERENCE IN nessie")
    nessie.sql("CREATE NAMESPACE nessie.dev_only")
    ahead = nessie.head("dev")
    assert nessie.sql("SHOW REFERENCE main").rows == [["Branch", "main", main]]
    assert nessie.sql("ASSIGN TAG `run/7-a.b` TO dev IN nessie") == Answer(REFERENCE, [["Tag", "run/7-a.b", ahead]])
    assert nessie.sql(f"ASSIGN BRANCH dev TO dev AT {main} IN nessie").rows == [["Branch", "dev", main]]
    assert nessie.sql("ASSIGN BRANCH dev TO `run/7-a.b`").rows == [["Branch", "dev", ahead]]
    nessie.sql("USE REFERENCE main")
    for name in ("BRANCH dev", "TAG `run/7-a.b`"):
        assert nessie.sql(f"DROP {name} IN nessie") == Answer([["status", "string"]], [["OK"]])
    assert nessie.sql("DROP BRANCH IF EXISTS dev IN nessie").rows == [["OK"]]
    nessie.refuse("DROP BRANCH dev IN nessie", "NessieReferenceNotFoundException.*dev")
    nessie.refuse("USE REFERENCE dev IN nessie", "NessieReferenceNotFoundException.*dev")
    nessie.refuse("DROP BRANCH main IN nessie", "(?i)default branch")
    nessie.refuse("CREATE BRANCH `no..name` IN nessie", "(?i)reference name")
    nessie.refuse("CREATE BRANCH IN nessie", "ParseException")


def test_tables_on_references(nessie: Nessie) -> None:
    nessie.table("db.t", 1)
    for statement in ("CREATE TAG first", "CREATE BRANCH side", "USE REFERENCE side"):
        nessie.sql(statement)
    before = nessie.head("side")
    nessie.sql("INSERT INTO nessie.db.t VALUES (2)")
    nessie.sql("DELETE FROM nessie.db.t WHERE x = 1")
    assert nessie.numbers("db.t") == [2] and nessie.numbers("db.`t@main`") == [1] == nessie.numbers("db.`t@first`")
    nessie.sql("USE REFERENCE first")
    nessie.refuse("INSERT INTO nessie.db.t VALUES (3)", "only mutate tables/views when using a branch")
    assert nessie.sql(f"USE REFERENCE side AT {before}").rows == [["Branch", "side", before]]
    assert nessie.numbers("db.t") == [1]
    written = nessie.client.get_commit(nessie.client.list_log(nessie.head("side"), limit=2)[1].commit_meta.hash)
    then = written.commit_time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert nessie.sql(f"USE REFERENCE side AT `{then}`").rows == [["Branch", "side", written.hash]]
    assert nessie.numbers("db.t") == [1, 2]
    nessie.refuse("USE REFERENCE side AT `1999-01-01T00:00:00Z`", "NessieReferenceNotFoundException")


def test_log(nessie: Nessie) -> None:
    nessie.table("db.logged", 1, 2)
    found = nessie.sql("SHOW LOG main LIMIT 2 IN nessie")
    entries = nessie.client.list_log(nessie.head("main"), limit=2)
    assert found.columns == LOG and len(found.rows) == 2
    for row, entry in zip(found.rows, entries):
        meta = entry.commit_meta
        properties = {name: value for name, [value] in meta.all_properties.items()}
        assert row[:5] == [meta.authors[0], meta.committer, meta.hash, meta.message, ""]
        assert row[5] == row[6] == str(meta.commit_time.replace(tzinfo=None)) and row[7] == properties
    assert len(nessie.sql("SHOW LOG ON BRANCH main").rows) > 2
    assert nessie.sql(f"SHOW LOG main AT {entries[1].commit_meta.hash} LIMIT 1").rows == found.rows[1:]


def test_merges(nessie: Nessie) -> None:
    nessie.table("db.m", 1)
    nessie.table("db.n", 1)
    main = nessie.head("main")
    nessie.sql("CREATE BRANCH work")
    nessie.sql("USE REFERENCE work")
    for name in ("m", "n"):
        nessie.sql(f"INSERT INTO nessie.db.{name} VALUES (2)")
    assert nessie.sql("MERGE DRY BRANCH work INTO main IN nessie").columns == MERGED
    assert nessie.head("main") == main
    nessie.sql("USE REFERENCE main")
    nessie.sql("INSERT INTO nessie.db.m VALUES (7)")
    nessie.refuse("MERGE BRANCH work INTO main IN nessie", "(?s)NessieReferenceConflictException.*db.m")
    merged = nessie.sql("MERGE BRANCH work INTO main BEHAVIOR NORMAL BEHAVIORS `db.m` = DROP IN nessie")
    assert merged == Answer(MERGED, [["main", nessie.head("main")]])
    assert nessie.numbers("db.m") == [1, 7] and nessie.numbers("db.n") == [1, 2]
    nessie.sql("CREATE BRANCH again FROM work")
    nessie.sql("USE REFERENCE again")
    nessie.sql("INSERT INTO nessie.db.m VALUES (3)")
    nessie.sql("MERGE BRANCH again INTO main BEHAVIOR FORCE")
    assert nessie.numbers("db.`m@main`") == [1, 2, 3]


def test_a_transaction(nessie: Nessie) -> None:
    """What NessieCatalog reads through a transaction's branch is seen by the server, and nothing else."""
    for name in ("db.read", "db.other", "db.written"):
        nessie.table(name, 1)

    def move_while_others_write(to: str) -> str:
        begun = nessie.client.begin_transaction(NewCatalogTransaction())
        nessie.sql(f"USE REFERENCE `{begun.branch}`")
        nessie.sql("INSERT INTO nessie.db.written SELECT x FROM nessie.db.read")
        nessie.sql("USE REFERENCE main")
        assert nessie.numbers("db.written") == [1]
        nessie.sql(f"INSERT INTO nessie.{to} VALUES (2)")
        return begun.id

    refused = move_while_others_write("db.read")
    with pytest.raises(TransactionConflict, match=r"key 'db\.read' was read"):
        nessie.client.commit_transaction(refused)
    nessie.client.rollback_transaction(refused)
    nessie.client.commit_transaction(move_while_others_write("db.other"))
    assert nessie.numbers("db.written") == [1, 1, 2]


def test_by_icebergs_own_api(nessie: Nessie) -> None:
    """The extensions find Nessie's API by what the Iceberg REST catalog says of itself."""
    nessie.table("db.r", 1)
    nessie.sql("USE rest")
    nessie.sql("CREATE BRANCH by_rest")
    assert nessie.sql("USE REFERENCE by_rest").columns == REFERENCE
    nessie.sql("INSERT INTO rest.db.r VALUES (2)")
    assert nessie.sql("SHOW REFERENCE").rows == [["Branch", "by_rest", nessie.head("by_rest")]]
    assert nessie.numbers("db.r") == [1]
    nessie.sql("MERGE BRANCH by_rest INTO main")
    assert nessie.numbers("db.r") == [1, 2]
    nessie.sql("USE REFERENCE main")
