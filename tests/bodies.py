"""Takes valid request bodies apart, so that what does not belong there can be tried at every place in them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

DEEP: Any = 1
for _ in range(200):
    DEEP = [DEEP]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value in `value`; the empty way, to itself, first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*path, name))


def replace(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy of `body` with `value` at the end of a way."""
    if not path:
        return value
    changed = copy.deepcopy(body)
    spot = changed
    for name in path[:-1]:
        spot = spot[name]
    spot[path[-1]] = value
    return changed
