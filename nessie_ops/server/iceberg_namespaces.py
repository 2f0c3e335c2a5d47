"""Endpoints of namespaces."""

from __future__ import annotations

from litestar import Response, delete, get, head, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import MAX_NAMES, IcebergCatalog
from nessie_ops.catalog.requests import CreateNamespace, UpdateProperties
from nessie_ops.model import ContentKey
from nessie_ops.server.iceberg_problems import Unprocessable
from nessie_ops.server.iceberg_requests import (
    get_meta,
    get_namespace,
    get_page,
    get_ref,
    next_token,
    parse_namespace,
    path_name,
    read_body,
)
from nessie_ops.server.iceberg_responses import get_names
from nessie_ops.server.once import answer, carry_out
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.responses import json_response


def namespace_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    return [*_readers(catalog), *_writers(catalog)]


def _readers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    namespaces = catalog.namespaces

    @get("/namespaces", sync_to_thread=True)
    def list_namespaces(request: AnyRequest) -> Response[bytes]:
        parent_text = request.query_params.get("parent")
        parent = parse_namespace(parent_text) if parent_text else None
        page = get_page(request, catalog)
        found = get_names(
            lambda after: namespaces.list_names(page.at, parent, after=after, limit=page.limit or MAX_NAMES), page
        )
        above = parent.elements if parent else ()
        return json_response({"namespaces": [[*above, name] for name in found.names], **next_token(page, found)})

    @get("/namespaces/{namespace:str}", sync_to_thread=True)
    def get_one(request: AnyRequest) -> Response[bytes]:
        key = get_namespace(request)
        properties = namespaces.get(get_ref(request, catalog), key)
        return json_response({"namespace": key.elements, "properties": properties})

    @head("/namespaces/{namespace:str}", sync_to_thread=True, status_code=204)
    def check_namespace(request: AnyRequest) -> None:
        namespaces.require(catalog.resolve(get_ref(request, catalog)), get_namespace(request))

    return [list_namespaces, get_one, check_namespace]


def _writers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    namespaces = catalog.namespaces

    @post("/namespaces", sync_to_thread=True)
    def create_namespace(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, CreateNamespace)
        key = ContentKey.of(*map(path_name, given.namespace))
        ref, meta = get_ref(request, catalog), get_meta(request)
        return answer(
            lambda: namespaces.create(ref, key, given.properties or {}, meta),
            lambda properties: json_response({"namespace": key.elements, "properties": properties}),
        )

    @delete("/namespaces/{namespace:str}", sync_to_thread=True)
    def drop_namespace(request: AnyRequest) -> None:
        ref, key, meta = get_ref(request, catalog), get_namespace(request), get_meta(request)
        carry_out(lambda: namespaces.drop(ref, key, meta))

    @post("/namespaces/{namespace:str}/properties", sync_to_thread=True)
    def update_properties(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, UpdateProperties)
        updates, removals = given.updates or {}, given.removals or ()
        if both := sorted(set(updates) & set(removals)):
            raise Unprocessable(f"removals: {', '.join(both)[:200]} cannot be both updated and removed.")
        ref, key, meta = get_ref(request, catalog), get_namespace(request), get_meta(request)
        return answer(
            lambda: namespaces.update(ref, key, updates, removals, meta),
            lambda changes: json_response(changes._asdict()),
        )

    return [create_namespace, drop_namespace, update_properties]
