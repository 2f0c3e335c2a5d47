"""IcebergCatalog: namespaces, tables and views of Iceberg on every branch, tag and commit of a version store."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import cast
from uuid import uuid4

from nessie_ops.catalog.access import Access
from nessie_ops.catalog.buffered import BufferedVersions
from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.lake import Lake
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.namespaces import Namespaces
from nessie_ops.catalog.stores import AWS, S3, client_settings
from nessie_ops.catalog.tables import Tables
from nessie_ops.catalog.views import Views
from nessie_ops.model import CommitHash
from nessie_ops.versioning.versionstore import VersionStore


def _utc_now() -> datetime:
    return datetime.now(UTC)


class IcebergCatalog:
    """Iceberg semantics over a version store; all files lie below one warehouse, or in places allowed besides.

    Methods of `namespaces`, `tables` and `views` that write take the name of a branch; those that read
    take any reference specification (`main`, `run/7`, `main@<hash>`) or a commit.
    """

    def __init__(
        self,
        version_store: VersionStore,
        warehouse_url: str,
        *,
        allowed_locations: Sequence[str] = (),
        s3: S3 = AWS,
        clock: Callable[[], datetime] = _utc_now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """BadRequest when `warehouse_url` (`file:///path`, `/path`, `s3://bucket/path`) or an allowed one is unsafe.

        MachineNotReady when one needs a package that is not installed.
        """
        self.version_store = version_store
        self.warehouse = Warehouse(warehouse_url, allowed_locations)
        self.client_settings = client_settings(self.warehouse.roots, s3)
        lake = Lake(version_store, MetadataFiles(self.warehouse, s3), clock, new_id)
        self.namespaces = Namespaces(lake)
        self.tables = Tables(lake)
        self.views = Views(lake)
        self.access = Access(lake, s3)
        self._lake = lake

    def within(self, store: BufferedVersions) -> IcebergCatalog:
        """This catalog on a transaction's branch, with the same files."""
        other = copy.copy(self)
        other.version_store = cast(VersionStore, store)  # which has the methods that are used
        lake = other._lake = Lake(other.version_store, self._lake.files, self._lake.clock, self._lake.new_id)
        other.namespaces, other.tables, other.views = Namespaces(lake), Tables(lake), Views(lake)
        return other

    @property
    def default_branch(self) -> str:
        return self.version_store.default_branch

    def resolve(self, ref: str) -> CommitHash:
        """The commit that a reference specification means now; listings read at a commit, so pages agree."""
        return self._lake.resolve(ref)
