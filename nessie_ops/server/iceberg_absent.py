"""Endpoints of the protocol that this server neither offers nor announces: refused in words rather than missing."""

from __future__ import annotations

from litestar import HttpMethod, route
from litestar.handlers import HTTPRouteHandler

from nessie_ops.server.iceberg_problems import NotOffered
from nessie_ops.server.problems import AnyRequest

_TABLE = "/namespaces/{namespace:str}/tables/{table:str}"
_PLANNING = "Scans are planned by clients here: leave 'rest-scan-planning-enabled' at false."
_FUNCTIONS = "This catalog holds no functions."
_ABSENT: tuple[tuple[str, list[HttpMethod], str], ...] = (
    (f"{_TABLE}/plan", [HttpMethod.POST], _PLANNING),
    (f"{_TABLE}/plan/{{plan:str}}", [HttpMethod.GET, HttpMethod.DELETE], _PLANNING),
    (f"{_TABLE}/tasks", [HttpMethod.POST], _PLANNING),
    ("/namespaces/{namespace:str}/functions", [HttpMethod.GET, HttpMethod.POST], _FUNCTIONS),
    ("/namespaces/{namespace:str}/functions/{function:str}", [HttpMethod.GET, HttpMethod.DELETE], _FUNCTIONS),
)


def absent_handlers() -> list[HTTPRouteHandler]:
    return [_refuse(path, methods, reason) for path, methods, reason in _ABSENT]


def _refuse(path: str, methods: list[HttpMethod], reason: str) -> HTTPRouteHandler:
    @route(path, http_method=methods, sync_to_thread=False, status_code=501)
    def refuse(request: AnyRequest) -> None:
        raise NotOffered(reason)

    return refuse
