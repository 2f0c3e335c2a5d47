"""`Idempotency-Key`: a request that is sent again with its key gets its first answer again, and does nothing again.

Invariant: what is sent to a request with a key is what the database holds for the key, or an error that says to try
again.  An answer of success is recorded by the transaction that did the work (`store.once`); a refusal, and a success
that had nothing to write, by one of their own, which fails when the key has an answer by then.  What ends some time,
such as credentials, is not recorded: it is added to the first answer and to each repetition, after all transactions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from litestar import Request, Response

from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.server.iceberg_problems import answer_iceberg_error
from nessie_ops.server.live import in_thread
from nessie_ops.server.paths import ASGIApp, Receive, Scope, Send
from nessie_ops.server.problems import answer_error
from nessie_ops.server.responses import json_response
from nessie_ops.store import Store, once

T = TypeVar("T")
HEADER = b"idempotency-key"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_WORD = re.compile(r"[!-~]{1,255}")
# What was decided about a request, as opposed to why it was not looked at, or may not have been done.
_FINAL = (*range(200, 300), 400, 403, 404, 409, 422)
# By POST, and yet nothing is written.
_READS = re.compile(
    rb"/api/v1/contents|/api/v2/trees/.+/contents|/iceberg/([^/]+/)?v1/oauth/tokens"
    rb"|/iceberg/([^/]+/)?v1/[^/]+/namespaces/[^/]+/tables/[^/]+/(metrics|sign)"
)


class Answer(NamedTuple):
    """An answer as it is sent and stored, but for its length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def pack(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @classmethod
    def unpack(cls, packed: bytes) -> Answer:
        return msgspec.msgpack.decode(packed, type=cls)

    @classmethod
    def of(cls, response: Response[bytes]) -> Answer:
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
        kind = [(b"content-type", str(response.media_type).encode())] if response.content else []
        return cls(response.status_code or HTTPStatus.OK, [*kind, *headers], response.content)

    def to_response(self) -> Response[bytes]:
        headers = {name.decode(): value.decode() for name, value in self.headers}
        kind = headers.pop("content-type", None)
        return Response(self.body, status_code=self.status, headers=headers, media_type=kind)

    async def send(self, send: Send) -> None:
        size = [] if self.status == HTTPStatus.NO_CONTENT else [(b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": [*self.headers, *size]})
        await send({"type": "http.response.body", "body": self.body})


Complete = Callable[[Answer], Answer]
"""Adds to an answer of success what must not be recorded; NessieOpsError when it cannot, and then that is answered."""


class _Last:
    """What is still to be done with the answer to the request with a key that is under way."""

    complete: Complete | None = None


_last: ContextVar[_Last | None] = ContextVar("nessie_ops_last", default=None)


def answer(
    write: Callable[[], T],
    render: Callable[[T], Response[bytes]] = json_response,
    complete: Complete | None = None,
) -> Response[bytes]:
    """What `render` makes of the result of `write`, the one thing that a handler writes, and then `complete` of that.

    `complete` is asked once for each time that the answer is sent.
    """
    last = _last.get()
    if last is not None:
        last.complete = complete  # before `write`, which does not return when the request was answered before
    with answering(render):
        made = render(write())
    return made if last is not None or complete is None else complete(Answer.of(made)).to_response()


def answering(render: Callable[[Any], Response[bytes]]) -> Any:
    """A context for the one thing that a handler writes; `render` makes the answer of its result."""
    return once.answering(lambda value: Answer.of(render(value)).pack())


def carry_out(write: Callable[[], object]) -> None:
    """Let `write` be all that a handler does which answers with 204 and no body."""
    with answering(lambda _: Response(b"", status_code=HTTPStatus.NO_CONTENT)):
        write()


class Once:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, store: Store, lifetime_s: int) -> None:
        self._app, self._store, self._lifetime_us = app, store, lifetime_s * 1_000_000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        keys = [value for name, value in scope["headers"] if name == HEADER] if scope["type"] == "http" else []
        if not keys or not _writes(scope):
            await self._app(scope, receive, send)
            return
        try:
            key = _read_key(scope["path"], keys)
        except BadRequest as error:
            await _problem(scope, error).send(send)
            return
        body = _Body(receive)
        if not await body.read():
            if not body.is_abandoned:
                await self._app(scope, body.receive, send)
            return
        request, last = once.KeyedRequest(key, _digest(scope, body.pieces), self._lifetime_us), _Last()
        token = _last.set(last)
        try:
            final = await self._run(scope, body.receive, request)
        finally:
            _last.reset(token)
        if last.complete is not None and final.status == HTTPStatus.OK:
            try:
                final = await in_thread(last.complete, final)
            except NessieOpsError as error:
                final = _problem(scope, error)
        await final.send(send)

    async def _run(self, scope: Scope, receive: Receive, request: once.KeyedRequest) -> Answer:
        sent = _Sent()
        token = once.enter(request)
        try:
            await self._app(scope, receive, sent.send)
        finally:
            once.leave(token)
        if request.answer is not None:
            return Answer.unpack(request.answer)
        made = sent.answer()
        if made.status not in _FINAL:
            return made
        try:
            await in_thread(self._store.record_answer, request, made.pack())
        except once.AlreadyAnswered as earlier:
            return Answer.unpack(earlier.answer)
        except NessieOpsError as error:
            return _problem(scope, error)
        return made


def _writes(scope: Scope) -> bool:
    method, path = scope["method"], scope["raw_path"]
    if method in ("GET", "HEAD", "OPTIONS") or not path.startswith((b"/api/", b"/iceberg/")):
        return False
    return not (method == "POST" and _READS.fullmatch(path))


def _read_key(path: str, keys: list[bytes]) -> bytes:
    if path.startswith("/api/v2/subscribers"):
        raise BadRequest("Idempotency-Key: is not understood for subscribers; leave it out.")
    text = keys[0].decode("latin-1").strip()
    if len(keys) > 1:
        raise BadRequest("Idempotency-Key: must be sent once.")
    if _UUID.fullmatch(text):
        return UUID(text).bytes
    if path.startswith("/iceberg/"):
        raise BadRequest("Idempotency-Key: must be a UUID, such as 017f22e2-79b0-7cc3-98c4-dc0c0c07398f.")
    if not _WORD.fullmatch(text):
        raise BadRequest("Idempotency-Key: must be 1 to 255 visible ASCII characters, best a UUID.")
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _digest(scope: Scope, pieces: Iterable[bytes]) -> bytes:
    digest = hashlib.sha256(b"\0".join((scope["method"].encode(), scope["raw_path"], scope["query_string"], b"")))
    for piece in pieces:
        digest.update(piece)
    return digest.digest()


def _problem(scope: Scope, error: NessieOpsError) -> Answer:
    tell = answer_iceberg_error if scope["path"].startswith("/iceberg/") else answer_error
    request: Request[Any, Any, Any] = Request(scope)  # type: ignore[arg-type]
    return Answer.of(tell(request, error))


class _Body:
    """The body of a request, read before the request is looked at."""

    def __init__(self, receive: Receive, limit: int = 65 << 20) -> None:
        """`limit` is beyond what the application takes, which then says so itself."""
        self._receive, self._limit = receive, limit
        self.pieces: list[bytes] = []
        self.is_abandoned = False  # its client has gone
        self._error: Exception | None = None
        self._ended = False
        self._told = 0

    async def read(self) -> bool:
        """Whether the body has come, whole."""
        size = 0
        while size <= self._limit:
            try:
                message = await self._receive()
            except NessieOpsError as error:  # such as a body that cannot be unpacked
                self._error = error
                return False
            if message["type"] != "http.request":
                self.is_abandoned = True
                return False
            self.pieces.append(message.get("body", b""))
            size += len(self.pieces[-1])
            if not message.get("more_body", False):
                self._ended = True
                return True
        return False

    async def receive(self) -> Scope:
        """What the application gets: what has been read, and then what else comes."""
        if self._told < len(self.pieces):
            piece = self.pieces[self._told]
            self._told += 1
            return {"type": "http.request", "body": piece, "more_body": not (self._ended and self._is_told)}
        if self._error:
            raise self._error
        return await self._receive()

    @property
    def _is_told(self) -> bool:
        return self._told == len(self.pieces)


class _Sent:
    """Keeps what the application sends."""

    def __init__(self) -> None:
        self._messages: list[Scope] = []

    async def send(self, message: Scope) -> None:
        self._messages.append(message)

    def answer(self) -> Answer:
        start, *pieces = self._messages
        headers = [(bytes(name), bytes(value)) for name, value in start["headers"] if name.lower() != b"content-length"]
        return Answer(start["status"], headers, b"".join(piece.get("body", b"") for piece in pieces))
