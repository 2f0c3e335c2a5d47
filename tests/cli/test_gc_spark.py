"""`nessie-ops gc --engine spark`: from options to files that are gone, and which options are refused before that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.gc.properties import Opened
from nessie_ops.gc.spark.session import find_master, parse_settings
from tests.gc.commands import Commands
from tests.gc.disk import DiskLake, small_lake
from tests.gc.killer import find_live

ROOT = Path(__file__).parents[2]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DiskLake]:
    with small_lake(tmp_path) as lake:
        yield lake


@pytest.mark.spark
def test_a_collection_on_a_spark_of_its_own(lake: DiskLake, tmp_path: Path) -> None:
    words = ["gc", "gc", "-c", "1", "--inmemory", "--max-deletion-share", "1", "--store", lake.store, "--json"]
    words += ["--engine", "spark", "--spark-master", "local[1]", "--spark-conf", "spark.sql.shuffle.partitions=2"]
    environment = os.environ | {"NESSIE_OPS_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    live, before = find_live(lake), set(lake.list_files())
    done = subprocess.run(
        [sys.executable, "-m", "nessie_ops", *words], env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["liveSet"]["status"] == "EXPIRY_SUCCESS"
    assert found["report"]["states"]["deleted"]["files"] == len(before - live)
    assert set(lake.list_files()) == live


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--engine", "flink"], "use local or spark"),
        (["--engine", "spark", "--bloom"], "always exact"),
        (["--spark-master", "local[2]"], "--engine spark"),
        (["--engine", "spark", "--spark-conf", "spark.executor.cores"], "spark.NAME=VALUE"),
        (["--engine", "spark", "--spark-conf", "hadoop.x=1"], "spark.NAME=VALUE"),
    ],
)
def test_options_that_cannot_be_read(words: list[str], told: str) -> None:
    assert told in Commands().run("gc", "-c", "1", *words, code=2).output


def test_settings_of_spark() -> None:
    assert parse_settings(["spark.a=b=c,d", "spark.jars=x,y"]) == {"spark.a": "b=c,d", "spark.jars": "x,y"}
    with pytest.raises(BadRequest, match="spark-conf"):
        parse_settings(["spark.a"])


def test_where_spark_is(tmp_path: Path) -> None:
    remote = {"SPARK_REMOTE": "sc://host"}
    ours = {"NESSIE_OPS_SPARK_MASTER": "yarn"}
    folder = {"SPARK_CONF_DIR": str(tmp_path)}
    assert find_master("", {}) == find_master("", folder) == "local[*]"
    assert find_master("", folder | remote) == "sc://host"
    assert find_master("", remote | ours) == "yarn"
    assert find_master("local[3]", remote | ours) == "local[3]"
    (tmp_path / "spark-defaults.conf").write_text("spark.master yarn")
    assert find_master("", folder) == ""


def test_keys_go_to_the_workers_and_into_no_text() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_REGION": "eu-west-1"}
    found = Opened.here({}, environment)
    assert dict(found.properties) == {
        "s3.access-key-id": "id",
        "s3.secret-access-key": "hush",
        "client.region": "eu-west-1",
    }
    assert "hush" not in f"{found!r} {found}"
    given = Opened.here({"s3.access-key-id": "other", "s3.secret-access-key": "quiet"}, environment)
    assert dict(given.properties)["s3.access-key-id"] == "other"
    assert hash(found) != hash(given)
