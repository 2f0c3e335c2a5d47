"""Tells listeners in this process that a reference has moved, so that they need not poll for it.

A hint and no more: what other processes write, and a commit whose outcome is unknown, is not told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Signal:
    """Calls its listeners in the thread that fires it: they must return at once and not raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Callable[[], object], ...] = ()
        self.is_closed = False

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Call `listener` from now on; the result ends that."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(each for each in self._listeners if each is not listener)

        return end

    def fire(self) -> None:
        for listener in self._listeners:
            listener()

    def close(self) -> None:
        """Tell listeners one last time: whoever waits for news waits in vain, since the process is about to end."""
        self.is_closed = True
        self.fire()
