"""Forks servers from a process that has loaded everything, so that one starts in milliseconds; each carries a bomb.

Usage: nursery.py BOMB.  Standard input has one store URL a line; the answer is `PID BASE_URI`.  BOMB is a file of two
numbers shared by all: a server kills itself before the statement that lets the first go down to 0, and after the
COMMIT that does so with the second.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nessie_ops.server.app import open_app
from nessie_ops.server.serve import base_uri_of, bind, make_server
from nessie_ops.server.settings import Settings
from nessie_ops.store import Store


class Bomb:
    """Two countdowns, to the statements and to the ends of transactions; 0 is never."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 16)

    def arm(self, statements: int = 0, commits: int = 0) -> None:
        struct.pack_into("qq", self._memory, 0, statements, commits)

    @property
    def left(self) -> tuple[int, int]:
        statements, commits = struct.unpack_from("qq", self._memory)
        return statements, commits

    def count(self, statements: int = 0, commits: int = 0) -> None:
        before = self.left
        after = max(0, before[0] - statements), max(0, before[1] - commits)
        self.arm(*after)
        if any(was and not now for was, now in zip(before, after)):
            os.kill(os.getpid(), signal.SIGKILL)

    def plant(self, store: Store) -> None:
        """Let the statements of `store` count."""
        dialect, commit = store.dialect, store.dialect.commit

        def commit_and_count(raw: Any, statements: Sequence[Any]) -> None:
            commit(raw, statements)
            self.count(commits=1)

        dialect.on_statement = lambda _raw, _statement: self.count(statements=1)
        dialect.commit = commit_and_count  # type: ignore[method-assign]


def main(bomb: Bomb) -> None:
    settings = Settings(store="sqlite://", warehouse="file:///nowhere", port=0)
    app, versions = open_app(settings)  # loads and compiles what the servers then share
    versions.close()
    del app
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the dead
    for line in sys.stdin:
        with bind(settings.host, settings.port) as sock:
            pid = os.fork()
            if pid == 0:
                _serve(msgspec.structs.replace(settings, store=line.strip()), bomb, sock)
            print(pid, base_uri_of(sock), flush=True)


def _serve(settings: Settings, bomb: Bomb, sock: socket.socket) -> None:
    app, versions = open_app(settings)
    bomb.plant(versions.store)
    make_server(app).run([sock])
    os._exit(0)


if __name__ == "__main__":
    main(Bomb(Path(sys.argv[1])))
