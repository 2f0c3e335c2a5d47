"""An LRU of immutable objects, bounded in bytes.  Nothing in it can become wrong, so nothing is invalidated."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any
from weakref import WeakSet

DEFAULT_CACHE_BYTES = 128 << 20  # holds the inner nodes of trees of 1e6 tables several times over
_ENTRY_OVERHEAD = 200  # bytes of dict slot, key and object headers


class Cache:
    """Maps a key to an immutable object; forgets the least recently used beyond `capacity` bytes."""

    def __init__(self, capacity: int = DEFAULT_CACHE_BYTES) -> None:
        self._capacity = capacity
        self._used = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()
        _all.add(self)

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def used_bytes(self) -> int:
        return self._used

    def get(self, key: Hashable) -> Any | None:
        """The object, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def discard(self, key: Hashable) -> None:
        """Forget the object, if it is there."""
        with self._lock:
            entry = self._entries.pop(key, None)
            self._used -= entry[1] if entry else 0

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep `value`, which occupies about `size` bytes."""
        size += _ENTRY_OVERHEAD
        if size > self._capacity:
            return
        with self._lock:
            old = self._entries.pop(key, None)
            self._used += size - (old[1] if old else 0)
            self._entries[key] = (value, size)
            while self._used > self._capacity:
                self._used -= self._entries.popitem(last=False)[1][1]


_all: WeakSet[Cache] = WeakSet()


def _forget_parent() -> None:
    """In a forked child: a thread of the parent that does not run here may hold a lock for ever."""
    for cache in list(_all):
        cache._lock = Lock()


os.register_at_fork(after_in_child=_forget_parent)
