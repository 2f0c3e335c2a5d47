"""The same asset on a Spark Connect server and on a standalone cluster, by settings of the environment alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_servers import ON_LOOPBACK, connect_server, standalone_cluster

pytestmark = pytest.mark.spark

CLIENT = Path(__file__).with_name("lake_client.py")
FORKED = Path(__file__).with_name("forked_client.py")


def run_client(home: Path, program: Path = CLIENT, **environment: str) -> Any:
    """The last line that `program` prints, which is JSON."""
    settings = os.environ | {"NESSIE_OPS_HOME": str(home), "PYTHONPATH": str(CLIENT.parents[2])} | environment
    done = subprocess.run([sys.executable, program], env=settings, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def expected(spark: str) -> dict[str, object]:
    total = sum(number * number for number in range(1000))
    shared = {"succeeded": True, "sum": total, "on_main": False, "time_zone": "UTC", "handler_kept": True}
    return {"spark": spark, **shared}


def test_spark_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:
        found = run_client(tmp_path, SPARK_REMOTE=address)
    assert found == expected("pyspark.sql.connect.session")


def test_standalone_cluster(tmp_path: Path) -> None:
    with standalone_cluster(tmp_path, workers=1) as master:
        found = run_client(tmp_path, NESSIE_OPS_SPARK_MASTER=master, NESSIE_OPS_SPARK_CONF=json.dumps(ON_LOOPBACK))
        assert "Launching executor" in (tmp_path / "master.log").read_text()
    assert found == expected("pyspark.sql.session")


def test_a_forked_process_has_a_spark_of_its_own(tmp_path: Path) -> None:
    assert run_client(tmp_path, FORKED) == 2
