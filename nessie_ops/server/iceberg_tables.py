"""Endpoints of tables."""

from __future__ import annotations

import msgspec
from litestar import Response, delete, get, head, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import MAX_NAMES, Change, IcebergCatalog
from nessie_ops.catalog.requests import Commit, CommitTransaction, CreateTable, Identifier, Register, Rename
from nessie_ops.errors import BadRequest, NoSuchTable
from nessie_ops.server.iceberg_metrics import read_report
from nessie_ops.server.iceberg_requests import (
    body_target,
    check_delegation,
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
from nessie_ops.server.responses import json_response


def table_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    return [*_one_table(catalog), *_about_one_table(catalog), *_many_tables(catalog)]


def _one_table(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    tables = catalog.tables

    @get("/namespaces/{namespace:str}/tables/{table:str}", sync_to_thread=True)
    def load_table(request: AnyRequest) -> Response[bytes]:
        snapshots = get_choice(request, "snapshots", ALL, REFS)
        check_delegation(request)
        target = get_target(request, catalog, "table")
        location = tables.find(target.ref, target.key)
        tag = make_etag(location, snapshots)
        if tag and is_known(request, tag):
            return not_modified(tag)
        return table_response(tables.read(location, all_snapshots=snapshots == ALL), snapshots)

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

    @get("/namespaces/{namespace:str}/tables/{table:str}/credentials", sync_to_thread=True)
    def load_credentials(request: AnyRequest) -> Response[bytes]:
        """None: clients reach the files of the warehouse with what they have."""
        if "planId" in request.query_params:
            raise BadRequest("planId: this server plans no scans; leave it out.")
        target = get_target(request, catalog, "table")
        tables.find(target.ref, target.key)
        return json_response({"storage-credentials": []})

    @post("/namespaces/{namespace:str}/tables/{table:str}/metrics", sync_to_thread=True, status_code=204)
    def report_metrics(request: AnyRequest, body: RawBody) -> None:
        """Clients may report what a scan or commit cost; nobody here reads it."""
        read_report(body)
        target = get_target(request, catalog, "table")
        tables.find(target.ref, target.key)

    return [load_credentials, report_metrics]


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
        check_delegation(request)
        given = read_body(body, CreateTable)
        target = to_target(request, catalog, get_namespace(request), given.name)
        named = msgspec.structs.replace(given, name=target.key.name)
        namespace, meta = get_namespace(request), get_meta(request)
        return answer(lambda: tables.create(target.ref, namespace, named, meta), table_response)

    @post("/namespaces/{namespace:str}/register", sync_to_thread=True)
    def register_table(request: AnyRequest, body: RawBody) -> Response[bytes]:
        check_delegation(request)
        given = read_body(body, Register)
        target = to_target(request, catalog, get_namespace(request), given.name)
        location, meta = given.metadata_location, get_meta(request)
        return answer(
            lambda: tables.register(target.ref, target.key, location, overwrite=given.overwrite, meta=meta),
            table_response,
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
