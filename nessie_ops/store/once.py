"""Requests that carry a key: what they write and the answer are one transaction, so a repetition finds the answer.

Invariant: the row of a key is there exactly when what its request did is there, with the answer that was made of it.
The request under way is a context variable: it goes through the layers between a handler and the one transaction that
the handler ends in, which have no say in it.  Knows neither HTTP nor what an answer is: it is bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, TypeVar

from nessie_ops.errors import NessieOpsError

if TYPE_CHECKING:
    from nessie_ops.store.writing import WriteTransaction

T = TypeVar("T")


class AlreadyAnswered(NessieOpsError):
    """The request was answered before; nothing is done again."""

    http_status = 409

    def __init__(self, answer: bytes) -> None:
        super().__init__("This request has been answered before.")
        self.answer = answer


class KeyedRequest:
    """A request with a key.  `answer` is what it was answered with, as soon as that is durable."""

    def __init__(self, key: bytes, digest: bytes, lifetime_us: int) -> None:
        """`key` has 16 bytes; `digest`, of 32, tells one request from another."""
        self.key, self.digest, self.lifetime_us = key, digest, lifetime_us
        self.answer: bytes | None = None
        self.render: Callable[[Any], bytes] | None = None  # makes the answer of what a transaction gives


class Pending:
    """What one transaction is to record: the answer to `request`, which `render` makes of its result."""

    def __init__(self, request: KeyedRequest, render: Callable[[Any], bytes]) -> None:
        self._request, self._render = request, render
        self._recorded: bytes | None = None

    def record(self, tx: WriteTransaction, value: object) -> None:
        """Record the answer beside what was written; AlreadyAnswered, KeyReused when there is one already."""
        answer, request = self._render(value), self._request
        tx.record_answer(request.key, request.digest, answer, request.lifetime_us)
        self._recorded = answer

    def settle(self, error: BaseException | None) -> None:
        """Take note that the transaction has ended."""
        if isinstance(error, AlreadyAnswered):
            self._request.answer = error.answer
        elif error is None:
            self._request.answer = self._recorded


_current: ContextVar[KeyedRequest | None] = ContextVar("nessie_ops_keyed_request", default=None)


def enter(request: KeyedRequest) -> Token[KeyedRequest | None]:
    """Make `request` the one under way, until `leave`."""
    return _current.set(request)


def leave(token: Token[KeyedRequest | None]) -> None:
    _current.reset(token)


def under_way() -> Pending | None:
    """What the transaction that is made now is to record."""
    request = _current.get()
    return Pending(request, request.render) if request and request.render and request.answer is None else None


@contextmanager
def answering(render: Callable[[Any], bytes]) -> Iterator[None]:
    """The transaction inside is the one that the request asks for; `render` makes the answer of its result."""
    request = _current.get()
    if request is None:
        yield
        return
    before, request.render = request.render, render
    try:
        yield
    finally:
        request.render = before


@contextmanager
def returning(result: Callable[[Any], Any]) -> Iterator[None]:
    """What the caller returns is `result` of what the inner call or transaction gives: the answer is made of that."""
    request = _current.get()
    if request is None or request.render is None:
        yield
        return
    render = request.render
    with answering(lambda value: render(result(value))):
        yield


@contextmanager
def aside() -> Iterator[None]:
    """What is written inside is not what the request asks for, and no answer is made of it."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)
