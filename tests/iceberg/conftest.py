"""One server for these tests, and the clients that use it: raw HTTP, PyIceberg and Spark.

PyIceberg uses the catalog in two ways, each test in both: over REST, and over the server's store without the server.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

import httpx
import pytest
from pyiceberg.catalog import Catalog
from pyspark.sql import SparkSession

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from nessie_ops.server.embedded import ensure_embedded
from resources.spark import SparkLake
from tests.iceberg.deployments import Deployment, open_spark, over_rest, without_server
from tests.iceberg.helpers import SCHEMA, Json, create
from tests.iceberg.sites import VERSION, Site

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tmp_path_factory.mktemp("iceberg-warehouse").as_uri()


@pytest.fixture(scope="session")
def store_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SQLAlchemy URL of the server's store."""
    return f"sqlite:///{tmp_path_factory.mktemp('iceberg-store')}/catalog.db"


@pytest.fixture(scope="session")
def base_uri(store_url: str, warehouse: str) -> str:
    """The root of a running server."""
    return ensure_embedded(store_url, warehouse)


@pytest.fixture(scope="session")
def nessie(base_uri: str) -> Iterator[NessieClient]:
    with NessieClient(base_uri) as client:
        yield client


@pytest.fixture(scope="session")
def http(base_uri: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{base_uri}/iceberg", timeout=60) as client:
        yield client


@pytest.fixture(params=["main", "slash"])
def ref(request: pytest.FixtureRequest, new_branch: Callable[[], str]) -> str:
    """The name of a branch: the default one, and a new one whose name holds a slash."""
    return "main" if request.param == "main" else new_branch()


@pytest.fixture
def new_branch(nessie: NessieClient) -> Callable[[], str]:
    """A function that makes a branch with a slash in its name at the head of main."""

    def create() -> str:
        head = nessie.get_reference("main").hash
        return nessie.create_reference(ReferenceType.BRANCH, f"run/{next(_numbers)}", head).name

    return create


@pytest.fixture
def namespace() -> str:
    """A name that no other test uses."""
    return f"db{next(_numbers)}"


@pytest.fixture
def db(http: httpx.Client, namespace: str) -> str:
    assert http.post("/v1/main/namespaces", json={"namespace": [namespace]}).status_code == 200
    return f"/v1/main/namespaces/{namespace}"


@pytest.fixture
def table(http: httpx.Client, db: str) -> Json:
    return create(http, db, "t")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root, store = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("store")
    for folder in ("wh", "wh2", "allowed", "outside"):
        (root / folder).mkdir()
    (root / "outside" / "x").write_text("{}")
    uri = ensure_embedded(f"sqlite:///{store}/catalog.db", f"{root}/wh", ((root / "allowed").as_uri(),))
    with httpx.Client(base_url=f"{uri}/iceberg/v1/main", timeout=60) as http, NessieClient(uri) as nessie:
        assert http.post("/namespaces", json={"namespace": ["db"]}).status_code == 200
        view = http.post("/namespaces/db/views", json={"name": "v", "schema": SCHEMA, "view-version": VERSION})
        yield Site(root, http, nessie, create(http, "/namespaces/db", "t"), view.json())


@pytest.fixture(scope="session")
def file_deployment(base_uri: str, store_url: str, warehouse: str) -> Deployment:
    """Local files, and the server that these tests share."""
    return Deployment(warehouse, store_url, base_uri)


@pytest.fixture
def deployment(file_deployment: Deployment) -> Deployment:
    """What `connect` and `spark_on` open; the tests in `contract` run on each kind of warehouse."""
    return file_deployment


@pytest.fixture(params=["rest", "embedded"])
def connect(request: pytest.FixtureRequest, deployment: Deployment) -> Iterator[Callable[[str], Catalog]]:
    """A function that opens PyIceberg's catalog on a reference: over REST, and over the store."""
    open_catalog = over_rest if request.param == "rest" else without_server
    with ExitStack() as opened:
        yield lambda ref: opened.enter_context(open_catalog(deployment, ref))


@pytest.fixture
def spark_on(deployment: Deployment, lake: SparkLake) -> Callable[..., SparkSession]:
    """A function that opens a Spark session whose catalog `lake` has the given properties."""
    return partial(open_spark, lake.pyspark.spark_session, deployment)
