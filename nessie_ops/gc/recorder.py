"""Writes in the background what others find: all that has come meanwhile by one transaction, in the order it came.

Whoever finds more waits while too much is unwritten.  What writing fails with is raised by the next `put`, or at
the end.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Generic, Self, TypeVar

T = TypeVar("T")
WAITING = 16  # items that may wait


class Recorder(Generic[T]):
    """Gives items to `write`, which is called by one thread alone."""

    def __init__(self, write: Callable[[list[T]], None], waiting: int = WAITING) -> None:
        self._write = write
        self._queue: queue.Queue[T | None] = queue.Queue(waiting)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="nessie-ops-gc-record", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._queue.put(None)
        self._thread.join()
        if kind is None:
            self._check()

    def put(self, item: T) -> None:
        """Have an item written, soon."""
        self._check()
        self._queue.put(item)

    def _check(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        while items := self._take():
            if self._error is None:
                try:
                    self._write(items)
                except BaseException as error:
                    self._error = error  # what comes now is dropped, so that nobody waits for ever

    def _take(self) -> list[T]:
        """All that waits; nothing at the end."""
        items: list[T] = []
        while (item := self._queue.get()) is not None:
            items.append(item)
            if self._queue.empty():
                return items
        if items:
            self._queue.put(None)  # the end comes once more
        return items
