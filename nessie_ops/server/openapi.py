"""The OpenAPI document of the Nessie API, v1 and v2: made from the routes, the structs and one table, when asked for.

The table says for each operation what the code's types cannot say, because handlers read queries and bodies
themselves: names of query parameters, and the structs of body and answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from litestar import Litestar, Response, get
from litestar.routes import HTTPRoute

from nessie_ops.model.wire import ErrorBody, ReferenceMetadata
from nessie_ops.server.openapi_table import HEADERS, OPERATIONS, PATH, QUERY, Operation
from nessie_ops.server.problems import AnyRequest

API = "/api/"
_REF = "#/components/schemas/{name}"
_METHODS = frozenset({"GET", "POST", "PUT", "DELETE"})


class Route(NamedTuple):
    method: str
    path: str
    handler: str
    about: str

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"


def list_routes(app: Litestar) -> list[Route]:
    """The operations of the Nessie API that `app` serves."""
    found = [
        Route(method, route.path_format, handler.handler_name, _about(handler.fn))
        for route in app.routes
        if isinstance(route, HTTPRoute) and route.path_format.startswith(API)
        for handler in route.route_handlers
        for method in handler.http_methods & _METHODS
    ]
    return sorted(found, key=lambda route: (route.path, route.method))


def _about(handler: Any) -> str:
    written = getattr(handler, "func", handler)  # a handler that runs in a thread is wrapped
    return (written.__doc__ or "").partition("\n")[0]


def make_document(routes: Iterable[Route], table: Mapping[str, Operation] = OPERATIONS) -> dict[str, Any]:
    """The document; a route without a row in the table is left out."""
    rows = [(route, table[route.label]) for route in routes if route.label in table]
    types = [type for _, row in rows for type in (row.body, row.answer) if type is not None]
    wanted = list(dict.fromkeys([*types, ErrorBody, ReferenceMetadata]))
    schemas, components = msgspec.json.schema_components(wanted, ref_template=_REF)
    known = dict(zip(wanted, schemas, strict=True))
    for name in ("Branch", "Tag"):
        components[name]["properties"]["metadata"] = known[ReferenceMetadata]  # with fetch=ALL
    paths: dict[str, dict[str, Any]] = {}
    for route, row in rows:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, row, known)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Nessie API of nessie-ops", "version": "2.2.0", "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, row: Operation, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    version = route.path.removeprefix(API).partition("/")[0]
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": PATH[name]} for name in names]
    parameters += map(_query_parameter, row.query)
    parameters += [
        {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
        for name in (HEADERS if row.takes_headers else HEADERS[:1])
    ]
    operation: dict[str, Any] = {
        "operationId": f"{route.handler}_{version}",
        "tags": [version],
        "parameters": parameters,
        "responses": {**_success(row, schemas), "default": _json("An error", schemas[ErrorBody])},
    }
    if route.about:
        operation["summary"] = route.about
    if row.body is not None:
        operation["requestBody"] = {"required": row.needs_body, "content": _content(schemas[row.body])}
    return operation


def _query_parameter(text: str) -> dict[str, Any]:
    """`!` marks what is required, and what follows a colon tells parameters of one name apart."""
    row = text.removesuffix("!")
    name = row.partition(":")[0].removesuffix("[]")
    return {"name": name, "in": "query", "required": row != text, "schema": QUERY[row]}


def _success(row: Operation, schemas: Mapping[Any, dict[str, Any]]) -> dict[str, Any]:
    return {"204": {"description": "Done"}} if row.answer is None else {"200": _json("Done", schemas[row.answer])}


def _json(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": _content(schema)}


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


@lru_cache(maxsize=2)  # the two forms of the one application
def _encode(app: Litestar, form: str) -> bytes:
    document = make_document(list_routes(app))
    return msgspec.json.encode(document) if form == "json" else msgspec.yaml.encode(document)


@get("/nessie-openapi/openapi.json", sync_to_thread=True)
def get_openapi_json(request: AnyRequest) -> Response[bytes]:
    return Response(_encode(request.app, "json"), media_type="application/json")


@get("/nessie-openapi/openapi.yaml", sync_to_thread=True)
def get_openapi_yaml(request: AnyRequest) -> Response[bytes]:
    return Response(_encode(request.app, "yaml"), media_type="application/yaml")


HANDLERS = [get_openapi_json, get_openapi_yaml]
