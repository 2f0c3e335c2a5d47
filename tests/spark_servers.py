"""Spark elsewhere than in the test's process: a standalone cluster and a Connect server, as programs on loopback.

They take free ports, little memory, and end with the context.  What was executed where is read from Spark's own event
log, which the programs and drivers are told to write.  Knows nothing of the pipeline.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from nessie_ops.runtime import jvm
from nessie_ops.runtime.jars import ensure_jar, spark_jars
from nessie_ops.runtime.java import find_java
from tests.ports import free_port

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


@contextmanager
def connect_server(folder: Path, **settings: str) -> Iterator[str]:
    """The address of a Spark Connect server."""
    port = free_port()
    arguments = ["--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    local = jvm.local_settings(ensure_jar()) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    for key, value in (local | settings).items():
        arguments += ["--conf", f"{key}={value}"]
    with spark_program("spark-submit", *arguments, ready_on=port, log=folder / "server.log"):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """The address of a master with so many workers, each of one core; its log is `master.log` in the folder."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    at = ["--host", "127.0.0.1", "--webui-port", "0", "--port"]
    with ExitStack() as cluster:
        arguments = [f"{DEPLOY}.master.Master", *at, str(port)]
        cluster.enter_context(spark_program("spark-class", *arguments, ready_on=port, log=folder / "master.log"))
        for number in range(workers):
            own = free_port()
            work = ["--work-dir", str(folder / f"work-{number}"), "--memory", "1g", "--cores", "1", master]
            arguments = [f"{DEPLOY}.worker.Worker", *at, str(own), *work]
            log = folder / f"worker-{number}.log"
            cluster.enter_context(spark_program("spark-class", *arguments, ready_on=own, log=log))
        yield master


def event_log(folder: Path) -> dict[str, str]:
    """Settings with which a Spark writes all that it does to `folder`."""
    folder.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


def logged(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The events of a kind, such as SparkListenerTaskEnd, of all Sparks that wrote to `folder`."""
    lines = [line for path in folder.iterdir() for line in path.read_text().splitlines()]
    return [event for event in map(json.loads, (line for line in lines if kind in line)) if event["Event"] == kind]
