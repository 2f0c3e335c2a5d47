"""CEL filters of listings: which rows a client wants, as an expression in the query parameter `filter`.

A filter is true or false for each row or the request is refused: an error on any row that is looked at
is a BadRequest, never a row left out.  What can be wrong whatever the rows are (syntax, unknown names,
wrong types) is refused before the first row is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Generic, TypeVar

import cel
import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.server.filter_rules import COPYING, LONG_LISTS, MAX_LENGTH, check_rules
from nessie_ops.server.query import Query

R = TypeVar("R")

MAX_COPIED = 1000  # elements of a list in a filter with `map` or `filter`, whose cost grows with the square
MAX_SCAN = 10_000  # rows that a request looks at
SCAN_S = 2.0  # after this time no further row is looked at
_DEPENDS_ON_DATA = (KeyError, IndexError, ArithmeticError)  # they say nothing about other rows


class Variables(msgspec.Struct, Generic[R], frozen=True):
    """What filters of one listing can speak of: name → value of a row, and a row in which nothing is null."""

    of: Mapping[str, Callable[[R], Any]]
    example: R


class Filter(Generic[R]):
    """A compiled filter; BadRequest when it is not a boolean expression over `variables`."""

    def __init__(self, text: str, variables: Variables[R]) -> None:
        if len(text) > MAX_LENGTH:
            raise BadRequest(f"filter: it has {len(text)} characters; at most {MAX_LENGTH} are allowed.")
        self._program = _compile(text)
        names = self._program.variables()
        example = {name: value_of(variables.example) for name, value_of in variables.of.items()}
        macros = check_rules(text, names, self._program.functions(), example)
        self._copies = bool(macros & COPYING)
        self._of = {name: value_of for name, value_of in variables.of.items() if name in names}
        self._try(variables.example)

    def _try(self, example: R) -> None:
        try:
            self(example)
        except BadRequest as error:
            cause = error.__cause__
            about_value = isinstance(cause, RuntimeError) and str(cause).startswith("Function '")
            if not isinstance(cause, _DEPENDS_ON_DATA) and (not about_value or "regex" in str(cause)):
                raise

    def __call__(self, row: R) -> bool:
        """Whether `row` is wanted; BadRequest when that cannot be told."""
        values = {name: value_of(row) for name, value_of in self._of.items()}
        if self._copies and any(len(values[name]) > MAX_COPIED for name in LONG_LISTS & values.keys()):
            raise BadRequest(f"filter: map and filter take at most {MAX_COPIED} elements; use exists or all.")
        try:
            result = self._program.execute(values)
        except BaseException as error:
            raise _to_bad_request(error) from error
        if not isinstance(result, bool):
            raise BadRequest(f"filter: its result must be true or false, and is of type {type(result).__name__}.")
        return result


def _compile(text: str) -> cel.Program:
    try:
        return cel.compile(text)
    except ValueError as error:
        raise BadRequest(f"filter: {error}") from None
    except BaseException as error:
        raise _to_bad_request(error) from error


def _to_bad_request(error: BaseException) -> BadRequest:
    """The answer to an error of the library; what it did not raise itself goes on."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    if isinstance(error, KeyError):
        text = f"there is no {error}; test with has() or 'in' first."
    elif isinstance(error, TypeError):
        text = f"{error} A field that may be null needs '!= null &&' before it."
    else:
        text = str(error)
    return BadRequest(f"filter: it cannot be evaluated: {text}")


def read_filter(query: Query, variables: Variables[R]) -> Filter[R] | None:
    """The filter of a request; None when it has none."""
    text = query.text("filter")
    return Filter(text, variables) if text else None


def select(
    rows: Iterable[R],
    wanted: Callable[[R], bool] | None,
    limit: int,
    *,
    scan: int = MAX_SCAN,
    weigh: Callable[[R], int] | None = None,
    capacity: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[R], R | None]:
    """(at most `limit` rows that match, the row with which the next page begins or None at the end).

    With a filter at most `scan` rows are looked at, and none after `SCAN_S`: a page may be shorter,
    even empty, and yet be followed by another.  With `weigh` no row follows when what was taken weighs `capacity`.
    """
    if wanted is None and weigh is None:
        page = list(islice(rows, limit + 1))
        return page[:limit], page[limit] if len(page) > limit else None
    page = []
    weight = 0
    stop = clock() + SCAN_S
    for count, row in enumerate(rows):
        if wanted and count and (count >= scan or clock() > stop):
            return page, row
        if wanted and not wanted(row):
            continue
        if len(page) == limit or (weigh and weight >= capacity):
            return page, row
        page.append(row)
        weight += weigh(row) if weigh else 0
    return page, None


def chunks(first: list[R], load_after: Callable[[R, int], list[R]], size: int) -> Iterator[R]:
    """The rows of `first` (`size` of them, or all that there are), then what follows its last one, and so on."""
    rows = first
    while True:
        yield from rows
        if len(rows) < size:
            return
        rows = load_after(rows[-1], size)
