"""Endpoints of views."""

from __future__ import annotations

import msgspec
from litestar import Response, delete, get, head, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import RawBody

from nessie_ops.catalog import MAX_NAMES, Change, IcebergCatalog
from nessie_ops.catalog.requests import Commit, CreateView, Register, Rename
from nessie_ops.errors import BadRequest, NoSuchView
from nessie_ops.server.iceberg_requests import (
    get_meta,
    get_namespace,
    get_page,
    get_target,
    read_body,
    rename_targets,
    to_target,
)
from nessie_ops.server.iceberg_responses import get_names, identifiers_response, loaded_response
from nessie_ops.server.once import answer, carry_out
from nessie_ops.server.problems import AnyRequest


def view_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    return [*_one_view(catalog), *_many_views(catalog)]


def _one_view(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    views = catalog.views

    @get("/namespaces/{namespace:str}/views/{view:str}", sync_to_thread=True)
    def load_view(request: AnyRequest) -> Response[bytes]:
        target = get_target(request, catalog, "view")
        return loaded_response(views.load(target.ref, target.key))

    @head("/namespaces/{namespace:str}/views/{view:str}", sync_to_thread=True, status_code=204)
    def check_view(request: AnyRequest) -> None:
        target = get_target(request, catalog, "view")
        if not views.exists(target.ref, target.key):
            raise NoSuchView(f"View '{target.key}' does not exist.", target.key)

    @post("/namespaces/{namespace:str}/views/{view:str}", sync_to_thread=True)
    def commit_view(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, Commit)
        target = get_target(request, catalog, "view")
        change = Change(target.key, given.requirements, given.updates)
        meta = get_meta(request)
        return answer(lambda: views.commit(target.ref, change, meta), loaded_response)

    @delete("/namespaces/{namespace:str}/views/{view:str}", sync_to_thread=True)
    def drop_view(request: AnyRequest) -> None:
        target = get_target(request, catalog, "view")
        meta = get_meta(request)
        carry_out(lambda: views.drop(target.ref, target.key, meta))

    return [load_view, check_view, commit_view, drop_view]


def _many_views(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    views = catalog.views

    @get("/namespaces/{namespace:str}/views", sync_to_thread=True)
    def list_views(request: AnyRequest) -> Response[bytes]:
        namespace, page = get_namespace(request), get_page(request, catalog)
        found = get_names(
            lambda after: views.list_names(page.at, namespace, after=after, limit=page.limit or MAX_NAMES), page
        )
        return identifiers_response(page, namespace, found)

    @post("/namespaces/{namespace:str}/views", sync_to_thread=True)
    def create_view(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, CreateView)
        target = to_target(request, catalog, get_namespace(request), given.name)
        named = msgspec.structs.replace(given, name=target.key.name)
        namespace, meta = get_namespace(request), get_meta(request)
        return answer(lambda: views.create(target.ref, namespace, named, meta), loaded_response)

    @post("/namespaces/{namespace:str}/register-view", sync_to_thread=True)
    def register_view(request: AnyRequest, body: RawBody) -> Response[bytes]:
        given = read_body(body, Register)
        if given.overwrite:
            raise BadRequest("overwrite: views cannot be registered over others; drop the view first.")
        target = to_target(request, catalog, get_namespace(request), given.name)
        location, meta = given.metadata_location, get_meta(request)
        return answer(lambda: views.register(target.ref, target.key, location, meta), loaded_response)

    @post("/views/rename", sync_to_thread=True, status_code=204)
    def rename_view(request: AnyRequest, body: RawBody) -> None:
        ref, source, target = rename_targets(request, catalog, read_body(body, Rename))
        meta = get_meta(request)
        carry_out(lambda: views.rename(ref, source, target, meta))

    return [list_views, create_view, register_view, rename_view]
