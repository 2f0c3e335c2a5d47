"""Bodies packed with gzip: those of requests, as Nessie's Java client sends them, and of answers, when asked for.

A request is unpacked as it is read, a piece at a time, so that the limit on the size of a body holds for what it
unpacks to.  Short answers are sent as they are: packing them takes longer than sending them.
"""

from __future__ import annotations

import asyncio
import zlib

from nessie_ops.errors import BadRequest
from nessie_ops.server.paths import ASGIApp, Receive, Scope, Send
from nessie_ops.server.problems import UnsupportedMediaType

MIN_PACKED_BYTES = 2 << 10
MAX_INLINE_BYTES = 64 << 10  # more is packed in a thread, so that other requests do not wait for it
PIECE_BYTES = 256 << 10  # unpacked at a time
Headers = list[tuple[bytes, bytes]]
_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 1  # a third of the time of the usual level, for a tenth more bytes


class Encodings:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        packed, accepted = b"", b""
        for name, value in scope["headers"]:
            if name == b"content-encoding":
                packed = value.strip().lower()
            elif name == b"accept-encoding":
                accepted += b"," + value
        if packed not in (b"", b"identity"):
            headers = [pair for pair in scope["headers"] if pair[0] not in (b"content-encoding", b"content-length")]
            scope, receive = {**scope, "headers": headers}, _Unpacked(receive, packed).receive
        if accepts_gzip(accepted):
            send = _Packing(send).send
        await self._app(scope, receive, send)


def accepts_gzip(accepted: bytes) -> bool:
    """Whether an Accept-Encoding header allows gzip; `*` is not taken for a wish."""
    if b"gzip" not in accepted:
        return False
    for part in accepted.lower().split(b","):
        name, _, weight = part.replace(b" ", b"").partition(b";q=")
        if name in (b"gzip", b"x-gzip"):
            return weight.strip(b"0.") != b"" if weight else True
    return False


class _Unpacked:
    """The body of a request, unpacked; what is not gzip is an error where it is read."""

    def __init__(self, receive: Receive, encoding: bytes) -> None:
        self._receive = receive
        self._encoding = encoding
        self._unpacker = zlib.decompressobj(_GZIP)
        self._is_empty = True
        self._has_ended = False  # all of the packed body has come
        self._is_done = False  # and all of it has been passed on

    async def receive(self) -> Scope:
        while not self._is_done:
            packed = self._unpacker.unconsumed_tail
            if not packed and not self._has_ended:
                message = await self._receive()
                if message["type"] != "http.request":
                    return message
                packed, self._has_ended = message.get("body", b""), not message.get("more_body", False)
            piece = self._unpack(packed) if packed else b""
            if piece:
                return {"type": "http.request", "body": piece, "more_body": True}
            self._is_done = self._has_ended and not self._unpacker.unconsumed_tail
            if self._is_done:
                self._check_end()
                return {"type": "http.request", "body": b"", "more_body": False}
        return await self._receive()

    def _check_end(self) -> None:
        if not self._is_empty and not self._unpacker.eof:
            raise BadRequest("Content-Encoding: the body ends in the middle of what gzip packed.")

    def _unpack(self, packed: bytes) -> bytes:
        self._is_empty = False
        if self._encoding not in (b"gzip", b"x-gzip"):
            raise UnsupportedMediaType(
                f"Content-Encoding: '{self._encoding.decode('latin-1')[:80]}' is not supported; send gzip or nothing."
            )
        try:
            piece = self._unpacker.decompress(packed, PIECE_BYTES)
        except zlib.error as error:
            raise BadRequest(f"Content-Encoding: the body is not what gzip packed: {error}.") from None
        if self._unpacker.unused_data:
            raise BadRequest("Content-Encoding: the body goes on after what gzip packed.")
        return piece


class _Packing:
    """Sends an answer packed, if it comes in one piece that is long enough."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Scope | None = None

    async def send(self, message: Scope) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            body = message.get("body", b"")
            if len(body) >= MIN_PACKED_BYTES and not message.get("more_body"):
                body = pack(body) if len(body) <= MAX_INLINE_BYTES else await asyncio.to_thread(pack, body)
                message = {**message, "body": body}
                start = {**start, "headers": _mark(start["headers"], len(body))}
            await self._send(start)
        await self._send(message)


def pack(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return packer.compress(body) + packer.flush()


def _mark(headers: Headers, size: int) -> Headers:
    kept = [pair for pair in headers if pair[0].lower() != b"content-length"]
    own = [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"), (b"content-length", b"%d" % size)]
    return kept + own
