"""A deployment: a warehouse, the store that knows its tables, and the server over both; what opens catalogs on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog


class Deployment(NamedTuple):
    """`files` is what PyIceberg needs besides to reach the warehouse's files, and `spark` what Spark needs.

    What the server's config tells its clients belongs to neither.
    """

    warehouse: str
    store_url: str
    base_uri: str
    files: Mapping[str, str] = {}
    spark: Mapping[str, str] = {}


def over_rest(deployment: Deployment, ref: str) -> Catalog:
    return RestCatalog("test", uri=f"{deployment.base_uri}/iceberg/{quote(ref, safe='')}", **deployment.files)


def without_server(deployment: Deployment, ref: str) -> Catalog:
    return NessieOpsCatalog(
        "test", uri=deployment.store_url, warehouse=deployment.warehouse, ref=ref, **deployment.files
    )


def open_spark(first: SparkSession, deployment: Deployment, **properties: str) -> SparkSession:
    """A new session of the Spark that `first` belongs to; its catalog `lake` is the deployment's, with `properties`."""
    session = first.newSession()
    settings = {
        "type": "rest",
        "uri": f"{deployment.base_uri}/iceberg",
        "cache-enabled": "false",
        **deployment.spark,
        **properties,
    }
    session.conf.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    for name, value in settings.items():
        session.conf.set(f"spark.sql.catalog.lake.{name}", value)
    session.sql("USE lake")
    return session
