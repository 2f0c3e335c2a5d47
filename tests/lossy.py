"""An HTTP proxy that passes requests on and loses answers: the sender never learns what became of its request.

It may also keep requests waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


@contextmanager
def losing(
    target: str, loses: Callable[[str], bool], *, before: Callable[[str], None] = lambda path: None
) -> Iterator[str]:
    """The URL of a proxy of `target` that loses the answers to those requests of whose method `loses` is true.

    `before` is called with the path of each request before it is passed on, and may take its time.
    """
    with httpx.Client(timeout=60, limits=httpx.Limits(max_keepalive_connections=0)) as upstream:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                before(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                answer = upstream.request(self.command, target + self.path, headers=dict(self.headers), content=body)
                self.close_connection = True
                if loses(self.command):
                    return
                with suppress(ConnectionError):  # the sender has died
                    self.answer(answer)

            def answer(self, answer: httpx.Response) -> None:
                self.send_response(answer.status_code)
                for name, value in answer.headers.items():
                    if name not in ("connection", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Connection", "close")  # else the sender's next request may meet the closing
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
