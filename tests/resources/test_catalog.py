"""CatalogResource: where the catalog is gets decided at use; what Spark is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import httpx
import pytest

from nessie_ops.model import ReferenceType
from resources.catalog import CatalogResource
from tests.server.helpers import running_server


def test_a_server_that_is_given_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server() as uri:
        assert CatalogResource(uri=f"{uri}/").base_uri() == uri
        monkeypatch.setenv("NESSIE_OPS_URI", uri)
        catalog = CatalogResource()
        assert catalog.client.get_reference(catalog.main).name == "main"
        assert CatalogResource().client is catalog.client, "a resource is made anew for each run"
        conf = catalog.spark_conf("lake", "main")
        assert "spark.sql.catalog.lake.io-impl" not in conf, "the warehouse is the server's"
    monkeypatch.setenv("NESSIE_OPS_URI", "http://elsewhere:1")
    assert catalog.base_uri() == "http://elsewhere:1", "decided at use"


def test_without_one_it_is_embedded_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = CatalogResource(home=str(tmp_path / "named"))
    assert not (tmp_path / "named").exists(), "nothing starts before it is used"
    named.client.create_reference(ReferenceType.BRANCH, "run/7", named.client.get_reference("main").hash)
    assert (tmp_path / "named" / "catalog.db").exists()
    monkeypatch.setenv("NESSIE_OPS_HOME", str(tmp_path / "env"))
    assert [found.name for found in CatalogResource().client.list_references()] == ["main"]
    monkeypatch.setenv("NESSIE_OPS_STORE", f"sqlite:///{tmp_path}/named/catalog.db")
    assert len(CatalogResource().client.list_references()) == 2


def test_spark_reads_one_reference_without_a_cache(tmp_path: Path) -> None:
    catalog = CatalogResource(home=str(tmp_path))
    conf = catalog.spark_conf("lake", "run/7")
    assert conf == {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "rest",
        "spark.sql.catalog.lake.uri": f"{catalog.base_uri()}/iceberg/run%2F7",
        "spark.sql.catalog.lake.cache-enabled": "false",
        "spark.sql.catalog.lake.table-default.commit.retry.num-retries": "20",
        "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    }
    client = catalog.client
    client.create_reference(ReferenceType.BRANCH, "run/7", client.get_reference("main").hash)
    config = httpx.get(f"{conf['spark.sql.catalog.lake.uri']}/v1/config").json()
    assert config["defaults"]["prefix"] == "run%2F7"


def test_assets_get_it_configured(tmp_path: Path) -> None:
    @dg.asset
    def branches(catalog: CatalogResource) -> dg.MaterializeResult[None]:
        names = [found.name for found in catalog.client.list_references()]
        return dg.MaterializeResult(metadata={"names": names, "main": catalog.main})

    with dg.instance_for_test() as instance:
        resources = {"catalog": CatalogResource(home=str(tmp_path))}
        result = dg.materialize([branches], resources=resources, instance=instance)
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.metadata["names"].value == ["main"]
    assert event.materialization.metadata["main"].value == "main"


def test_importing_it_starts_nothing(tmp_path: Path) -> None:
    code = (
        "import threading, resources.catalog as c; c.CatalogResource(); "
        "assert 'nessie-ops-server' not in [thread.name for thread in threading.enumerate()]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
