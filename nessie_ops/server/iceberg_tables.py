"""Endpoints of tables."""

from __future__ import annotations

import msgspec
from litestar import Response, delete, get, head, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import MAX_NAMES, Change, IcebergCatalog
from nessie_ops.catalog.requests import Commit, CommitTransaction, CreateTable, Identifier, Register, Rename
from nessie_ops.errors import BadRequest, NoSuchTable
from nessie_ops.server.iceberg_access import access_handlers, add_access, is_offered, offer_access
from nessie_ops.server.iceberg_metrics import read_report
from nessie_ops.server.iceberg_requests import (
    body_target,
    get_choice,
    get_meta,
    get_namespace,
    get_page,
    get_ref,
    get_target,
    one_ref,
    read_body,
    rename_targets,
    to_target,
)
from nessie_ops.server.iceberg_responses import (
    ALL,
    REFS,
    get_names,
    identifiers_response,
    is_known,
    make_etag,
    not_modified,
    table_response,
)
from nessie_ops.server.once import answer, carry_out
from nessie_ops.server.problems import AnyRequest


def table_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    return [*_one_table(catalog), *_about_one_table(catalog), *access_handlers(catalog), *_many_tables(catalog)]


def _one_table(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @get("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def load_table(request: AnyRequest) -> Response[bytes]:
        snapshots = get_choice(request, "snapshots", ALL, REFS)
        has_access = is_offered(request, catalog)
        target = get_target(request, catalog, "table")
        location = tables.find(target.ref, target.key)
        tag = make_etag(location, snapshots)
        if tag and not has_access and is_known(request, tag):
            return not_modified(tag)
        loaded = tables.read(location, all_snapshots=snapshots == ALL)
        return table_response(loaded, snapshots, offer_access(request, catalog, target, loaded))

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
        meta = get_meta(request)
        return answer(lambda: tables.commit(target.ref, [change], meta), lambda committed: table_response(committed[0]))

    @delete("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def drop_table(request: AnyRequest) -> None:
        """`purgeRequested` has no effect: other references may use the files, so garbage collection deletes them."""
        get_choice(request, "purgeRequested", "false", "true")
        target = get_target(request, catalog, "table")
        meta = get_meta(request)
        carry_out(lambda: tables.drop(target.ref, target.key, meta))

    return [load_table, check_table, commit_table, drop_table]


def _about_one_table(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @post("/namespaces/{namespace:str}/tables/{table:str}/metrics", sync_to_thread=True, status_code=204)
    def report_metrics(request: AnyRequest, body: RawBody) -> None:
        """Clients may report what a scan or commit cost; nobody here reads it."""
        read_report(body)
        target = get_target(request, catalog, "table")
        tables.find(target.ref, target.key)

    return [report_metrics]


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
        target = to_target(request, catalog, get_namespace(request), given.name)
        named = msgspec.structs.replace(given, name=target.key.name)
        namespace, meta = get_namespace(request), get_meta(request)
        access = add_access(request, catalog, target)
        return answer(lambda: tables.create(target.ref, namespace, named, meta), table_response, access)

    @post("/namespaces/{namespace:str}/register", sync_to_thread=True)
    def register_table(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, Register)
        target = to_target(request, catalog, get_namespace(request), given.name)
        location, meta = given.metadata_location, get_meta(request)
        return answer(
            lambda: tables.register(target.ref, target.key, location, overwrite=given.overwrite, meta=meta),
            table_response,
            add_access(request, catalog, target),
        )

    @post("/tables/rename", sync_to_thread=True, status_code=204)
    def rename_table(request: AnyRequest, body: RawBody) -> None:
        ref, source, target = rename_targets(request, catalog, read_body(body, Rename))
        meta = get_meta(request)
        carry_out(lambda: tables.rename(ref, source, target, meta))

    @post("/transactions/commit", sync_to_thread=True, status_code=204)
    def commit_transaction(request: AnyRequest, body: RawBody) -> None:
        given = read_body(body, CommitTransaction).table_changes
        targets = [body_target(request, catalog, _identifier(i, change)) for i, change in enumerate(given)]
        ref = one_ref(catalog, targets, "table-changes") if targets else get_ref(request, catalog)
        pairs = zip(targets, given, strict=True)
        changes = [Change(target.key, change.requirements, change.updates) for target, change in pairs]
        meta = get_meta(request)
        carry_out(lambda: tables.commit(ref, changes, meta))

    return [list_tables, create_table, register_table, rename_table, commit_transaction]


def _identifier(index: int, given: Commit) -> Identifier:
    if given.identifier is None:
        raise BadRequest(f"table-changes[{index}].identifier: must name a table.")
    return given.identifier
