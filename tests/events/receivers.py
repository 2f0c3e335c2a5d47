"""A webhook receiver: a real HTTP server in a thread that checks signatures and answers as it is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

from nessie_ops.events import verify
from nessie_ops.events.webhook import make_secret
from nessie_ops.model import Event

SECRET = make_secret(bytes(range(32)))
Answer = Callable[[Event], int]


class Message(NamedTuple):
    event: Event
    headers: dict[str, str]
    body: bytes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        event = msgspec.json.decode(body, type=Event)
        assert verify(SECRET, headers, body, time.time()) == event.id
        self.server.receiver.take(Message(event, headers, body))
        status = self.server.receiver.answer(event)
        self.send_response(status)
        for name, value in self.server.receiver.answer_headers.items():
            self.send_header(name, value)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: Receiver

    def handle_error(self, request: Any, client_address: Any) -> None:
        self.receiver.errors += 1  # a client that went away while it was answered, or a failed check


class Receiver:
    """Keeps the messages it got.  `answer` is called with each event and returns the status, or hangs."""

    def __init__(self, answer: Answer = lambda _: 204, port: int = 0) -> None:
        self.answer = answer
        self.answer_headers: dict[str, str] = {}
        self.errors = 0
        self.messages: list[Message] = []
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.receiver = self
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hook?x=1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def take(self, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[Event]:
        """The first `count` events, or more, in the order of arrival."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, 120), self.seqs()
            return [message.event for message in self.messages]

    def seqs(self) -> list[int]:
        return [message.event.seq for message in self.messages]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
