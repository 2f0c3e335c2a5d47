"""Work of many threads, in order."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from nessie_ops.gc.ahead import TOGETHER, map_ahead


@pytest.mark.parametrize("count", [0, 1, 7, 100, 1001])
def test_results_are_in_order(count: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(map_ahead(pool, 4, lambda n: n * n, range(count))) == [(n, n * n) for n in range(count)]


def test_few_items_have_a_thread_each() -> None:
    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        assert [found for _, found in map_ahead(pool, 4, lambda n: together.wait(60) >= 0, range(4))] == [True] * 4


def test_no_more_is_done_than_a_bounded_number_ahead() -> None:
    begun: list[int] = []
    with ThreadPoolExecutor(2) as pool:
        results = map_ahead(pool, 2, begun.append, range(10_000))
        next(results)
        results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 6 * TOGETHER


def test_an_error_is_raised() -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(ZeroDivisionError):
        list(map_ahead(pool, 2, lambda n: 1 // (n - 5), range(100)))
