"""The OpenAPI document: every operation is in it, and it says what the server does."""

from __future__ import annotations

from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar
from litestar.di import Provide

from nessie_ops.server.nessie import nessie_router
from nessie_ops.server.openapi import list_routes
from nessie_ops.server.openapi_table import OPERATIONS
from nessie_ops.server.v1 import nessie_v1_router

Document = dict[str, Any]


@pytest.fixture
def document(base_uri: str) -> Document:
    answer = httpx.get(f"{base_uri}/nessie-openapi/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    return dict(answer.json())


def test_the_document_has_every_operation_once(document: Document) -> None:
    rows = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert rows == set(OPERATIONS)  # no row is without a route
    ids = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(ids)) == len(ids)


def test_every_route_of_the_api_has_a_row() -> None:
    dependencies = {
        name: Provide(lambda: None, sync_to_thread=False)
        for name in ("store", "live", "webhooks", "merging", "transacting")
    }
    app = Litestar([nessie_router(), nessie_v1_router()], dependencies=dependencies, openapi_config=None)
    assert {route.label for route in list_routes(app)} == set(OPERATIONS)


def test_yaml_says_the_same(base_uri: str, document: Document) -> None:
    answer = httpx.get(f"{base_uri}/nessie-openapi/openapi.yaml")
    assert msgspec.yaml.decode(answer.content) == document


def test_an_operation_is_described(document: Document) -> None:
    commit = document["paths"]["/api/v2/trees/{ref}/history/commit"]["post"]
    assert commit["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/CommitIn"}
    assert commit["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/CommitResult")
    entries = document["paths"]["/api/v1/trees/tree/{ref}/entries"]["get"]["parameters"]
    assert {"namespaceDepth", "filter", "hashOnRef"} <= {parameter["name"] for parameter in entries}
    assert "204" in document["paths"]["/api/v1/trees/branch/{ref}"]["put"]["responses"]


def test_every_schema_that_is_referred_to_exists(document: Document) -> None:
    schemas = document["components"]["schemas"]

    def check(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].removeprefix("#/components/schemas/") in schemas
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(document)
