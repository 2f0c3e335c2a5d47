"""Lakes and live-set databases in memory, on a disk and on S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from moto.server import ThreadedMotoServer

from nessie_ops.catalog.stores import S3
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import Lake
from tests.gc.lakes import LocalLake, S3Lake


@pytest.fixture
def lake() -> Iterator[Lake]:
    lake = Lake()
    yield lake
    lake.close()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalLake]:
    (tmp_path / "lake").mkdir()
    lake = LocalLake(tmp_path / "lake")
    yield lake
    lake.close()


@pytest.fixture
def sets(tmp_path: Path) -> Iterator[LiveSets]:
    sets = LiveSets.open(f"sqlite:///{tmp_path}/sets.db")
    yield sets
    sets.close()


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The URL of an S3 server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(endpoint: str) -> S3Files:
    """What the collector reaches that server by."""
    return S3Files(
        Access(s3=S3(endpoint=endpoint, region="us-east-1", path_style=True), key_id="key", secret="hush hush")
    )


@pytest.fixture
def client(endpoint: str) -> Iterator[Any]:
    """A client of that server, and an empty bucket `bucket`."""
    client = botocore.session.Session().create_client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="key", aws_secret_access_key="x"
    )
    client.create_bucket(Bucket="bucket")
    yield client
    found = client.list_objects_v2(Bucket="bucket").get("Contents", ())
    for row in found:
        client.delete_object(Bucket="bucket", Key=row["Key"])
    client.delete_bucket(Bucket="bucket")


@pytest.fixture
def s3_lake(client: Any) -> Iterator[S3Lake]:
    lake = S3Lake(client)
    yield lake
    lake.close()
