"""Runs the server in the foreground until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from nessie_ops.errors import MachineNotReady
from nessie_ops.events import Delivery
from nessie_ops.server.app import open_app
from nessie_ops.server.corked import CorkedProtocol
from nessie_ops.server.lanes import LaneThreads
from nessie_ops.server.paths import ASGIApp
from nessie_ops.server.settings import Settings
from nessie_ops.transactions.reaper import Reaper

KEEP_ALIVE_S = 75  # longer than clients keep idle connections, so that a request never meets a closing one
MAX_WORKERS = 32  # requests in work at once in each lane; more than cores, since they wait for the database
COLLECT_AFTER = 50_000  # new objects; an answer of 10,000 entries makes fewer
GRACE_S = 30  # for requests in flight when the server is told to stop


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; MachineNotReady, in one line, when the address cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise MachineNotReady(f"host: cannot listen on '{host}': {error.strerror}.") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(2048)
    except OSError as error:
        sock.close()
        raise MachineNotReady(
            f"port: cannot listen on {host}:{port}: {error.strerror}. Stop what uses it, or choose another with --port."
        ) from None
    return sock


def base_uri_of(sock: socket.socket) -> str:
    """The URI of the server behind a listening socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_default_executor(LaneThreads(MAX_WORKERS))
        await super().serve(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)


def make_server(app: ASGIApp, on_stop: Callable[[], object] = lambda: None) -> uvicorn.Server:
    """A server for `app` that logs nothing but problems and touches no logging configuration.

    `on_stop` is called when it is told to stop, before it waits for requests in flight: to end those that wait.
    """
    config = uvicorn.Config(
        app,
        interface="asgi3",
        http=CorkedProtocol,
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    return _Server(config, on_stop)


def serve(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are answered before this returns."""
    sock = bind(settings.host, settings.port)
    try:
        serve_on(sock, settings, lambda _server: announce(sock, settings))
    finally:
        sock.close()


def announce(sock: socket.socket, settings: Settings) -> None:
    """Say on standard output where the server is."""
    print(f"nessie-ops: serving {base_uri_of(sock)} (store {_without_password(settings.store)})", flush=True)


def serve_on(sock: socket.socket, settings: Settings, ready: Callable[[uvicorn.Server], object]) -> None:
    """Serve a listening socket until a signal, or somebody who was told by `ready`, says to stop."""
    app, store = open_app(settings)
    try:
        server = make_server(app, store.store.moved.close)

        def stop(_signal: int, _frame: FrameType | None) -> None:
            server.should_exit = True

        # The server installs its own handlers and, when done, raises the signal again for those that
        # were there before: for these.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        _spare_the_collector()
        ready(server)
        with Delivery(store), Reaper(store):
            server.run(sockets=[sock])
    finally:
        store.close()


def _spare_the_collector() -> None:
    """What lives for ever need not be looked at by Python's cycle collector, nor what an answer holds for a moment."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 100)


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("?")[0].partition("://")  # options may name a password, too
    credentials, at, place = rest.rpartition("@")
    return f"{scheme}{separator}{credentials.partition(':')[0]}{at}{place}"
