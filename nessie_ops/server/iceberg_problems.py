"""Errors as the Iceberg REST protocol words them: `{"error": {"message", "type", "code"}}`.

Clients act on the code: 409 means "definitely not applied", 404 "does not exist", 5xx "unknown".  A
missing reference is therefore a 400: as a 404 it would read as a missing table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException

from nessie_ops.errors import (
    BadRequest,
    Forbidden,
    KeyReused,
    MetadataUnavailable,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NameTaken,
    NessieOpsError,
    NoSuchTable,
    NoSuchView,
    OutcomeUnknown,
    ReferenceConflict,
    ReferenceNotFound,
    StoreUnavailable,
)
from nessie_ops.server.paths import UNREADABLE
from nessie_ops.server.problems import AnyRequest, to_nessie_error
from nessie_ops.server.responses import json_response

log = logging.getLogger("nessie_ops.server")


class Unprocessable(BadRequest):
    """The same property is to be set and removed."""

    http_status = 422


class NotOffered(NessieOpsError):
    """An endpoint of the protocol that this server does not have."""

    http_status = 501


_TYPES: tuple[tuple[type[NessieOpsError], str], ...] = (  # the first that fits
    (NoSuchTable, "NoSuchTableException"),
    (NoSuchView, "NoSuchViewException"),
    (NamespaceNotFound, "NoSuchNamespaceException"),
    (NamespaceNotEmpty, "NamespaceNotEmptyException"),
    (NamespaceAlreadyExists, "AlreadyExistsException"),
    (NameTaken, "AlreadyExistsException"),
    (ReferenceConflict, "CommitFailedException"),
    (ReferenceNotFound, "NoSuchReferenceException"),
    (Unprocessable, "UnprocessableEntityException"),
    (KeyReused, "UnprocessableEntityException"),
    (BadRequest, "BadRequestException"),
    (Forbidden, "NotAuthorizedException"),
    (StoreUnavailable, "ServiceUnavailableException"),
    (MetadataUnavailable, "ServiceFailureException"),
    (OutcomeUnknown, "CommitStateUnknownException"),
    (NotOffered, "UnsupportedOperationException"),
    (NessieOpsError, "InternalServerError"),
)


class _Error(msgspec.Struct, frozen=True):
    message: str
    type: str
    code: int


class _ErrorBody(msgspec.Struct, frozen=True):
    error: _Error


def answer_iceberg_error(request: AnyRequest, error: Exception) -> Response[bytes]:
    """The HTTP answer for an error raised by a handler of the Iceberg API."""
    known = _to_known(error)
    code = 400 if isinstance(known, ReferenceNotFound) else known.http_status
    if code >= 500 and not isinstance(known, NotOffered):
        log.error("%s %s failed", request.method, request.scope["path"], exc_info=error)
    type_name = next(name for kind, name in _TYPES if isinstance(known, kind))
    return json_response(_ErrorBody(_Error(known.message, type_name, code)), code)


def answer_http_error(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """The answer for what the framework refuses, such as an oversized body."""
    if error.status_code >= 500:
        return answer_iceberg_error(request, error)
    if request.scope["path"] == UNREADABLE:
        return answer_iceberg_error(request, BadRequest("path: has an empty part, or one that is not UTF-8."))
    code = error.status_code
    type_name = "UnsupportedOperationException" if code in (404, 405) else "BadRequestException"
    missing = f"{request.method} {request.scope['path'][:500]}: this server has no such endpoint."
    message = missing if code == 404 else error.detail
    answer = json_response(_ErrorBody(_Error(message, type_name, code)), code)
    answer.headers.update(error.headers or {})
    return answer


def _to_known(error: Exception) -> NessieOpsError:
    if isinstance(error, RecursionError):
        return BadRequest("request body: JSON is nested too deeply.")
    return to_nessie_error(error)


EXCEPTION_HANDLERS: dict[int | type[Exception], Callable[[AnyRequest, Any], Response[bytes]]] = {
    HTTPException: answer_http_error,
    Exception: answer_iceberg_error,
}
