"""What all tests share: an environment of their own, and the one Spark of the pytest process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resources.catalog import CatalogResource
from resources.spark import EnvironmentSpark, SparkLake

_OWN = ("NESSIE_OPS_URI", "NESSIE_OPS_STORE", "NESSIE_OPS_WAREHOUSE", "NESSIE_OPS_SPARK_CONF", "SPARK_REMOTE")


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test sees the settings or touches the home of the person who runs it; the cache is shared with them."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in _OWN:
            patch.delenv(variable, raising=False)
        home = tmp_path_factory.mktemp("home")
        patch.setenv("NESSIE_OPS_HOME", str(home))
        patch.setenv("DAGSTER_HOME", str(home / "dagster"))
        patch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
        patch.setenv("NESSIE_OPS_SPARK_MASTER", "local[2]")
        yield


@pytest.fixture(scope="session")
def lake(environment: None) -> SparkLake:
    """Spark on the embedded catalog of the tests' home; its JVM starts at the first session and serves all tests."""
    return SparkLake(pyspark=EnvironmentSpark(), catalog=CatalogResource())
