"""The same asset on a Spark Connect server and on a standalone cluster, by settings of the environment alone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.runtime import jvm
from nessie_ops.runtime.jars import ensure_jar, spark_jars
from nessie_ops.runtime.java import find_java
from tests.ports import free_port

pytestmark = pytest.mark.spark

CLIENT = Path(__file__).with_name("lake_client.py")
FORKED = Path(__file__).with_name("forked_client.py")
DEPLOY = "org.apache.spark.deploy"
START_TIMEOUT_S = 120
ON_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.log.level": "FATAL"}


@contextmanager
def spark_program(script: str, *arguments: str, ready_on: int, log: Path) -> Iterator[None]:
    """Spark's own `script` while inside, entered once it listens on the port `ready_on`."""
    environment = os.environ | jvm.environment(find_java(), is_local=True)
    with log.open("wb") as output:
        command = [spark_jars().parent / "bin" / script, *arguments]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not listens(ready_on):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


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
    port = free_port()
    arguments = ["--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    settings = jvm.local_settings(ensure_jar()) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    for key, value in settings.items():
        arguments += ["--conf", f"{key}={value}"]
    with spark_program("spark-submit", *arguments, ready_on=port, log=tmp_path / "server.log"):
        found = run_client(tmp_path, SPARK_REMOTE=f"sc://127.0.0.1:{port}")
    assert found == expected("pyspark.sql.connect.session")


def test_standalone_cluster(tmp_path: Path) -> None:
    port, worker_port = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    at = ["--host", "127.0.0.1", "--webui-port", "0", "--port"]
    work = ["--work-dir", str(tmp_path / "work"), "--memory", "1g", "--cores", "2", master]
    with ExitStack() as cluster:
        logs = (tmp_path / "master.log", tmp_path / "worker.log")
        for arguments, ready_on, log in (
            ([f"{DEPLOY}.master.Master", *at, str(port)], port, logs[0]),
            ([f"{DEPLOY}.worker.Worker", *at, str(worker_port), *work], worker_port, logs[1]),
        ):
            cluster.enter_context(spark_program("spark-class", *arguments, ready_on=ready_on, log=log))
        found = run_client(tmp_path, NESSIE_OPS_SPARK_MASTER=master, NESSIE_OPS_SPARK_CONF=json.dumps(ON_LOOPBACK))
        assert "Launching executor" in logs[0].read_text()
    assert found == expected("pyspark.sql.session")


def test_a_forked_process_has_a_spark_of_its_own(tmp_path: Path) -> None:
    assert run_client(tmp_path, FORKED) == 2
