"""Requests of a server over a pool of connections, and errors as the exceptions that the server raised.

Knows no endpoint.  A write whose answer is lost is never sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, TracebackType
from typing import Self, TypeVar

import httpx
import msgspec

from nessie_ops import errors
from nessie_ops.errors import BadRequest, NessieOpsError, OutcomeUnknown, StoreUnavailable
from nessie_ops.model import wire

_ROOT = "api/v2"
PAGE = 1_000  # rows of one request
IDLE_S = 5  # how long an idle connection is kept; the server keeps it longer
_HEADERS = {"Nessie-Client-Spec": "2", "Nessie-Ops-Properties": "true", "Accept-Encoding": "identity"}
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_LOOK = "It may have been done: look before repeating it."
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_BY_CODE: dict[str, type[NessieOpsError]] = {
    kind.error_code: kind
    for kind in (
        errors.BadRequest,
        errors.Forbidden,
        errors.ReferenceNotFound,
        errors.ReferenceAlreadyExists,
        errors.MergeRequestNotFound,
        errors.MergeRequestNotReady,
        errors.StoreUnavailable,
        errors.SubscriberAlreadyExists,
        errors.SubscriberNotFound,
        errors.TransactionNotFound,
        errors.TransactionNotOpen,
    )
}
_BY_CODE_WITH_KEY = {
    kind.error_code: kind
    for kind in (
        errors.ContentNotFound,
        errors.NamespaceNotFound,
        errors.NamespaceAlreadyExists,
        errors.NamespaceNotEmpty,
    )
}

T = TypeVar("T")
P = TypeVar("P", bound=wire.Page)
R = TypeVar("R")


class Connection:
    """A connection pool to one server; close it, or use it as a context manager."""

    def __init__(
        self,
        base_uri: str,
        *,
        connect_timeout_s: float = 5.0,
        read_timeout_s: float = 120.0,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> None:
        """`base_uri` is the server's root, such as `http://127.0.0.1:19120`; nothing is sent yet.

        `headers` go with every request, such as one that says who asks.
        """
        base = base_uri.rstrip("/").removesuffix("/api/v2")
        try:
            parts = httpx.URL(base)
        except httpx.InvalidURL as error:
            raise BadRequest(f"uri: '{without_user(base_uri)[:200]}' is not a URL: {error}.") from None
        if parts.scheme not in ("http", "https") or not parts.host:
            raise BadRequest(f"uri: '{without_user(base_uri)[:200]}' is not an http or https URL.")
        self.base_uri, self.shown_uri = base, without_user(base)
        self._http = httpx.Client(
            headers={**_HEADERS, **headers},
            timeout=httpx.Timeout(read_timeout_s, connect=connect_timeout_s),
            limits=httpx.Limits(max_keepalive_connections=20, keepalive_expiry=IDLE_S),
            trust_env=parts.host not in ("127.0.0.1", "localhost", "::1"),  # no proxy to oneself
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _get(self, path: str, type: type[T], params: Mapping[str, str] | None = None, *, root: str = _ROOT) -> T:
        return self._call("GET", path, type, params, root=root)

    def _write(
        self, method: str, path: str, type: type[T], body: object = None, params: Mapping[str, str] | None = None
    ) -> T:
        return self._call(method, path, type, params, body, is_write=True)

    def _rows(
        self,
        path: str,
        params: Mapping[str, str],
        type: type[P],
        rows: Callable[[P], tuple[R, ...]],
        limit: int,
        token: str | None = "",
    ) -> Iterator[R]:
        """At most `limit` rows of a listing, page by page, from `token` on."""
        while token is not None and limit > 0:
            size = min(limit, PAGE)
            page = self._get(path, type, {**params, "max-records": str(size), "page-token": token})
            found = rows(page)
            yield from found
            token = page.token if page.has_more else None
            if page.has_more and not token:
                raise StoreUnavailable(f"{self.shown_uri} has more rows of {path}, but does not say where they begin.")
            limit -= len(found)

    def _call(
        self,
        method: str,
        path: str,
        type: type[T],
        params: Mapping[str, str] | None = None,
        body: object = None,
        *,
        is_write: bool = False,
        root: str = _ROOT,
    ) -> T:
        request = self._http.build_request(
            method,
            f"{self.base_uri}/{root}/{path}",
            params={name: value for name, value in (params or {}).items() if value},
            content=None if body is None else wire.to_json(body),
            headers=None if body is None else {"Content-Type": "application/json"},
        )
        lost = f"{method} /{root}/{path} at {self.shown_uri}"
        try:
            response = self._http.send(request)
        except httpx.TransportError as error:
            raise _to_network_error(error, lost, is_write) from error
        if not response.is_success:
            raise _to_error(response, lost, is_write)
        try:
            return msgspec.json.decode(response.content, type=type)
        except msgspec.MsgspecError as error:
            text = f"{lost}: the answer cannot be read ({error}); is it a nessie-ops server?"
            raise OutcomeUnknown(f"{text} {_LOOK}") if is_write else NessieOpsError(text) from error


def without_user(url: str) -> str:
    """A URL as it may be shown and kept: without the user and password that may stand before its host."""
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}{place.rpartition('@')[2]}{slash}{path}"


def _to_network_error(error: httpx.TransportError, what: str, is_write: bool) -> NessieOpsError:
    text = str(error) or type(error).__name__
    if is_write and not isinstance(error, _UNSENT):
        return OutcomeUnknown(f"{what}: the answer was lost ({text}). {_LOOK}")
    return StoreUnavailable(f"{what}: no answer ({text}). Is the server running? Try again.")


def _to_error(response: httpx.Response, what: str, is_write: bool) -> NessieOpsError:
    """The error that the server raised."""
    status = response.status_code
    try:
        body = msgspec.json.decode(response.content, type=wire.ErrorBody)
    except msgspec.MsgspecError:
        if is_write and status >= 500:
            return OutcomeUnknown(f"{what}: HTTP status {status}. {_LOOK}")
        if status >= 500:
            return StoreUnavailable(f"{what}: HTTP status {status}. Try again.")
        if status in (401, 403):
            return errors.Forbidden(f"{what}: HTTP status {status}: this needs a user or token that may do it.")
        return BadRequest(f"{what}: HTTP status {status}; the path or a query value is not understood there.")
    details = body.error_details
    if body.error_code == errors.ReferenceConflict.error_code:
        conflicts = details.conflicts if isinstance(details, wire.ReferenceConflicts) else ()
        if isinstance(details, wire.ReferenceConflicts) and details.changes is not None:
            return errors.TransactionConflict(body.message, conflicts, details.changes)
        return errors.ReferenceConflict(body.message, conflicts)
    if body.error_code in _BY_CODE_WITH_KEY and isinstance(details, wire.ContentKeyDetails):
        return _BY_CODE_WITH_KEY[body.error_code](body.message, details.content_key)
    if body.error_code in _BY_CODE:
        return _BY_CODE[body.error_code](body.message)
    if is_write and status >= 500:
        return OutcomeUnknown(f"{what}: {body.message}. {_LOOK}")
    if status in (401, 403):
        return errors.Forbidden(f"{what}: HTTP status {status}: {body.message}")
    return NessieOpsError(body.message)
