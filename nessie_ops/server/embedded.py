"""The server inside this process, for programs that are given no server.

One server per process and (store, warehouse, allowed locations, way to S3), on a free port of 127.0.0.1, in a daemon
thread: it ends with the process and shares nothing but the store with those of other processes.  It is never stopped
earlier, because Spark sessions hold its address.  After a fork the child starts its own.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import NamedTuple

from nessie_ops.catalog import AWS, S3
from nessie_ops.errors import StoreUnavailable
from nessie_ops.server.app import open_app
from nessie_ops.server.serve import base_uri_of, bind, make_server
from nessie_ops.server.settings import Settings
from nessie_ops.transactions.reaper import Reaper

START_TIMEOUT_S = 30


class _Running(NamedTuple):
    base_uri: str
    sock: socket.socket


_lock = threading.Lock()
_running: dict[tuple[str, str, tuple[str, ...], S3], _Running] = {}


def ensure_embedded(store_url: str, warehouse_url: str, allowed_locations: tuple[str, ...] = (), s3: S3 = AWS) -> str:
    """The base URI of this process's server over a store and a warehouse, started if need be.

    It answers requests when this returns.  Raises what opening the store raises.
    """
    with _lock:
        key = (store_url, warehouse_url, allowed_locations, s3)
        if key not in _running:
            settings = Settings(
                store=store_url, warehouse=warehouse_url, allowed_locations=allowed_locations, s3=s3, port=0
            )
            _running[key] = _start(settings)
        return _running[key].base_uri


def _start(settings: Settings) -> _Running:
    app, store = open_app(settings)
    sock = bind(settings.host, settings.port)
    server = make_server(app)
    thread = threading.Thread(target=server.run, args=([sock],), name="nessie-ops-server", daemon=True)
    thread.start()
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            server.should_exit = True
            raise StoreUnavailable("The embedded catalog server did not start; its log says why. Try again.")
        time.sleep(0.005)
    Reaper(store).start()
    return _Running(base_uri_of(sock), sock)


def _forget_parent() -> None:
    """In a forked child: the parent's server threads do not run here, and its lock may be held for ever."""
    global _lock
    _lock = threading.Lock()
    for running in _running.values():
        os.close(running.sock.detach())  # else the child would keep the parent's port
    _running.clear()


os.register_at_fork(after_in_child=_forget_parent)
