"""`/v1/config`: what clients must know before their first request, and which endpoints there are."""

from __future__ import annotations

from urllib.parse import quote

from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.exceptions import NotFoundException
from litestar.handlers import HTTPRouteHandler

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.model import ReferenceSpec
from nessie_ops.server.addresses import base_uri
from nessie_ops.server.iceberg_requests import check_warehouse, parse_prefix
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.responses import json_response
from nessie_ops.server.settings import Settings

PAGE_SIZE = 200  # that clients ask for unless told otherwise

_NAMESPACE = "/v1/{prefix}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_VIEW = f"{_NAMESPACE}/views/{{view}}"
ENDPOINTS = [
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    *(f"{method} {_NAMESPACE}" for method in ("GET", "HEAD", "DELETE")),
    f"POST {_NAMESPACE}/properties",
    f"GET {_NAMESPACE}/tables",
    f"POST {_NAMESPACE}/tables",
    *(f"{method} {_TABLE}" for method in ("GET", "HEAD", "POST", "DELETE")),
    f"GET {_TABLE}/credentials",
    f"POST {_TABLE}/sign",
    f"POST {_TABLE}/metrics",
    f"POST {_NAMESPACE}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    f"GET {_NAMESPACE}/views",
    f"POST {_NAMESPACE}/views",
    *(f"{method} {_VIEW}" for method in ("GET", "HEAD", "POST", "DELETE")),
    f"POST {_NAMESPACE}/register-view",
    "POST /v1/{prefix}/views/rename",
]


VERSION = "v1"


def config_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    """Routes below `/v1`."""

    @get("/config", sync_to_thread=False)
    def get_config(request: AnyRequest, settings: NamedDependency[Settings]) -> Response[bytes]:
        return _answer(request, settings, catalog, catalog.default_branch)

    @get("/{prefix:str}/config", sync_to_thread=False)
    def get_config_of_v1(request: AnyRequest, settings: NamedDependency[Settings]) -> Response[bytes]:
        """`/v1/v1/config`: the router takes the first part for the version, not for a reference called v1."""
        if request.path_params["prefix"] != VERSION:
            raise NotFoundException
        return _answer(request, settings, catalog, VERSION)

    @post("/oauth/tokens", sync_to_thread=False)
    def refuse_token() -> Response[bytes]:
        return _refuse_token()

    return [get_config, get_config_of_v1, refuse_token]


def ref_config_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    """Routes below `/{ref}/v1`."""

    @get("/{prefix:str}", sync_to_thread=False)
    def get_config(request: AnyRequest, settings: NamedDependency[Settings]) -> Response[bytes]:
        """`config` is a parameter here, since a fixed path would hide a reference of that name."""
        if request.path_params["prefix"] != "config":
            raise NotFoundException
        return _answer(request, settings, catalog, parse_prefix(str(request.path_params["ref"]), catalog))

    @post("/{prefix:str}/tokens", sync_to_thread=False)
    def refuse_token(request: AnyRequest) -> Response[bytes]:
        if request.path_params["prefix"] != "oauth":
            raise NotFoundException
        return _refuse_token()

    return [get_config, refuse_token]


def _refuse_token() -> Response[bytes]:
    """The answer in the form that clients of OAuth read."""
    hint = "This server issues no tokens; set 'oauth2-server-uri' to one that does, or leave out 'credential'."
    return json_response({"error": "unsupported_grant_type", "error_description": hint}, 501)


def _answer(request: AnyRequest, settings: Settings, catalog: IcebergCatalog, ref: str) -> Response[bytes]:
    ReferenceSpec.parse(ref, catalog.default_branch)
    check_warehouse(request.query_params.get("warehouse", ""), catalog)
    base = base_uri(request)
    body = {
        "defaults": {
            "prefix": quote(ref, safe=""),
            "warehouse": catalog.warehouse.location,
            "rest-page-size": str(PAGE_SIZE),
            "rest-metrics-reporting-enabled": "false",
            **catalog.client_settings,
        },
        "overrides": {
            "uri": f"{base}iceberg/",
            "nessie.is-nessie-catalog": "true",
            "nessie.core-base-uri": f"{base}api/",
            "nessie.iceberg-base-uri": f"{base}iceberg/",
            "nessie.default-branch.name": catalog.default_branch,
            "nessie.prefix-pattern": "{ref}|{warehouse}",
        },
        "endpoints": ENDPOINTS,
        "idempotency-key-lifetime": show_duration(settings.key_lifetime_s),
    }
    return json_response(body)


def show_duration(seconds: int) -> str:
    """Seconds as an ISO-8601 duration."""
    return f"PT{seconds}S" if seconds % 60 else f"PT{seconds // 60}M"
