"""What is found is written in its order, in the background, and no failure of that goes unseen."""

from __future__ import annotations

import threading

import pytest

from nessie_ops.gc.recorder import Recorder


def test_all_that_came_meanwhile_is_written_together() -> None:
    written: list[list[int]] = []
    begun, may_go_on = threading.Event(), threading.Event()

    def write(items: list[int]) -> None:
        written.append(items)
        begun.set()
        assert may_go_on.wait(60)

    with Recorder(write) as recorder:
        recorder.put(0)
        assert begun.wait(60)
        for number in range(1, 6):
            recorder.put(number)
        may_go_on.set()
    assert [number for items in written for number in items] == list(range(6))
    assert len(written) < 4


def test_nothing_is_written_of_nothing() -> None:
    with Recorder[int](lambda items: pytest.fail(str(items))):
        pass


def test_a_failure_ends_whoever_finds_more() -> None:
    def fail(items: list[int]) -> None:
        raise OSError("disk full")

    def find() -> None:
        with Recorder(fail, waiting=1) as recorder:
            for number in range(1000):
                recorder.put(number)

    with pytest.raises(OSError, match="disk full"):
        find()


def test_a_failure_at_the_end_is_raised_too() -> None:
    def fail(items: list[int]) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), Recorder(fail) as recorder:
        recorder.put(1)


def test_what_was_found_before_a_failure_is_written() -> None:
    written: list[int] = []
    with pytest.raises(KeyError), Recorder(written.extend) as recorder:
        recorder.put(1)
        raise KeyError
    assert written == [1]
