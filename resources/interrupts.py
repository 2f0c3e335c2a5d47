"""Cancelling work that runs in another process or thread when this process is asked to stop.

Python runs a signal's handler in the main thread, between two bytecodes of whatever it is doing.  Here that is
most often reading an answer from the JVM, and an exception raised there leaves the connection out of step: the next
call hangs or gets the answer of another.  So the handler never raises.  It starts a thread, which asks for the
cancellation over a connection of its own; the blocked call then fails in the ordinary way, or ends.
Knows neither Spark nor what is cancelled.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import dagster as dg

_SIGNALS = (signal.SIGINT, signal.SIGTERM)  # Dagster treats both as a request to terminate the run
_REPEAT_S = 0.2  # work that is submitted after a cancellation is cancelled this much later


@contextlib.contextmanager
def cancellable(cancel: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """While inside, a request to stop calls `cancel`, again and again until the block ends, from another thread.

    Yields a function that tells whether the request came.  After it came, the block's end raises
    DagsterExecutionInterruptedError, whether the block failed of the cancellation or reached its end.
    Outside of the main thread, which alone gets signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    ended = threading.Event()
    cancellers: list[threading.Thread] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not cancellers:
            cancellers.append(threading.Thread(target=_cancel_until, args=(ended, cancel), daemon=True))
            cancellers[0].start()

    try:
        with _handling(handle):
            try:
                yield lambda: bool(cancellers)
            finally:
                ended.set()
                for canceller in cancellers:
                    canceller.join()  # else it could cancel what comes after this block
    except Exception as error:
        if cancellers:
            raise dg.DagsterExecutionInterruptedError("cancelled while Spark was working") from error
        raise
    if cancellers:
        raise dg.DagsterExecutionInterruptedError("cancelled while Spark was working")


@contextlib.contextmanager
def signals_kept() -> Iterator[None]:
    """Put back the handlers that the block replaces: PySpark installs one that raises when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: not installed by Python, so not replaced by it either
                signal.signal(number, handler)


@contextlib.contextmanager
def _handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handle` stand in for the handlers that are Python's; an ignored or deadly signal stays so."""
    with signals_kept():
        for number in _SIGNALS:
            if callable(signal.getsignal(number)):
                signal.signal(number, handle)
        yield


def _cancel_until(ended: threading.Event, cancel: Callable[[], None]) -> None:
    while not ended.is_set():
        # What cannot be cancelled has no one to cancel for: with the JVM gone, the blocked call fails by itself.
        with contextlib.suppress(Exception):
            cancel()
        ended.wait(_REPEAT_S)
