"""The Nessie REST API v2, below `/api/v2`."""

from __future__ import annotations

from litestar import Response, Router, get

from nessie_ops.model import NO_ANCESTOR
from nessie_ops.model.wire import Config
from nessie_ops.server import (
    commits,
    contents,
    feeds,
    merge_requests,
    recent,
    references,
    repository,
    reverts,
    subscribers,
    transactions,
)
from nessie_ops.server.parameters import Store
from nessie_ops.server.responses import json_response

MIN_API_VERSION = 1
API_VERSION = 2
SPEC_VERSION = "2.2.0"  # from 2.2 on, clients send content keys in the escaped form


@get("/config", sync_to_thread=True)
def get_config(store: Store) -> Response[bytes]:
    info = store.get_info()
    config = Config(
        default_branch=info.default_branch,
        min_supported_api_version=MIN_API_VERSION,
        max_supported_api_version=API_VERSION,
        actual_api_version=API_VERSION,
        spec_version=SPEC_VERSION,
        no_ancestor_hash=NO_ANCESTOR,
        repository_creation_timestamp=info.created_at,
        oldest_possible_commit_timestamp=info.created_at,
    )
    return json_response(config)


def nessie_router() -> Router:
    """The routes; handlers get the version store by injection under the name `store`."""
    parts = (
        repository,
        references,
        recent,
        commits,
        reverts,
        contents,
        feeds,
        subscribers,
        merge_requests,
        transactions,
    )
    return Router("/api/v2", route_handlers=[get_config, *(handler for part in parts for handler in part.HANDLERS)])
