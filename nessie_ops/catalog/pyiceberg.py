"""A catalog of PyIceberg over the store itself, without a server.

    load_catalog("lake", **{"py-catalog-impl": "nessie_ops.catalog.pyiceberg.NessieOpsCatalog"})

A catalog is at one reference; `on` gives it at another.  It behaves as PyIceberg's REST client with a
server over the same store, names of references in table names included.  Safe for threads and forks.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self, TypeVar

from pyiceberg.catalog import Catalog, PropertiesUpdateSummary
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NoSuchIdentifierError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import (
    CommitTableResponse,
    CreateTableTransaction,
    StagedTable,
    Table,
    TableProperties,
    Transaction,
)
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.view import View
from pyiceberg.view.metadata import ViewVersion

from nessie_ops.catalog.buffered import BufferedVersions
from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.catalog.names import one_ref, select_ref
from nessie_ops.catalog.pyiceberg_answers import list_all, metadata_of, to_view
from nessie_ops.catalog.pyiceberg_errors import pyiceberg_errors
from nessie_ops.catalog.pyiceberg_requests import (
    requirements_of,
    to_change,
    to_create_table,
    to_create_view,
    to_texts,
)
from nessie_ops.catalog.sharing import Lease
from nessie_ops.catalog.stores import S3
from nessie_ops.catalog.tables import Loaded
from nessie_ops.errors import BadRequest, NamespaceNotFound
from nessie_ops.model import CommitHash, ContentKey, Isolation, ReferenceSpec
from nessie_ops.runtime.home import allowed_locations, get_home, store_url, warehouse_url
from nessie_ops.runtime.structs import prepare_structs
from nessie_ops.versioning.versionstore import VersionStore

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T", bound=Table)
log = logging.getLogger("nessie_ops.catalog")

REF = "ref"
_S3 = {"endpoint": "s3.endpoint", "region": "s3.region", "path_style": "s3.path-style-access"}
_DEFAULT_FORMAT = TableProperties.DEFAULT_FORMAT_VERSION


class NessieOpsCatalog(Catalog):
    """Tables, views and namespaces at one reference of a store.

    Raises PyIceberg's exceptions; CommitStateUnknownException when only a look tells whether a write happened.
    """

    def __init__(self, name: str, **properties: str) -> None:
        """Open the catalog at `ref` (a branch, a tag, `branch@hash`; the default branch) of the store `uri`.

        `uri` is a SQLAlchemy URL (else `NESSIE_OPS_STORE`, else the home's), `warehouse` the folder or bucket of
        the tables (else `NESSIE_OPS_WAREHOUSE`, else the home's); other properties are those of PyIceberg's FileIO,
        which also learns where S3 is from `NESSIE_OPS_S3_*`.
        """
        super().__init__(name, **properties)
        uri = properties.get("uri") or os.environ.get("NESSIE_OPS_STORE") or store_url(get_home())
        warehouse = properties.get("warehouse") or os.environ.get("NESSIE_OPS_WAREHOUSE") or warehouse_url(get_home())
        self._is_derived = False
        prepare_structs()
        with pyiceberg_errors():
            if uri.startswith(("http:", "https:")):
                raise BadRequest("uri: this is a server's address; use type=rest for it, or name a store.")
            self._lease = Lease(uri)
            try:
                s3 = S3.from_env({field: properties.get(name, "") for field, name in _S3.items()})
                self._catalog = IcebergCatalog(
                    self._lease.store, warehouse, allowed_locations=allowed_locations(), s3=s3
                )
                self.properties = {**self._catalog.client_settings, **self.properties}
                self._ref = self._checked(properties.get(REF))
            except BaseException:
                self._lease.close()
                raise

    def _checked(self, ref: str | None) -> str:
        default = self._catalog.default_branch
        ReferenceSpec.parse(ref or default, default)
        return ref or default

    @property
    def ref(self) -> str:
        """The reference that this catalog reads, and writes if it is a branch."""
        return self._ref

    @property
    def version_store(self) -> VersionStore:
        """The store below, for what PyIceberg has no words for: branches, tags, merges, logs."""
        with pyiceberg_errors():
            return self._lease.store

    def on(self, ref: str) -> Self:
        """This catalog at another reference.  It lives as long as this one, and needs no `close`."""
        with pyiceberg_errors():
            checked = self._checked(ref)
        other = copy.copy(self)
        other.properties = {**self.properties, REF: checked}
        other._ref, other._is_derived = checked, True
        return other

    @contextmanager
    def transaction(
        self,
        on: str = "",
        *,
        isolation: Isolation = Isolation.SERIALIZABLE,
        message: str = "",
        author: str = "",
    ) -> Iterator[Self]:
        """This catalog within a transaction on a branch (the catalog's own unless named), one commit at its end.

            with catalog.transaction(on="main") as tx:
                tx.load_table("bank.booked").append(tx.load_table("bank.incoming").scan().to_arrow())

        See `nessie_ops.buffering.transaction`.  CommitFailedException names tables that others changed, and who did.
        """
        with pyiceberg_errors():
            store = self.version_store
            buffer = store.transaction(on or self._ref, isolation=isolation, message=message, author=author)
            other = self.on(buffer.on)
            other._catalog = self._opened.within(versions := BufferedVersions(store, buffer))
        with buffer:
            yield other
            with pyiceberg_errors():
                buffer.commit(message or versions.message)

    def close(self) -> None:
        """Give the store back, which closes with its last catalog.  What `on` gave ends with where it came from."""
        if not self._is_derived:
            self._lease.close()

    def __enter__(self) -> Self:
        return self

    def supports_server_side_planning(self) -> bool:
        return False

    # -- tables -------------------------------------------------------------------------------

    def create_table(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> Table:
        created = self._create(identifier, schema, location, partition_spec, sort_order, properties, staged=False)
        return self._to_table(self.identifier_to_tuple(identifier), created, Table)

    def create_table_transaction(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None = None,
        partition_spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
        sort_order: SortOrder = UNSORTED_SORT_ORDER,
        properties: Properties = EMPTY_DICT,
    ) -> CreateTableTransaction:
        created = self._create(identifier, schema, location, partition_spec, sort_order, properties, staged=True)
        return CreateTableTransaction(self._to_table(self.identifier_to_tuple(identifier), created, StagedTable))

    def _create(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        location: str | None,
        spec: PartitionSpec,
        order: SortOrder,
        properties: Properties,
        *,
        staged: bool,
    ) -> Loaded:
        with pyiceberg_errors(taken=TableAlreadyExistsError):
            ref, key = self._target(identifier)
            version = int(properties.get(TableProperties.FORMAT_VERSION, _DEFAULT_FORMAT))
            converted = self._convert_schema_if_needed(schema, version)  # type: ignore[arg-type]
            request = to_create_table(key.name, converted, location, spec, order, properties, staged=staged)
            return self._opened.tables.create(ref, ContentKey(key.elements[:-1]), request)

    def load_table(self, identifier: str | Identifier) -> Table:
        with pyiceberg_errors():
            loaded = self._opened.tables.load(*self._target(identifier))
            return self._to_table(self.identifier_to_tuple(identifier), loaded, Table)

    def table_exists(self, identifier: str | Identifier) -> bool:
        with pyiceberg_errors():
            return self._opened.tables.exists(*self._target(identifier))

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        with pyiceberg_errors(taken=TableAlreadyExistsError):
            ref, key = self._target(identifier)
            loaded = self._opened.tables.register(ref, key, metadata_location, overwrite=overwrite)
            return self._to_table(self.identifier_to_tuple(identifier), loaded, Table)

    def drop_table(self, identifier: str | Identifier) -> None:
        with pyiceberg_errors():
            self._opened.tables.drop(*self._target(identifier))

    def purge_table(self, identifier: str | Identifier) -> None:
        """Drop a table.  Its files stay for the garbage collection, since other references may use them."""
        self.drop_table(identifier)
        log.warning("purge_table dropped %s and left its files, which other references may use", identifier)

    def rename_table(self, from_identifier: str | Identifier, to_identifier: str | Identifier) -> Table:
        with pyiceberg_errors(taken=TableAlreadyExistsError):
            ref, source = self._target(from_identifier)
            to_ref, target = self._target(to_identifier, ref)
            ref = one_ref([ref, to_ref], self._opened.default_branch, "to_identifier")
            self._opened.tables.rename(ref, source, target)
        return self.on(ref).load_table(to_identifier)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        with pyiceberg_errors():
            ref, key = self._target(table.name())
            loaded = self._opened.tables.commit(ref, [to_change(key, requirements, updates)])[0]
        return CommitTableResponse.model_validate(
            {"metadata": metadata_of(loaded), "metadata-location": loaded.metadata_location}
        )

    def commit_tables(self, transactions: Sequence[Transaction]) -> None:
        """Commit open transactions of several tables as one commit, all or none, on the branch that they are on.

        CommitFailedException when one of the tables has changed; then nothing is committed, and the files that
        the transactions wrote are left to the garbage collection.
        """
        tables = [transaction._table for transaction in transactions]
        with pyiceberg_errors():
            targets = [self._owner(table)._target(table.name()) for table in tables]
            refs = [ref for ref, _ in targets] or [self._ref]
            changes = [
                to_change(key, requirements_of(transaction), transaction._updates)
                for (_, key), transaction in zip(targets, transactions, strict=True)
            ]
            committed = self._opened.tables.commit(one_ref(refs, self._opened.default_branch, "transactions"), changes)
        for table, transaction, loaded in zip(tables, transactions, committed, strict=True):
            table.metadata, table.metadata_location = metadata_of(loaded), str(loaded.metadata_location)
            transaction._updates, transaction._requirements, transaction._snapshot_producers = (), (), []

    def list_tables(self, namespace: str | Identifier) -> list[Identifier]:
        with pyiceberg_errors():
            catalog, at, key = self._opened, self._resolve(), self._namespace(namespace)
            return list_all(key, lambda after: catalog.tables.list_names(at, key, after=after))

    # -- namespaces ---------------------------------------------------------------------------

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        with pyiceberg_errors(taken=NamespaceAlreadyExistsError):
            key = self._namespace(namespace)
            self._opened.namespaces.create(self._ref, key, to_texts(properties))

    def drop_namespace(self, namespace: str | Identifier) -> None:
        with pyiceberg_errors():
            self._opened.namespaces.drop(self._ref, self._namespace(namespace))

    def list_namespaces(self, namespace: str | Identifier = ()) -> list[Identifier]:
        with pyiceberg_errors():
            catalog, at = self._opened, self._resolve()
            key = None if namespace in ("", ()) else self._namespace(namespace)
            return list_all(key, lambda after: catalog.namespaces.list_names(at, key, after=after))

    def namespace_exists(self, namespace: str | Identifier) -> bool:
        with pyiceberg_errors():
            try:
                self._opened.namespaces.require(self._resolve(), self._namespace(namespace))
            except NamespaceNotFound:
                return False
            return True

    def load_namespace_properties(self, namespace: str | Identifier) -> Properties:
        with pyiceberg_errors():
            return self._opened.namespaces.get(self._ref, self._namespace(namespace))

    def update_namespace_properties(
        self, namespace: str | Identifier, removals: set[str] | None = None, updates: Properties = EMPTY_DICT
    ) -> PropertiesUpdateSummary:
        if both := set(removals or ()) & set(updates):
            raise ValueError(f"Updates and deletes have an overlap: {both}")
        with pyiceberg_errors():
            key = self._namespace(namespace)
            changes = self._opened.namespaces.update(self._ref, key, to_texts(updates), removals or ())
        return PropertiesUpdateSummary(removed=changes.removed, updated=changes.updated, missing=changes.missing)

    # -- views --------------------------------------------------------------------------------

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        with pyiceberg_errors(taken=ViewAlreadyExistsError):
            ref, key = self._target(identifier)
            converted = self._convert_schema_if_needed(schema)
            request = to_create_view(key.name, converted, view_version, location, properties)
            created = self._opened.views.create(ref, ContentKey(key.elements[:-1]), request)
            return to_view(self.identifier_to_tuple(identifier), created)

    def load_view(self, identifier: str | Identifier) -> View:
        with pyiceberg_errors():
            return to_view(self.identifier_to_tuple(identifier), self._opened.views.load(*self._target(identifier)))

    def view_exists(self, identifier: str | Identifier) -> bool:
        with pyiceberg_errors():
            return self._opened.views.exists(*self._target(identifier))

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        if self.table_exists(identifier):
            raise TableAlreadyExistsError(f"Table already exists: {identifier}")
        with pyiceberg_errors(taken=ViewAlreadyExistsError):
            ref, key = self._target(identifier)
            registered = self._opened.views.register(ref, key, metadata_location)
            return to_view(self.identifier_to_tuple(identifier), registered)

    def drop_view(self, identifier: str | Identifier) -> None:
        with pyiceberg_errors():
            self._opened.views.drop(*self._target(identifier))

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        with pyiceberg_errors():
            catalog, at, key = self._opened, self._resolve(), self._namespace(namespace)
            return list_all(key, lambda after: catalog.views.list_names(at, key, after=after))

    # -- what they share ----------------------------------------------------------------------

    @property
    def _opened(self) -> IcebergCatalog:
        self._lease.require_open()
        return self._catalog

    def _resolve(self) -> CommitHash:
        return self._opened.resolve(self._ref)

    def _namespace(self, namespace: str | Identifier) -> ContentKey:
        return ContentKey.of(*self.identifier_to_tuple(namespace))

    def _target(self, identifier: str | Identifier, default_ref: str | None = None) -> tuple[str, ContentKey]:
        """The reference and the key that a table's or view's name means."""
        *namespace, name = self._long_enough(identifier)
        ref, name = select_ref(default_ref or self._ref, name)
        return ref, ContentKey.of(*namespace, name)

    def _owner(self, table: Table) -> NessieOpsCatalog:
        """The catalog that `table` was loaded from, at its reference; BadRequest when that has another store."""
        owner = table.catalog
        if not isinstance(owner, NessieOpsCatalog) or owner._lease.store is not self._lease.store:
            raise BadRequest(f"transactions: {'.'.join(table.name())} is a table of another catalog.")
        return owner

    def _long_enough(self, identifier: str | Identifier) -> Identifier:
        elements = self.identifier_to_tuple(identifier)
        if len(elements) < 2:
            raise NoSuchIdentifierError(f"Missing namespace or invalid identifier: {'.'.join(elements)}")
        return elements

    def _to_table(self, identifier: Identifier, loaded: Loaded, kind: type[T]) -> T:
        metadata = metadata_of(loaded)
        io = self._load_file_io(metadata.properties, loaded.metadata_location or metadata.location)
        return kind(identifier, metadata, loaded.metadata_location, io, self)  # type: ignore[arg-type]

    @staticmethod
    def _delete_old_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
        """Old metadata files stay, whatever the table's properties say: other references may use them."""
