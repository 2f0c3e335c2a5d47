"""Endpoints of the repository's configuration."""

from __future__ import annotations

import msgspec
from litestar import Response, get, post

from nessie_ops.errors import BadRequest
from nessie_ops.model import CONFIG_TYPES, RepositoryConfig
from nessie_ops.model.wire import PreviousConfig, RepositoryConfigs
from nessie_ops.server.once import answer
from nessie_ops.server.parameters import Body, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.requests import read_body
from nessie_ops.server.responses import json_response


class _Typed(msgspec.Struct, frozen=True):
    type: str


class _TypeIn(msgspec.Struct, frozen=True):
    """The type must be named, even while there is only one."""

    config: _Typed


class ConfigIn(msgspec.Struct, frozen=True):
    config: RepositoryConfig


@get("/config/repository", sync_to_thread=True)
def list_configs(store: Store, request: AnyRequest) -> Response[bytes]:
    """What is configured, of the types asked for or of all; without any, an empty object."""
    types = Query(request).texts("type")
    unknown = [type for type in types if type not in CONFIG_TYPES]
    if unknown:
        raise BadRequest(f"type: '{unknown[0][:80]}' is not a type of configuration; use {', '.join(CONFIG_TYPES)}.")
    return json_response(RepositoryConfigs(tuple(store.list_repository_configs(types or CONFIG_TYPES))))


@post("/config/repository", status_code=200, sync_to_thread=True)
def update_config(store: Store, request: AnyRequest, body: Body) -> Response[bytes]:
    """Replace the configuration of a type; answers with the one before."""
    read_body(request, body, _TypeIn)
    given = read_body(request, body, ConfigIn)
    return answer(
        lambda: store.update_repository_config(given.config), lambda before: json_response(PreviousConfig(before))
    )


HANDLERS = [list_configs, update_config]
