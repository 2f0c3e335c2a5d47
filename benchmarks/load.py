"""A load generator that leaves the processor to what it measures: HTTP/1.1 over kept connections, bytes in, bytes out.

One request at a time per connection; many connections at once.  It reads of an answer only what it must: status,
length, and the bytes of the body.  Knows nothing of the catalog.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, cast
from urllib.parse import urlsplit

_BODILESS = (b"204", b"304")  # whatever length they tell


class Answer(NamedTuple):
    status: int
    body: bytes


class Connection(asyncio.Protocol):
    """One kept connection.  `call` may be used again once its answer is there."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._expected = -1  # where the answer ends in what is received; -1 until its head is read
        self._body = 0
        self._chunked = False
        self._answer: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def call(self, request: bytes) -> asyncio.Future[Answer]:
        assert self._transport is not None and (self._answer is None or self._answer.done())
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._expected < 0 and not self._read_head():
            return
        if self._chunked:
            if self._received.endswith(b"0\r\n\r\n"):
                self._finish(_joined(self._received[self._body :]))
        elif len(self._received) >= self._expected:
            self._finish(bytes(self._received[self._body :]))

    def _read_head(self) -> bool:
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = self._received[:end].lower() + b"\r\n"
        self._body = self._expected = end + 4
        self._chunked = b"\r\ntransfer-encoding: chunked\r\n" in head
        length = head.find(b"\r\ncontent-length:")
        if length >= 0 and head[9:12] not in _BODILESS:
            self._expected += int(head[length + 17 : head.index(b"\r\n", length + 2)])
        return True

    def _finish(self, body: bytes) -> None:
        assert self._answer is not None
        answer = Answer(int(self._received[9:12]), body)
        self._received.clear()
        self._expected = -1
        self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _joined(chunks: bytearray) -> bytes:
    parts, at = [], 0
    while True:
        end = chunks.index(b"\r\n", at)
        size = int(chunks[at:end].split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(bytes(chunks[end + 2 : end + 2 + size]))
        at = end + size + 4


@asynccontextmanager
async def connections(url: str, count: int = 1) -> AsyncIterator[list[Connection]]:
    """Open connections to the server at a URL; closed when the context ends."""
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    made = [(await loop.create_connection(Connection, parts.hostname, parts.port))[1] for _ in range(count)]
    try:
        yield made
    finally:
        for connection in made:
            connection.close()


def request(method: str, path: str, body: bytes = b"", headers: Sequence[str] = ()) -> bytes:
    """The bytes of a request; `headers` are whole lines."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\nNessie-Client-Spec: 2\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    head += "".join(f"{line}\r\n" for line in headers)
    return f"{head}\r\n".encode() + body
