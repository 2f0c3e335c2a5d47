"""What PyIceberg and Spark promise of every catalog, tried on this one, on each kind of warehouse.

PyIceberg is tried over REST, and over the store without a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.server.embedded import ensure_embedded
from tests.buckets import Buckets
from tests.iceberg.contract.helpers import SCHEMA
from tests.iceberg.deployments import Deployment

S3FS = "pyiceberg.io.fsspec.FsspecFileIO"


@pytest.fixture(scope="session")
def s3_deployment(buckets: Buckets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """A bucket, of which the server finds the keys in its environment, and each client in its properties."""
    warehouse = f"s3://{buckets.create()}/warehouse"
    store_url = f"sqlite:///{tmp_path_factory.mktemp('s3-store')}/catalog.db"
    keys = {"s3.access-key-id": buckets.key, "s3.secret-access-key": buckets.secret}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in buckets.environment.items():
            patch.setenv(name, value)
        base_uri = ensure_embedded(store_url, warehouse, s3=buckets.settings)
        yield Deployment(warehouse, store_url, base_uri, {**keys, "py-io-impl": S3FS}, keys)


@pytest.fixture(params=["file", "s3"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each kind of warehouse: what the fixture `<kind>_deployment` gives.  No test here assumes which one it is."""
    found: Deployment = request.getfixturevalue(f"{request.param}_deployment")
    return found


@pytest.fixture
def nessie(deployment: Deployment) -> Iterator[NessieClient]:
    with NessieClient(deployment.base_uri) as client:
        yield client


@pytest.fixture
def catalog(connect: Callable[[str], Catalog]) -> Catalog:
    return connect("main")


@pytest.fixture
def db(catalog: Catalog, namespace: str) -> str:
    catalog.create_namespace(namespace)
    return namespace


@pytest.fixture
def table(catalog: Catalog, db: str) -> Table:
    return catalog.create_table(f"{db}.t", SCHEMA)


@pytest.fixture
def cities() -> pa.Table:
    return pa.table({"city": ["Ulm", "Köln", "大阪"], "people": [126, 1084, 2753]})


@pytest.fixture
def branch(new_branch: Callable[[], str]) -> str:
    return new_branch()


@pytest.fixture
def spark(spark_on: Callable[..., SparkSession], branch: str) -> SparkSession:
    """A session whose tables are those of `branch`."""
    return spark_on(prefix=quote(branch, safe=""))


@pytest.fixture
def spark_db(spark: SparkSession, namespace: str) -> str:
    """A namespace on `branch`."""
    spark.sql(f"CREATE NAMESPACE {namespace}")
    return namespace
