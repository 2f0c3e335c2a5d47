"""The server as an ASGI application: Nessie and Iceberg REST over one version store."""

from __future__ import annotations

import asyncio
from typing import cast

from litestar import Litestar, Response, get
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.errors import StoreUnavailable
from nessie_ops.events import Webhooks
from nessie_ops.mergerequests import MergeRequests
from nessie_ops.runtime.structs import prepare_structs
from nessie_ops.server import openapi
from nessie_ops.server.encodings import Encodings
from nessie_ops.server.iceberg import iceberg_router
from nessie_ops.server.iceberg_problems import answer_http_error as answer_iceberg_http_error
from nessie_ops.server.lanes import Lanes
from nessie_ops.server.live import Live
from nessie_ops.server.nessie import nessie_router
from nessie_ops.server.once import Once
from nessie_ops.server.parameters import LiveStore
from nessie_ops.server.paths import ICEBERG, ASGIApp, SlashPaths
from nessie_ops.server.problems import EXCEPTION_HANDLERS, AnyRequest, answer_http_error
from nessie_ops.server.responses import json_response
from nessie_ops.server.settings import Settings
from nessie_ops.server.v1 import nessie_v1_router
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore

HEALTH_TIMEOUT_S = 3
MAX_BODY_BYTES = 64 << 20  # the largest commit that the version store takes is about half of it


@get("/health")
async def get_health(live: LiveStore, settings: NamedDependency[Settings]) -> Response[bytes]:
    """200 when requests can be served: the store is read.  503 when it cannot be, or does not answer in time."""
    try:
        head = await asyncio.wait_for(live.get_reference(live.store.default_branch), HEALTH_TIMEOUT_S)
    except TimeoutError:
        raise StoreUnavailable(
            f"The catalog's database has not answered for {HEALTH_TIMEOUT_S} seconds. Try again."
        ) from None
    return json_response({"status": "UP", "defaultBranch": head.name, "warehouse": settings.warehouse})


def answer_unrouted(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """The answer to what no route takes, as the API says it to which the path belongs."""
    is_iceberg = str(request.scope["path"]).startswith(ICEBERG.decode())
    return (answer_iceberg_http_error if is_iceberg else answer_http_error)(request, error)


def create_app(version_store: VersionStore, iceberg_catalog: IcebergCatalog, settings: Settings) -> ASGIApp:
    """The application.  It opens and closes nothing: the version store is the caller's."""
    prepare_structs()
    live, webhooks, merging = Live(version_store), Webhooks(version_store), MergeRequests(version_store)
    transacting = Transactions(version_store)
    routers = nessie_router(), nessie_v1_router(), iceberg_router(iceberg_catalog)
    app = Litestar(
        route_handlers=[get_health, *openapi.HANDLERS, *routers],
        dependencies={
            "store": Provide(lambda: version_store, sync_to_thread=False),
            "live": Provide(lambda: live, sync_to_thread=False),
            "webhooks": Provide(lambda: webhooks, sync_to_thread=False),
            "merging": Provide(lambda: merging, sync_to_thread=False),
            "transacting": Provide(lambda: transacting, sync_to_thread=False),
            "settings": Provide(lambda: settings, sync_to_thread=False),
        },
        exception_handlers={**EXCEPTION_HANDLERS, HTTPException: answer_unrouted},
        request_max_body_size=MAX_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
    )
    once = Once(SlashPaths(cast(ASGIApp, app)), version_store.store, settings.key_lifetime_s)
    return Lanes(Encodings(once))


def open_app(settings: Settings) -> tuple[ASGIApp, VersionStore]:
    """The application over the store and warehouse of `settings`; the caller closes the version store."""
    store = VersionStore.open(settings.store)
    try:
        catalog = IcebergCatalog(
            store, settings.warehouse, allowed_locations=settings.allowed_locations, s3=settings.s3
        )
        return create_app(store, catalog, settings), store
    except BaseException:
        store.close()
        raise
