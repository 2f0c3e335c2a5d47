"""Errors become HTTP answers here and nowhere else.

The body is that of the Nessie REST API; `errorDetails` go only to clients that announce with
`Nessie-Client-Spec: 2` that they can read them.  What nobody foresaw is a 500 with its message, and
its traceback in the log.  A path, query value or method that does not exist has an empty body.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from nessie_ops.errors import (
    BadRequest,
    ContentNotFound,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NessieOpsError,
    ReferenceConflict,
    TransactionConflict,
)
from nessie_ops.model.wire import ContentKeyDetails, ErrorBody, ReferenceConflicts
from nessie_ops.server.responses import empty, json_response

log = logging.getLogger("nessie_ops.server")

AnyRequest = Request[Any, Any, Any]


class UnsupportedMediaType(NessieOpsError):
    """The request's body is not JSON."""

    error_code, http_status = "UNSUPPORTED_MEDIA_TYPE", 415


class NoSuchPath(Exception):
    """A key in the path or a value in the query that cannot be read: the API answers an empty 404."""


def to_nessie_error(error: Exception) -> NessieOpsError:
    """The error to answer `error` with; anything unforeseen keeps its message and gets status 500."""
    if isinstance(error, NessieOpsError):
        return error
    if isinstance(error, msgspec.ValidationError):
        return BadRequest(_name_the_field(str(error)))
    if isinstance(error, msgspec.DecodeError):
        return BadRequest(f"Request body is not valid JSON: {error}")
    causes = [error]
    while (cause := causes[-1].__cause__) and isinstance(cause, Exception):
        causes.append(cause)
    return NessieOpsError("; caused by ".join(f"{type(cause).__name__}: {cause}" for cause in causes))


def _name_the_field(message: str) -> str:
    """`Expected X - at `$.a.b`` as `a.b: Expected X`."""
    text, found, path = message.partition(" - at `")
    field = path.rstrip("`").removeprefix("$").removeprefix(".")
    return f"{field or 'request body'}: {text}" if found else f"request body: {message}"


def _details(error: NessieOpsError) -> ReferenceConflicts | ContentKeyDetails | msgspec.UnsetType:
    if isinstance(error, TransactionConflict):
        return ReferenceConflicts(error.conflicts, error.changes)
    if isinstance(error, ReferenceConflict) and error.conflicts:
        return ReferenceConflicts(error.conflicts)
    if isinstance(error, ContentNotFound | NamespaceNotFound | NamespaceAlreadyExists | NamespaceNotEmpty):
        return ContentKeyDetails(error.key)
    return msgspec.UNSET


def _reads_details(request: AnyRequest) -> bool:
    major = request.headers.get("nessie-client-spec", "").partition(".")[0]
    return major.isdecimal() and int(major[:9]) >= 2


def answer_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    """The HTTP answer for an error raised by a handler."""
    if isinstance(error, NoSuchPath):
        return empty(404)
    known = to_nessie_error(error)
    if known.retryable:
        log.warning("%s %s: %s", request.method, request.scope["path"], known.message)
    elif known.http_status >= 500:
        log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    body = ErrorBody(
        status=known.http_status,
        reason=HTTPStatus(known.http_status).phrase,
        message=known.message,
        error_code=known.error_code,
        error_details=_details(known) if _reads_details(request) else msgspec.UNSET,
    )
    return json_response(body, known.http_status)


def answer_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """The answer for what the framework refuses: unknown paths and methods, oversized bodies."""
    if error.status_code in (404, 405, 406):
        return empty(error.status_code, error.headers)
    if error.status_code >= 500:
        return answer_error(request, error)
    body = ErrorBody(
        status=error.status_code,
        reason=HTTPStatus(error.status_code).phrase,
        message=error.detail,
        error_code=BadRequest.error_code,
    )
    return json_response(body, error.status_code)


EXCEPTION_HANDLERS: dict[int | type[Exception], Callable[[AnyRequest, Any], Response[Any]]] = {
    HTTPException: answer_http_error,
    Exception: answer_error,
}
