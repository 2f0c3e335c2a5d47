"""What is read through a transaction's branch: the recorder of the request under way.

A reference is resolved to a commit first, and then keys are read at that commit, by layers that know nothing of
transactions; a context variable leads from the one to the other.  It is about that commit alone, until
another transaction's branch is resolved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Protocol

from nessie_ops.model import TRANSACTIONS, CommitHash, ContentKey


class Recorder(Protocol):
    """Makes what was read durable before the reader learns of it."""

    def read_keys(self, keys: Iterable[ContentKey]) -> None:
        """The values of keys, or that they do not exist."""

    def read_range(self, low: bytes, high: bytes, *, values: bool) -> None:
        """Which keys there are from `low` up to and without `high`, and, with `values`, what is under them."""


Watch = Callable[[str], Recorder | None]
"""Called with the name of a transaction's branch before it is read; who records, or None when nobody does."""

_current: ContextVar[tuple[Recorder, CommitHash] | None] = ContextVar("nessie_ops_recorder", default=None)


def is_transaction(name: str | None) -> bool:
    """Whether a reference of this name is the branch of a transaction."""
    return name is not None and name.startswith(TRANSACTIONS)


def enter(recorder: Recorder | None, at: CommitHash) -> None:
    """From now on, what this request reads at a commit is for `recorder`, if there is one."""
    if recorder is not None:
        _current.set((recorder, at))


def find(*commits: CommitHash) -> Recorder | None:
    """Who records what is read at one of these commits."""
    current = _current.get()
    return current[0] if current and current[1] in commits else None
