"""The two kinds of answer: JSON and nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar import Response

from nessie_ops.model.wire import to_json

JSON = "application/json;charset=UTF-8"
ERROR_JSON = "application/json"
RETRY_AFTER_S = 1


def json_response(value: Any, status: int = 200) -> Response[bytes]:
    """`value` (a struct or plain values) as JSON; with 503 goes the time after which to try again."""
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else None
    media_type = JSON if status < 400 else ERROR_JSON
    return Response(to_json(value), status_code=status, headers=headers, media_type=media_type)


def empty(status: int, headers: Mapping[str, str] | None = None) -> Response[bytes]:
    """An answer without body."""
    return Response(b"", status_code=status, headers=headers, media_type="text/plain")
