"""CatalogResource: the catalog for assets, through a server of one's own process when none is given.

Where the catalog is gets decided when it is used, never at import or in definitions: the code server, the
webserver and the steps of a run are different processes, each with its own embedded server.
"""

import os
import threading
from urllib.parse import quote, urlsplit

import dagster as dg
import httpx

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.client import NessieClient, without_user
from nessie_ops.errors import StoreUnavailable
from nessie_ops.runtime.home import store_url, to_folder, warehouse_url
from nessie_ops.server.embedded import ensure_embedded
from nessie_ops.server.settings import Settings
from nessie_ops.versioning import VersionStore

COMMIT_RETRIES = 20  # of Iceberg's optimistic commits to one table of one branch; its 4 are few for parallel writers
CONFIG_TIMEOUT_S = 30

_lock = threading.Lock()
_clients: dict[tuple[str, int], NessieClient] = {}  # by base URI and process


class CatalogResource(dg.ConfigurableResource):
    """The catalog: `client` for Git's verbs, `spark_conf` for Spark's access to the tables of one reference.

    uri    the server; empty: NESSIE_OPS_URI, and when that is not set a server inside this process
    home   the embedded server's home; empty: NESSIE_OPS_STORE and NESSIE_OPS_WAREHOUSE, or NESSIE_OPS_HOME
    main   the branch that runs start from and are published to
    """

    uri: str = ""
    home: str = ""
    main: str = "main"

    def base_uri(self) -> str:
        """The server's root, such as `http://127.0.0.1:19120`; starts the embedded server if need be."""
        given = self._given_uri()
        if given:
            return given.rstrip("/")
        settings = self._settings()
        return ensure_embedded(settings.store, settings.warehouse, settings.allowed_locations, settings.s3)

    @property
    def client(self) -> NessieClient:
        """A client of the server; one per process, safe in threads, not to be closed."""
        key = (self.base_uri(), os.getpid())
        with _lock:
            if key not in _clients:
                _clients[key] = NessieClient(key[0])
            return _clients[key]

    def is_on_s3(self) -> bool:
        """Whether the warehouse, or one of the embedded server's allowed locations, is on S3.

        StoreUnavailable when a given server does not tell.
        """
        if given := self._given_uri():
            places = [_warehouse_of(given.rstrip("/"))]
        else:
            settings = self._settings()
            places = [settings.warehouse, *settings.allowed_locations]
        return any(place.startswith(("s3://", "s3a://", "s3n://")) for place in places)

    def spark_conf(self, alias: str, ref: str) -> dict[str, str]:
        """Spark settings that make the tables at `ref` (a reference specification) the catalog `alias`."""
        catalog = f"spark.sql.catalog.{alias}"
        settings = {
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "rest",
            f"{catalog}.uri": f"{self.base_uri()}/iceberg/{quote(ref, safe='')}",
            f"{catalog}.cache-enabled": "false",  # another session may have moved the branch
            f"{catalog}.table-default.commit.retry.num-retries": str(COMMIT_RETRIES),
        }
        if not self._given_uri() and self._settings().warehouse.startswith("file:"):
            settings[f"{catalog}.io-impl"] = "org.apache.iceberg.hadoop.HadoopFileIO"
        return settings

    def store(self) -> str:
        """The URL of the database of the embedded server's store; empty when a server is given."""
        return "" if self._given_uri() else self._settings().store

    def open_tables(self, versions: VersionStore) -> IcebergCatalog:
        """The tables of the embedded server's store, for writing without the server."""
        settings = self._settings()
        return IcebergCatalog(
            versions, settings.warehouse, allowed_locations=settings.allowed_locations, s3=settings.s3
        )

    def state_url(self, commit: str) -> str:
        """Where the server shows a commit to people and programs; empty for the embedded one, which ends with us."""
        given = without_user(self._given_uri().rstrip("/"))
        return f"{given}/api/v2/trees/@{commit}/history?max-records=1" if given else ""

    def _given_uri(self) -> str:
        return self.uri or os.environ.get("NESSIE_OPS_URI", "")

    def _settings(self) -> Settings:
        if not self.home:
            return Settings.from_env()
        home = to_folder("home", self.home)
        return Settings(store=store_url(home), warehouse=warehouse_url(home))


def _warehouse_of(base_uri: str) -> str:
    is_here = urlsplit(base_uri).hostname in ("127.0.0.1", "localhost", "::1")
    uri = f"{base_uri}/iceberg/v1/config"
    try:
        config = httpx.get(uri, timeout=CONFIG_TIMEOUT_S, trust_env=not is_here).raise_for_status().json()
        return str(config["defaults"]["warehouse"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        why = f"HTTP status {error.response.status_code}" if isinstance(error, httpx.HTTPStatusError) else repr(error)
        raise StoreUnavailable(f"{without_user(uri)} does not tell where tables are: {why}") from error
