"""Sends one message to one URL, once.  Connects only to allowed addresses; follows no redirect and uses no proxy.

The host is looked up once for each connection and the address that was judged is the one connected to, so a
name that changes its address in between gains nothing.  Of the answer only the status is told to anyone.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

import httpcore
import httpx

from nessie_ops.events.addresses import Networks

MAX_CONNECTIONS = 200
IDLE_S = 30.0  # how long a connection is kept for the next event
MAX_ANSWER_BYTES = 64 << 10  # read to keep a connection; after more than that it is closed
_GONE, _BUSY = 410, (429, 503)


class Outcome(NamedTuple):
    """How an attempt ended; `error` is empty when the message was accepted."""

    error: str = ""
    is_gone: bool = False  # the receiver wants no more messages
    retry_after_s: float = 0.0


class Sender:
    """Connections to receivers.  Use it as an asynchronous context manager, in one event loop."""

    def __init__(self, networks: Networks, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=MAX_CONNECTIONS,
            keepalive_expiry=IDLE_S,
            network_backend=_Guarded(networks),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self._pool.aclose()

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Outcome:
        """Send `body`; never raises for what the network or the receiver does."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._post(httpx.URL(url), headers, body)
        except TimeoutError:
            return Outcome(f"no answer within {self._timeout_s:g} seconds")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            return Outcome(f"{type(error).__name__}: {error}"[:500])

    async def _post(self, url: httpx.URL, headers: Mapping[str, str], body: bytes) -> Outcome:
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        fields = [("host", url.netloc.decode()), ("content-length", str(len(body))), *headers.items()]
        limits = dict.fromkeys(("connect", "read", "write", "pool"), self._timeout_s)
        async with self._pool.stream(
            "POST", target, headers=fields, content=body, extensions={"timeout": limits}
        ) as response:
            received = 0
            async for part in response.aiter_stream():
                received += len(part)
                if received > MAX_ANSWER_BYTES:
                    break
        if 200 <= response.status < 300:
            return Outcome()
        return Outcome(f"HTTP status {response.status}", response.status == _GONE, _get_retry_after_s(response) or 0.0)


def _get_retry_after_s(response: httpcore.Response) -> float:
    """What a busy receiver asks for in seconds; a date is not read."""
    text = dict(response.headers).get(b"retry-after", b"").decode("latin-1") if response.status in _BUSY else ""
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0.0


class _Guarded(httpcore.AsyncNetworkBackend):
    """Connects to allowed addresses."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"the host cannot be looked up: {error}") from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        if refused := [address for address in addresses if not self._networks.allows(address)]:
            raise httpcore.ConnectError(f"webhooks to the address {refused[0]} are refused")
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
