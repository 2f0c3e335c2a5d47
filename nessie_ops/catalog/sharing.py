"""Version stores that this process shares: one for each URL, open while somebody holds a lease on it.

Invariant: a store is closed when its last lease is, never before.  A forked child keeps the leases it
inherits, since a store may be used on both sides of a fork.
"""

from __future__ import annotations

import os
import threading

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.versioning.versionstore import VersionStore


class _Shared(msgspec.Struct):
    store: VersionStore
    leases: int = 0


_lock = threading.Lock()
_shared: dict[tuple[str, str], _Shared] = {}


class Lease:
    """The right to use the store at a SQLAlchemy URL until `close`."""

    def __init__(self, url: str) -> None:
        """Open the store, or join those who use it.  BadRequest, StoreFormatError, StoreUnavailable."""
        self._key = (url, os.getcwd())  # a relative path in a URL means another file in another folder
        self._is_open = False
        with _lock:
            if self._key not in _shared:
                _shared[self._key] = _Shared(VersionStore.open(url))
            _shared[self._key].leases += 1
            self._is_open = True

    @property
    def store(self) -> VersionStore:
        """BadRequest after `close`."""
        self.require_open()
        return _shared[self._key].store

    def require_open(self) -> None:
        """BadRequest after `close`."""
        if not self._is_open:
            raise BadRequest("This catalog is closed; open another one.")

    def close(self) -> None:
        """Give the lease back; the last one closes the store.  Does nothing the second time."""
        with _lock:
            if not self._is_open:
                return
            self._is_open = False
            shared = _shared[self._key]
            shared.leases -= 1
            if shared.leases == 0:
                del _shared[self._key]
                shared.store.close()


def _forget_lock() -> None:
    """In a forked child: a thread of the parent may hold the lock for ever."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_lock)
