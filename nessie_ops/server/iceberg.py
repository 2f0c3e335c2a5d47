"""The Iceberg REST catalog API below `/iceberg`, for tables, views and namespaces on any reference.

The reference is in the prefix (`/iceberg/v1/{prefix}/…`), which clients get from the configuration at
`/iceberg/v1/config` (default branch) or `/iceberg/{ref}/v1/config`.  A client that keeps the latter as
its base is served as well.
"""

from __future__ import annotations

from litestar import Router

from nessie_ops.catalog import IcebergCatalog
from nessie_ops.server.iceberg_absent import absent_handlers
from nessie_ops.server.iceberg_config import config_handlers, ref_config_handlers
from nessie_ops.server.iceberg_namespaces import namespace_handlers
from nessie_ops.server.iceberg_problems import EXCEPTION_HANDLERS
from nessie_ops.server.iceberg_tables import table_handlers
from nessie_ops.server.iceberg_views import view_handlers


def iceberg_router(catalog: IcebergCatalog) -> Router:
    """The routes over `catalog`."""
    return Router(
        "/iceberg",
        route_handlers=[
            Router("/v1", route_handlers=[*config_handlers(catalog), _prefixed(catalog)]),
            Router("/{ref:str}/v1", route_handlers=[*ref_config_handlers(catalog), _prefixed(catalog)]),
        ],
        exception_handlers=EXCEPTION_HANDLERS,
    )


def _prefixed(catalog: IcebergCatalog) -> Router:
    # Each path gets handlers of its own: one handler with two paths would be wrapped for its thread twice.
    handlers = [*namespace_handlers(catalog), *table_handlers(catalog), *view_handlers(catalog), *absent_handlers()]
    return Router("/{prefix:str}", route_handlers=handlers)
