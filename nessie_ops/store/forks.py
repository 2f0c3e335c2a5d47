"""No database connection is open while the process forks.

SQLite keeps account of its locks per process.  A child that inherits the account believes in locks that it does
not hold, so that others delete the log it writes to, and in transactions that never end.  So a fork waits for the
transactions in flight, holds back new ones and closes idle connections; parent and child then open their own.
Starting a program is no fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary, WeakMethod

from sqlalchemy import Engine


class _Gate:
    """Open but while some thread forks.  A thread must not fork inside a transaction: it would wait for itself."""

    def __init__(self) -> None:
        self._engines: WeakKeyDictionary[Engine, WeakMethod[Callable[[], None]]] = WeakKeyDictionary()
        self._reset()
        os.register_at_fork(before=self._shut, after_in_parent=self._open, after_in_child=self._reset)

    def guard(self, engine: Engine, close: Callable[[], None]) -> None:
        """Before every fork call `close`, which closes connections that are kept, and close idle ones of `engine`.

        `close` is a method of what lives as long as the engine is used; neither is kept alive.
        """
        self._engines[engine] = WeakMethod(close)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep the process from forking, once no other thread does."""
        with self._changed:
            self._changed.wait_for(lambda: not self._forks)
            self._in_flight += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_flight -= 1
                self._changed.notify_all()

    def _shut(self) -> None:
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: not self._in_flight)
            for engine, method in list(self._engines.items()):
                close = method()
                if close:
                    close()
                engine.dispose()

    def _open(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._forks = self._in_flight = 0


gate = _Gate()
