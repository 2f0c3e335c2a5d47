"""A warehouse on S3: Spark gets what it needs, and the keys in the environment get nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nessie_ops.errors import BadRequest, StoreUnavailable
from nessie_ops.runtime import jvm
from nessie_ops.runtime.jars import ICEBERG_AWS, ICEBERG_RUNTIME
from nessie_ops.runtime.java import find_java
from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, spark_config
from tests.buckets import Buckets
from tests.ports import free_port
from tests.server.helpers import running_server

PROGRAM = Path(__file__).with_name("s3_client.py")


@pytest.mark.spark
def test_a_run_and_its_secret(buckets: Buckets, tmp_path: Path) -> None:
    """The secret is in no event, log or configuration of the run, in no file of the instance, and is not printed."""
    bucket = buckets.create()
    settings = {
        "NESSIE_OPS_HOME": str(tmp_path),
        "DAGSTER_HOME": str(tmp_path / "dagster"),
        "NESSIE_OPS_WAREHOUSE": f"s3a://{bucket}/wh",
        "NESSIE_OPS_SPARK_S3": "",  # that the catalog is on S3 must suffice
        "PYTHONPATH": str(PROGRAM.parents[2]),
    }
    environment = os.environ | buckets.environment | settings
    done = subprocess.run([sys.executable, PROGRAM], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["sum"] == sum(number * number for number in range(1000))
    assert found["failed"] == ["lost"]
    assert any(f"s3://{bucket}/wh/numbers/" in event for event in found["events"]), "Spark's error names the file"
    files = [path.read_bytes() for path in (tmp_path / "dagster").rglob("*") if path.is_file()]
    assert any(bucket.encode() in text for text in files), "what is searched holds the run"
    for secret in (buckets.secret, buckets.key):
        assert secret not in done.stdout + done.stderr
        assert not any(secret.encode() in text for text in files)


def test_whether_the_catalog_is_on_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not CatalogResource().is_on_s3()
    monkeypatch.setenv("NESSIE_OPS_ALLOWED_LOCATIONS", "/srv/old,s3n://imports")
    assert CatalogResource().is_on_s3()
    monkeypatch.setenv("NESSIE_OPS_WAREHOUSE", "s3://lake/wh")
    with running_server() as uri:
        assert not CatalogResource(uri=uri).is_on_s3(), "the warehouse is the server's"
    nowhere = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailable, match="does not tell"):
        CatalogResource(uri=nowhere).is_on_s3()


def test_the_class_path_ends_with_the_aws_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind all that the class-data archive knows; what a person has there stays."""
    bundle = Path("/jars/aws.jar")
    monkeypatch.setenv("SPARK_DIST_CLASSPATH", "/mine.jar")
    assert "SPARK_DIST_CLASSPATH" not in jvm.environment(find_java(), is_local=True)
    for _ in range(2):
        variables = jvm.environment(find_java(), is_local=True, last=[bundle])
        assert variables["SPARK_DIST_CLASSPATH"] == "/jars/aws.jar:/mine.jar"
        monkeypatch.setenv("SPARK_DIST_CLASSPATH", variables["SPARK_DIST_CLASSPATH"])


def test_a_cluster_gets_both_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_SPARK_MASTER", "spark://cluster:7077")
    settings = spark_config([Path("/jars") / ICEBERG_AWS.file_name])
    names = [ICEBERG_RUNTIME.file_name, ICEBERG_AWS.file_name]
    assert [Path(path).name for path in settings["spark.jars"].split(",")] == names
    assert [Path(path).name for path in settings["spark.driver.extraClassPath"].split(":")] == names


def test_the_switch_is_true_or_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.spark._sessions", {})
    monkeypatch.setenv("NESSIE_OPS_SPARK_S3", "perhaps")
    with pytest.raises(BadRequest, match="NESSIE_OPS_SPARK_S3: write true or false"):
        EnvironmentSpark().start(lambda: False)
