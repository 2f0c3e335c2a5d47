"""Work of many threads whose results are wanted in order, while a bounded number of them waits in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
TOGETHER = 8  # items of one task at most: handing over a task costs as much as decoding a small file
_AHEAD = 2  # tasks for each thread


def map_ahead(
    pool: ThreadPoolExecutor, threads: int, work: Callable[[T], R], items: Sequence[T]
) -> Iterator[tuple[T, R]]:
    """Each item with what `work` makes of it, in order; some `threads` of the pool are kept busy until the last."""

    def work_on(part: Sequence[T]) -> list[R]:
        return [work(item) for item in part]

    size = max(1, min(TOGETHER, len(items) // (_AHEAD * threads)))
    running: deque[tuple[Sequence[T], Future[list[R]]]] = deque()
    for start in range(0, len(items), size):
        part = items[start : start + size]
        running.append((part, pool.submit(work_on, part)))
        if len(running) > _AHEAD * threads:
            part, done = running.popleft()
            yield from zip(part, done.result(), strict=True)
    for part, done in running:
        yield from zip(part, done.result(), strict=True)
