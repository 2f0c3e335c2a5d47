"""The Nessie REST API v1, below `/api/v1`: older paths and shapes over the same version store as v2."""

from __future__ import annotations

from litestar import Response, Router, get

from nessie_ops.server.parameters import Store
from nessie_ops.server.responses import json_response
from nessie_ops.server.v1 import commits, contents, namespaces, references
from nessie_ops.server.v1.wire import ConfigV1

MAX_API_VERSION = 2  # clients read this to learn that v2 is here, too


@get("/config", sync_to_thread=True)
def get_config(store: Store) -> Response[bytes]:
    return json_response(ConfigV1(store.default_branch, MAX_API_VERSION))


def nessie_v1_router() -> Router:
    """The routes; handlers get the version store by injection under the name `store`."""
    handlers = [get_config, *references.HANDLERS, *commits.HANDLERS, *contents.HANDLERS, *namespaces.HANDLERS]
    return Router("/api/v1", route_handlers=handlers)
