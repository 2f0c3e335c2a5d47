"""Endpoints of tables."""

from __future__ import annotations

from litestar import Response, delete, get, head, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import MAX_NAMES, Change, IcebergCatalog
from nessie_ops.catalog.requests import Commit, CommitTransaction, CreateTable, Register, Rename
from nessie_ops.errors import BadRequest, NoSuchTable
from nessie_ops.server.iceberg_requests import (
    get_meta,
    get_namespace,
    get_page,
    get_ref,
    get_target,
    key_of,
    plain_name,
    read_body,
)
from nessie_ops.server.iceberg_responses import get_names, identifiers_response, loaded_response
from nessie_ops.server.problems import AnyRequest

_SNAPSHOTS = ("all", "refs")


def table_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    return [*_one_table(catalog), *_many_tables(catalog)]


def _one_table(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @get("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def load_table(request: AnyRequest) -> Response[bytes]:
        snapshots = request.query_params.get("snapshots", "all").lower()
        if snapshots not in _SNAPSHOTS:
            raise BadRequest(f"snapshots: '{snapshots[:80]}' is unknown; use all or refs.")
        target = get_target(request, catalog, "table")
        return loaded_response(tables.load(target.ref, target.key, all_snapshots=snapshots == "all"))

    @head("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True, status_code=204)
    def check_table(request: AnyRequest) -> None:
        target = get_target(request, catalog, "table")
        if not tables.exists(target.ref, target.key):
            raise NoSuchTable(f"Table '{target.key}' does not exist.", target.key)

    @post("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def commit_table(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, Commit)
        target = get_target(request, catalog, "table")
        change = Change(target.key, given.requirements, given.updates)
        return loaded_response(tables.commit(target.ref, [change], get_meta(request))[0])

    @delete("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def drop_table(request: AnyRequest) -> None:
        """`purgeRequested` has no effect: other references may use the files, so garbage collection deletes them."""
        target = get_target(request, catalog, "table")
        tables.drop(target.ref, target.key, get_meta(request))

    @post("/namespaces/{namespace:str}/tables/{table:str}/metrics", sync_to_thread=False, status_code=204)
    def report_metrics(request: AnyRequest) -> None:
        """Clients may report what a scan or commit cost; nobody here reads it."""

    return [load_table, check_table, commit_table, drop_table, report_metrics]


def _many_tables(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @get("/namespaces/{namespace:str}/tables", sync_to_thread=True)
    def list_tables(request: AnyRequest) -> Response[bytes]:
        namespace, page = get_namespace(request), get_page(request, catalog)
        found = get_names(
            lambda after: tables.list_names(page.at, namespace, after=after, limit=page.limit or MAX_NAMES), page
        )
        return identifiers_response(page, namespace, found)

    @post("/namespaces/{namespace:str}/tables", sync_to_thread=True)
    def create_table(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, CreateTable)
        plain_name(given.name)
        created = tables.create(get_ref(request, catalog), get_namespace(request), given, get_meta(request))
        return loaded_response(created)

    @post("/namespaces/{namespace:str}/register", sync_to_thread=True)
    def register_table(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, Register)
        key = get_namespace(request).child(plain_name(given.name)).validated()
        registered = tables.register(
            get_ref(request, catalog),
            key,
            given.metadata_location,
            overwrite=given.overwrite,
            meta=get_meta(request),
        )
        return loaded_response(registered)

    @post("/tables/rename", sync_to_thread=True, status_code=204)
    def rename_table(request: AnyRequest, body: RawBody) -> None:
        given = read_body(body, Rename)
        tables.rename(get_ref(request, catalog), key_of(given.source), key_of(given.destination), get_meta(request))

    @post("/transactions/commit", sync_to_thread=True, status_code=204)
    def commit_transaction(request: AnyRequest, body: RawBody) -> None:
        given = read_body(body, CommitTransaction)
        changes = [_to_change(i, change) for i, change in enumerate(given.table_changes)]
        tables.commit(get_ref(request, catalog), changes, get_meta(request))

    return [list_tables, create_table, register_table, rename_table, commit_transaction]


def _to_change(index: int, given: Commit) -> Change:
    if given.identifier is None:
        raise BadRequest(f"table-changes[{index}].identifier: must name a table.")
    return Change(key_of(given.identifier), given.requirements, given.updates)
