"""What tasks on workers share: the stores of their process, and work done by threads in order."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from nessie_ops.gc.storage import Stores

T = TypeVar("T")
R = TypeVar("R")
Task = Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class Opener(Protocol):
    """Opens the stores on any machine.  Equal ones open the same; it is sent to the workers, and never printed."""

    def __call__(self) -> Stores: ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=8)
def open_once(opener: Opener) -> Stores:
    """The stores of this process, with their connections."""
    stores = opener()
    gc.freeze()  # Spark's daemon collects garbage after each task, and would look at all modules each time
    return stores


def in_order(pool: ThreadPoolExecutor, work: Callable[[T], R], items: Iterable[T], ahead: int) -> Iterator[tuple[T, R]]:
    """Each item with what the work made of it; so many items are under way at a time."""
    running: deque[tuple[T, Future[R]]] = deque()
    for item in items:
        running.append((item, pool.submit(work, item)))
        if len(running) >= ahead:
            first, future = running.popleft()
            yield first, future.result()
    for item, future in running:
        yield item, future.result()


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()
