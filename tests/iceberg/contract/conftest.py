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
from tests.iceberg.contract.helpers import SCHEMA
from tests.iceberg.deployments import Deployment


@pytest.fixture(params=["file"])
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
