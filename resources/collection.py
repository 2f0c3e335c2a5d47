"""GarbageCollection: what a collection works on, for assets: live sets, the catalog, the files, and the store itself.

As for `nessie-ops gc`, live sets are in the home's `gc.db`, so a collection that Dagster began can be looked at and
taken up by commands.  Our own store is read directly, another server through its API.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import dagster as dg
from pydantic import Field

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.errors import NessieOpsError, StoreUnavailable
from nessie_ops.gc.identify import Context
from nessie_ops.gc.lease import name_run
from nessie_ops.gc.properties import open_stores
from nessie_ops.gc.source import Catalog
from nessie_ops.gc.storage import Stores
from nessie_ops.model import GarbageCollectorConfig
from nessie_ops.runtime.home import get_home
from nessie_ops.store.dialects import parse_url
from nessie_ops.store.livesets import LiveSets
from nessie_ops.versioning import VersionStore
from resources.catalog import CatalogResource

DATABASE_VARIABLE = "NESSIE_OPS_GC_DATABASE"
_PROGRESS_S = 10  # between two messages of a run's log


class Parts(NamedTuple):
    """The parts of a collection; `name` is how live sets remember the catalog.

    `open_tables` gives the tables, to rewrite their metadata; None when the catalog is another server's.
    """

    sets: LiveSets
    source: Catalog
    stores: Stores
    context: Context
    name: str
    config: GarbageCollectorConfig | None
    reports: Path
    open_tables: Callable[[], IcebergCatalog | None]


class GarbageCollection(dg.ConfigurableResource):
    """Where a collection finds its live sets and files.

    database   SQLAlchemy URL of the live sets; empty: NESSIE_OPS_GC_DATABASE, else `gc.db` in the home
    iceberg    Iceberg's FileIO properties, such as s3.endpoint; what is not given comes from the environment
    reports    folder of the reports; empty: `gc-reports` in the home
    """

    catalog: CatalogResource
    database: str = ""
    iceberg: dict[str, str] = Field(default_factory=dict)
    reports: str = ""

    @contextmanager
    def open(self, log: Callable[[str], None]) -> Iterator[Parts]:
        """The parts; `log` is told of the progress every ten seconds."""
        home = self._home()
        url = self.database or os.environ.get(DATABASE_VARIABLE, "")
        if not url:
            home.mkdir(parents=True, exist_ok=True)
            url = f"sqlite:///{home / 'gc.db'}"
        context = Context(lambda: datetime.now(UTC), name_run(uuid4().hex), Progress(log))
        with ExitStack() as stack:
            sets = LiveSets.open(url)
            stack.callback(sets.close)
            name, catalog = self._open_catalog(stack)
            reports = Path(self.reports).expanduser() if self.reports else home / "gc-reports"
            stores = open_stores(self.iceberg)

            def open_tables() -> IcebergCatalog | None:
                return self.catalog.open_tables(catalog) if isinstance(catalog, VersionStore) else None

            yield Parts(sets, Catalog(catalog), stores, context, name, _read_config(catalog), reports, open_tables)

    @contextmanager
    def open_store(self) -> Iterator[VersionStore | None]:
        """Our own store; None when the catalog is another server's and NESSIE_OPS_STORE does not say where it is."""
        url = self.catalog.store() or os.environ.get("NESSIE_OPS_STORE", "")
        if not url:
            yield None
            return
        versions = VersionStore.open(url, create=False)
        try:
            yield versions
        finally:
            versions.close()

    def _open_catalog(self, stack: ExitStack) -> tuple[str, object]:
        url = self.catalog.store()
        if not url:
            return self.catalog.base_uri(), self.catalog.client
        versions = VersionStore.open(url, create=False)
        stack.callback(versions.close)
        return parse_url(url)[0].render_as_string(hide_password=True), versions

    def _home(self) -> Path:
        return Path(self.catalog.home).expanduser().absolute() if self.catalog.home else get_home()


class Progress:
    """Tells of a step when it has not told of anything for a while.  Safe for threads."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log, self._lock, self._last = log, threading.Lock(), time.monotonic()

    def __call__(self, step: str, count: int) -> None:
        with self._lock:
            if time.monotonic() - self._last < _PROGRESS_S:
                return
            self._last = time.monotonic()
        self._log(f"{count:,} {step}")


def _read_config(catalog: object) -> GarbageCollectorConfig | None:
    try:
        found = catalog.list_repository_configs(["GARBAGE_COLLECTOR"])  # type: ignore[attr-defined]
    except StoreUnavailable:
        raise
    except NessieOpsError:  # a server that knows no such thing
        return None
    return found[0] if found else None
