"""What is read through transactions' branches: the recorders of the request under way.

A reference is resolved to a commit first, and then keys are read at that commit, by layers that know nothing of
transactions; a context variable leads from the one to the other.  It is about the two commits that were resolved
last, since a request that compares has two.
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

_SIDES = 2  # of a comparison
_current: ContextVar[tuple[tuple[Recorder, CommitHash], ...]] = ContextVar("nessie_ops_recorder", default=())


def is_transaction(name: str | None) -> bool:
    """Whether a reference of this name is the branch of a transaction."""
    return name is not None and name.startswith(TRANSACTIONS)


def enter(recorder: Recorder | None, at: CommitHash) -> None:
    """From now on, what this request reads at a commit is for `recorder`, if there is one."""
    if recorder is not None:
        _current.set((*_current.get(), (recorder, at))[-_SIDES:])


def find(*commits: CommitHash) -> list[Recorder]:
    """Those who record what is read at one of these commits."""
    return [recorder for recorder, at in _current.get() if at in commits]
