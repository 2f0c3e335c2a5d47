"""The two kinds of answer: JSON and nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar import Response
from litestar.types import Receive, Scope, Send

from nessie_ops.model.wire import to_json

JSON = "application/json;charset=UTF-8"
ERROR_JSON = "application/json"
RETRY_AFTER_S = 1
_JSON_BYTES = JSON.encode()


def json_response(value: Any, status: int = 200) -> Response[bytes]:
    """`value` (a struct or plain values) as JSON; with 503 goes the time after which to try again."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    media_type = JSON if status < 400 else ERROR_JSON
    return Response(to_json(value), status_code=status, headers=headers, media_type=media_type)


class JsonAnswer:
    """A value as JSON with status 200, sent as it is: for the requests that come by the thousand."""

    __slots__ = ("_body",)

    def __init__(self, value: Any) -> None:
        self._body = to_json(value)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", _JSON_BYTES), (b"content-length", b"%d" % len(self._body))]
        start: Any = {"type": "http.response.start", "status": 200, "headers": headers}
        await send(start)
        body: Any = {"type": "http.response.body", "body": self._body}
        await send(body)


def empty(status: int, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """An answer without body."""
    return Response(b"", status_code=status, headers=headers, media_type="text/plain")
