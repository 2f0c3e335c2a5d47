"""What all tests share: an environment of their own, database servers, and the one Spark of the pytest process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake
from tests.buckets import Buckets, moto, versitygw
from tests.databases import Databases, MariaDB, PostgresDatabases, PostgreSQL

_OWN = (
    "NESSIE_OPS_URI",
    "NESSIE_OPS_STORE",
    "NESSIE_OPS_WAREHOUSE",
    "NESSIE_OPS_ALLOWED_LOCATIONS",
    "NESSIE_OPS_SPARK_CONF",
    "SPARK_REMOTE",
)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes do not name a test: those that are made as it is collected (gzip writes the time) differ per process."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the settings or touches the home of the person who runs it; the cache is shared with them."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in [*_OWN, *(name for name in os.environ if name.startswith(("AWS_", "NESSIE_OPS_S3_")))]:
            patch.delenv(variable, raising=False)
        home = tmp_path_factory.mktemp("home")
        patch.setenv("NESSIE_OPS_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        patch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
        patch.setenv("NESSIE_OPS_SPARK_MASTER", "local[2]")
        patch.setenv("NESSIE_OPS_SPARK_S3", "true")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
            patch.setenv(variable, str(home / "no-such-file"))
        yield


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """Whoever starts the tests in the background of a shell hands them an ignored SIGINT, and their children, too."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def lake(environment: None) -> SparkLake:
    """Spark on the embedded catalog of the tests' home; its JVM starts at the first session and serves all tests."""
    return SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())


@pytest.fixture(scope="session")
def buckets(environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buckets]:
    """An S3 server that runs until the last test is done: moto, or the versitygw that NESSIE_OPS_TEST_S3 names."""
    named = os.environ.get("NESSIE_OPS_TEST_S3")
    with versitygw(Path(named), tmp_path_factory.mktemp("s3")) if named else moto() as server:
        yield server


@pytest.fixture
def aws(buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """The same, with its keys in the environment."""
    for name, value in buckets.environment.items():
        monkeypatch.setenv(name, value)
    return buckets


@pytest.fixture(scope="session")
def postgresql_databases() -> Iterator[Databases]:
    """Databases of the server that NESSIE_OPS_TEST_PG_URL names, or of one that runs until the last test is done."""
    given = os.environ.get("NESSIE_OPS_TEST_PG_URL")
    if given:
        databases = PostgresDatabases(given)
        yield databases
        databases.close()
    else:
        with PostgreSQL.running() as server:
            yield PostgresDatabases(server.url)


@pytest.fixture
def postgresql_url(postgresql_databases: Databases) -> Iterator[str]:
    """The URL of an empty PostgreSQL database.  A test that stops its server runs one of its own."""
    with postgresql_databases.database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_databases() -> Iterator[Databases]:
    """Databases of a server that runs until the last test is done."""
    with MariaDB.running() as server:
        yield Databases(server.url)


@pytest.fixture
def mariadb_url(mariadb_databases: Databases) -> Iterator[str]:
    """The URL of an empty MariaDB database."""
    with mariadb_databases.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, for each kind that the store knows."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found
