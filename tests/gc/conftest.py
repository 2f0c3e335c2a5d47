"""Lakes and live-set databases in memory, on a disk and on S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.store.livesets import LiveSets
from resources.spark import EnvironmentSpark
from tests.buckets import Buckets
from tests.gc.lake import Lake
from tests.gc.lakes import LocalLake, S3Lake


@pytest.fixture(scope="session")
def spark(environment: None) -> SparkSession:
    """The one Spark of the session."""
    return EnvironmentSpark().spark_session


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


@pytest.fixture
def s3(buckets: Buckets) -> S3Files:
    """What the collector reaches S3 by."""
    return S3Files(Access(s3=buckets.settings, key_id=buckets.key, secret=buckets.secret))


@pytest.fixture
def client(buckets: Buckets) -> Iterator[Any]:
    """A client of that server, and an empty bucket `bucket`."""
    client = buckets.client()
    client.create_bucket(Bucket="bucket")
    yield client
    for row in client.list_objects_v2(Bucket="bucket").get("Contents", ()):
        client.delete_object(Bucket="bucket", Key=row["Key"])
    client.delete_bucket(Bucket="bucket")


@pytest.fixture
def s3_lake(client: Any) -> Iterator[S3Lake]:
    lake = S3Lake(client)
    yield lake
    lake.close()
