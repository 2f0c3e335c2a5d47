"""S3 servers that tests start, use and stop.

moto runs in a thread, has STS, and checks no signature; versitygw is a program, and checks them all.  A server's
secret is a word of its own, so that a test can search for it wherever it must not be.
"""

from __future__ import annotations

import itertools
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nessie_ops.catalog import S3
from tests.ports import free_port

REGION = "us-east-1"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Buckets:
    """An S3 server and the keys of one who may do everything."""

    endpoint: str
    key: str = "AKIAOFNESSIEOPSTESTS"
    secret: str = field(default_factory=lambda: f"secret-{secrets.token_hex(12)}")

    @property
    def settings(self) -> S3:
        return S3(endpoint=self.endpoint, region=REGION, path_style=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs that may do everything."""
        where = {"NESSIE_OPS_S3_ENDPOINT": self.endpoint, "NESSIE_OPS_S3_PATH_STYLE": "true", "AWS_REGION": REGION}
        return where | {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret}

    def client(self) -> Any:
        """Of S3, by boto3."""
        import boto3  # here, since most tests need neither it nor moto, and both take a second

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )

    def create(self) -> str:
        """The name of a new bucket."""
        name = f"lake-{next(_numbers)}"
        self.client().create_bucket(Bucket=name)
        return name


@contextmanager
def moto() -> Iterator[Buckets]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield Buckets(f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def versitygw(binary: Path, folder: Path) -> Iterator[Buckets]:
    """versitygw over `folder`, with what it must remember of objects, such as the tags of their parts, beside that."""
    memory = folder.with_name(f"memory-of-{folder.name}")
    memory.mkdir()
    port = free_port()
    found = Buckets(f"http://127.0.0.1:{port}")
    command = [binary, "--access", found.key, "--secret", found.secret, "--region", REGION]
    command += ["--port", f"127.0.0.1:{port}", "--quiet", "posix", "--sidecar", str(memory), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not _listens(port):
            time.sleep(0.02)
        assert process.poll() is None, f"versitygw ended with {process.returncode}"
        yield found
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
