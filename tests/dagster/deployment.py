"""What docs/deploy/compose.yaml starts, as processes of this machine: its commands, its environment, its files.

Only addresses differ: a container's name and port become 127.0.0.1 and a free port, the volume a folder, and the
database and object store are those of the tests.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml
from sqlalchemy import make_url

from tests.buckets import Buckets
from tests.dagster.web import wait_for
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"
OURS = "nessie-ops:latest"
HEALTH = {"catalog": "/health", "webserver": "/server_info"}


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file by name, merged with what they have in common."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    return found


class Deployment(NamedTuple):
    """A running one: the webserver's port, the catalog's address, Dagster's home and what its processes are told."""

    port: int
    catalog: str
    home: Path
    environment: Mapping[str, str]


class Addresses:
    """What stands in the compose file, and what stands for it here."""

    def __init__(self, folder: Path, databases: Mapping[str, str], buckets: Buckets, bucket: str) -> None:
        self.ports = {"catalog:19120": free_port(), "code:4000": free_port(), "webserver:3000": free_port()}
        (folder / "dagster").mkdir()
        for name in ("dagster.yaml", "workspace.yaml"):
            (folder / "dagster" / name).write_text((DEPLOY / name).read_text())
        self._texts = {"/data": str(folder), "/app": str(ROOT), "0.0.0.0": "127.0.0.1", "local[*]": "local[2]"}
        self._texts |= {"http://objects:7070": buckets.endpoint, "s3://lake": f"s3://{bucket}", '"lake"': f'"{bucket}"'}
        self._texts |= {"${NESSIE_S3_KEY}": buckets.key, "${NESSIE_S3_SECRET}": buckets.secret}
        for name, url in databases.items():
            server = make_url(url)
            login = f"{server.username}:{server.password or ''}@{server.host}:{server.port}/{server.database}"
            self._texts[f"nessie:${{NESSIE_DB_PASSWORD}}@db:5432/{name}"] = login
        for address, port in self.ports.items():
            self._texts[address] = f"127.0.0.1:{port}"
            self._texts[f"--port={address.partition(':')[2]}"] = f"--port={port}"

    def put(self, text: str) -> str:
        for there, here in self._texts.items():
            text = text.replace(there, here)
        return text

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        given = {name: self.put(value) for name, value in service["environment"].items()}
        own = {"DAGSTER_CODE_HOST": "127.0.0.1", "DAGSTER_CODE_PORT": str(self.ports["code:4000"])}
        return {**given, **own, "PYTHONPATH": str(ROOT)}

    def command(self, service: Mapping[str, Any]) -> list[str]:
        """The service's, with programs of this environment; `nessie-ops` is the image's own entry point."""
        program = service.get("entrypoint", ["nessie-ops"])[0]
        python = {"python": [sys.executable], "nessie-ops": [sys.executable, "-m", "nessie_ops"]}
        words = python.get(program, [str(Path(sys.executable).parent / program)])
        return [*words, *(self.put(word) for word in service["command"])]


@contextmanager
def deployment(
    folder: Path, databases: Mapping[str, str], buckets: Buckets, bucket: str, **environment: str
) -> Iterator[Deployment]:
    """The services of our image, each started when those that it depends on are healthy."""
    addresses = Addresses(folder, databases, buckets, bucket)
    own = addresses.environment(services()["webserver"])
    with ExitStack() as running:
        for name, service in services().items():
            if service["image"] != OURS:
                continue
            log = folder / f"{name}.log"
            given = {**os.environ, **addresses.environment(service), **environment}
            process = running.enter_context(_process(addresses.command(service), given, log))
            if service["restart"] == "on-failure":
                assert process.wait(timeout=120) == 0, log.read_text()
            else:
                wait_for(name, lambda n=name, p=process, g=log: _is_healthy(n, addresses, p, g))
        yield Deployment(
            addresses.ports["webserver:3000"],
            f"http://127.0.0.1:{addresses.ports['catalog:19120']}",
            folder / "dagster",
            own,
        )


@contextmanager
def _process(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _is_healthy(name: str, addresses: Addresses, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-3000:]
    if name == "code":
        program = str(Path(sys.executable).parent / "dagster")
        check = [program, "api", "grpc-health-check", "--port", str(addresses.ports["code:4000"])]
        return subprocess.run(check, capture_output=True).returncode == 0
    if name not in HEALTH:
        return True
    port = next(port for address, port in addresses.ports.items() if address.startswith(f"{name}:"))
    try:
        return httpx.get(f"http://127.0.0.1:{port}{HEALTH[name]}").is_success
    except httpx.TransportError:
        return False
