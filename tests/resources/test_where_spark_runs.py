"""The same asset on a Spark Connect server, by settings of the environment alone, and in a forked process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark_servers import connect_server

pytestmark = pytest.mark.spark

CLIENT = Path(__file__).with_name("lake_client.py")
FORKED = Path(__file__).with_name("forked_client.py")


def run_client(home: Path, program: Path = CLIENT, **environment: str) -> Any:
    """The last line that `program` prints, which is JSON."""
    settings = os.environ | {"NESSIE_OPS_HOME": str(home), "PYTHONPATH": str(CLIENT.parents[2])} | environment
    done = subprocess.run([sys.executable, program], env=settings, cwd=home, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_spark_connect(tmp_path: Path) -> None:
    with connect_server(tmp_path) as address:
        found = run_client(tmp_path, SPARK_REMOTE=address)
    assert found == {
        "succeeded": True,
        "spark": "pyspark.sql.connect.session",
        "sum": sum(number * number for number in range(1000)),
        "on_main": False,
        "time_zone": "UTC",
        "outside": False,
        "left": 997,
        "level": "SERIALIZABLE",
        "handler_kept": True,
    }


def test_a_forked_process_has_a_spark_of_its_own(tmp_path: Path) -> None:
    assert run_client(tmp_path, FORKED) == 2
