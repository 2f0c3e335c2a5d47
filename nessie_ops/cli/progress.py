"""Progress of long work, on standard error: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from typing import Any

import typer

_EVERY_S = 2  # seconds between two lines


class Progress:
    """Called with what is counted and how far it has come; a bar goes when the command ends."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __call__(self, what: str, count: int) -> None:
        if sys.stderr.isatty() or self._bar is not None:
            self._show(what, count)
        elif time.monotonic() - self._last >= _EVERY_S:
            self._last = time.monotonic()
            print(f"{what}: {count:,}", file=sys.stderr)

    def _show(self, what: str, count: int) -> None:
        if self._bar is None:
            self._bar = _make_bar()
            self._task = self._bar.add_task(what, total=None)
            self._bar.start()
            typer.main.get_current_context().call_on_close(self._bar.stop)  # type: ignore[attr-defined]
        self._bar.update(self._task, description=what, completed=count)


def _make_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    # What is printed meanwhile goes above the bar; never standard output, if it is read by somebody else.
    shared = sys.stdout.isatty()
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared)
