"""A proxy between clients and a server, which loses requests and answers at random points, and a client that insists.

Each request is lost the first time that it is sent; whether again, and where, a seeded generator draws: within the
request, before the answer, or within the answer.
"""

from __future__ import annotations

import random
import re
import socket
import threading
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx

_KEY = re.compile(rb"\r\nidempotency-key: *([^\r]+)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
AGAIN = 0.3  # how likely a request is lost once more


class LossyProxy:
    """Listens on a free port; each connection is one request.  `losses` counts them by place."""

    def __init__(self, upstream: str, seed: int) -> None:
        target = urlsplit(upstream)
        self._upstream = str(target.hostname), target.port or 80
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._seen: set[bytes] = set()
        self.losses: Counter[str] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.base_uri = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept)

    def __enter__(self) -> LossyProxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,)).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            request = _receive(client)
            place, share = self._draw(request)
            with socket.create_connection(self._upstream) as server:
                if place == "request":
                    server.sendall(request[: int(share * len(request))])
                    return
                server.sendall(request)
                if place == "before the answer":
                    return
                answer = _receive(server)
                client.sendall(answer[: int(share * len(answer))])

    def _draw(self, request: bytes) -> tuple[str, float]:
        """Where this request is lost, if it is, and how much of that comes through."""
        key = _KEY.search(request)
        assert key
        with self._lock:
            if key[1] in self._seen and self._random.random() > AGAIN:
                return "", 1.0
            self._seen.add(key[1])
            place = self._random.choice(("request", "before the answer", "within the answer"))
            self.losses[place] += 1
            return place, self._random.random()


def _receive(peer: socket.socket) -> bytes:
    """One request or answer, whole."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        data += _some(peer)
    length = _LENGTH.search(data[:end])
    size = end + 4 + (int(length[1]) if length else 0)
    while len(data) < size:
        data += _some(peer)
    return data


def _some(peer: socket.socket) -> bytes:
    data = peer.recv(1 << 16)
    if not data:
        raise ConnectionError("closed")
    return data


class Insistent:
    """A client that sends a request, with one key, until it has an answer."""

    def __init__(self, base_uri: str, number: int) -> None:
        self._http = httpx.Client(
            base_url=base_uri, timeout=60, limits=httpx.Limits(max_keepalive_connections=0), trust_env=False
        )
        self._number = number
        self._sent = 0
        self.attempts = 0

    def post(self, path: str, body: Any) -> httpx.Response:
        self._sent += 1
        header = {"Idempotency-Key": f"017f22e2-79b0-7cc3-98c4-{self._number:06x}{self._sent:06x}"}
        while True:
            self.attempts += 1
            with suppress(httpx.TransportError):
                return self._http.post(path, json=body, headers=header)

    def close(self) -> None:
        self._http.close()
