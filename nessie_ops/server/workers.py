"""Several server processes on one socket, started anew when they die, stopped with the one that started them.

A worker gets its settings as the first line of its standard input, so that no password is in a list of
processes, and stops when that input ends: no worker outlives its parent, however the parent dies.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import FrameType

import msgspec
import uvicorn

from nessie_ops.errors import NessieOpsError
from nessie_ops.server.app import open_app
from nessie_ops.server.serve import GRACE_S, announce, bind, serve_on
from nessie_ops.server.settings import Settings

POLL_S = 0.1
RESTART_PAUSE_S = 1  # a worker that dies at once is not started in a tight loop


def serve_with_workers(settings: Settings, workers: int) -> None:
    """Serve in `workers` processes until SIGTERM or SIGINT; requests in flight are answered before this returns."""
    open_app(settings)[1].close()  # what is wrong with the store is said once, here
    sock = bind(settings.host, settings.port)
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    running = [_start(sock, settings) for _ in range(workers)]
    try:
        announce(sock, settings)
        while not stopping.wait(POLL_S):
            for i, worker in enumerate(running):
                if worker.poll() is not None:
                    print(f"nessie-ops: worker {worker.pid} ended ({worker.returncode}); starting another", flush=True)
                    stopping.wait(RESTART_PAUSE_S)
                    running[i] = _start(sock, settings)
    finally:
        _stop(running)
        sock.close()


def _start(sock: socket.socket, settings: Settings) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(
        [sys.executable, "-m", __spec__.name, str(sock.fileno())],
        stdin=subprocess.PIPE,
        pass_fds=[sock.fileno()],
        start_new_session=True,  # Ctrl-C is for the parent, which then tells its workers
    )
    assert worker.stdin
    worker.stdin.write(msgspec.json.encode(settings) + b"\n")
    worker.stdin.flush()
    return worker


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    for worker in running:
        worker.terminate()
    deadline = time.monotonic() + GRACE_S + 5
    for worker in running:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        assert worker.stdin
        worker.stdin.close()


def _work(fd: int) -> None:
    """Be a worker on the listening socket `fd`."""
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=Settings)

    def follow_parent(server: uvicorn.Server) -> None:
        def wait() -> None:
            os.read(sys.stdin.fileno(), 1)  # returns when the parent has gone
            server.should_exit = True

        threading.Thread(target=wait, daemon=True).start()

    with socket.socket(fileno=fd) as sock:
        serve_on(sock, settings, follow_parent)


if __name__ == "__main__":
    try:
        _work(int(sys.argv[1]))
    except NessieOpsError as error:
        print(f"nessie-ops: {error.message}", file=sys.stderr)
        sys.exit(1)
