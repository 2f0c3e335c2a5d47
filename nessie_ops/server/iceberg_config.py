"""`/v1/config`: what clients must know before their first request, and which endpoints there are."""

from __future__ import annotations

from urllib.parse import quote

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.model import ReferenceSpec
from nessie_ops.server.iceberg_requests import check_warehouse, get_ref
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.responses import json_response

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


def config_handlers(catalog: IcebergCatalog) -> list[HTTPRouteHandler]:
    @get("/config", sync_to_thread=False)
    def get_config(request: AnyRequest) -> Response[bytes]:
        ref = get_ref(request, catalog)
        ReferenceSpec.parse(ref, catalog.default_branch)
        check_warehouse(request.query_params.get("warehouse", ""), catalog)
        base = str(request.base_url)
        body = {
            "defaults": {
                "prefix": quote(ref, safe=""),
                "warehouse": catalog.warehouse.location,
                "rest-page-size": str(PAGE_SIZE),
                "rest-metrics-reporting-enabled": "false",
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
        }
        return json_response(body)

    return [get_config]
