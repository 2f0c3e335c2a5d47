"""Warehouses: an S3 server of this machine with a bucket for each side, or a folder; and what was asked of them.

The S3 server is moto, which the pins hold, or a faster versitygw, whose program is named.  Both write a line per
request (the one `"PUT /bucket/…`, the other `bucket […] … s3_PutObject`), so a side's requests are the lines that name
its bucket.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import boto3

from benchmarks.sides import end, wait_for
from tests.ports import free_port

KEY = "benchmark"
REGION = "us-east-1"


@dataclass
class Objects:
    """A running S3 server."""

    url: str
    log: Path

    def client(self) -> Any:
        names = {"aws_access_key_id": KEY, "aws_secret_access_key": KEY, "region_name": REGION}
        return boto3.client("s3", endpoint_url=self.url, **names)

    def bucket(self, name: str) -> str:
        """The URL of a new bucket."""
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"

    def count(self, bucket: str) -> Counter[str]:
        """Requests so far for what is in a bucket, by method."""
        lines = re.finditer(rf'"([A-Z]+) /{bucket}[/?]| {bucket} \[.* s3_([A-Z][a-z]+)', self.log.read_text())
        return Counter((line[1] or line[2]).upper() for line in lines)

    def put_ms(self, bucket: str, size: int, times: int = 50) -> float:
        """Median milliseconds of a request that writes so many bytes: what a commit cannot be faster than."""
        client, took = self.client(), []
        for n in range(times):
            start = time.perf_counter()
            client.put_object(Bucket=bucket, Key=f"put/{n}", Body=bytes(size))
            took.append(time.perf_counter() - start)
        return median(took) * 1e3

    def for_ours(self) -> dict[str, str]:
        """The environment of this project's server."""
        names = {"AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION, "AWS_REGION": REGION}
        return {**names, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": KEY}

    def for_peer(self, bucket: str) -> dict[str, str]:
        """The settings of a Nessie server."""
        options, secret = "nessie.catalog.service.s3.default-options", "benchmark.s3"
        return {
            "nessie.catalog.default-warehouse": "warehouse",
            "nessie.catalog.warehouses.warehouse.location": f"s3://{bucket}/",
            f"{options}.endpoint": f"{self.url}/",
            f"{options}.path-style-access": "true",
            f"{options}.region": REGION,
            f"{options}.access-key": f"urn:nessie-secret:quarkus:{secret}",
            f"{secret}.name": KEY,
            f"{secret}.secret": KEY,
        }


def count_files(folder: Path) -> Counter[str]:
    """Files below a folder."""
    return Counter(files=sum(path.is_file() for path in folder.rglob("*")))


@contextmanager
def s3_server(folder: Path, versitygw: Path | None) -> Iterator[Objects]:
    """An S3 server with no buckets."""
    folder.mkdir()
    port, log, output = free_port(), folder / "requests", folder / "output"
    url = f"http://127.0.0.1:{port}"
    if versitygw:
        (folder / "data").mkdir()
        settings = ["--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", KEY, "--access-log", str(log)]
        command = [str(versitygw), *settings, "--health", "/health", "posix", str(folder / "data")]
    else:
        command, log = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], output
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wait_for(f"{url}/health" if versitygw else f"{url}/moto-api/", process, output)
        yield Objects(url, log)
    finally:
        end(process)
