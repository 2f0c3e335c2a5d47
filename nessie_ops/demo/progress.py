"""Shows a run's steps as they end: a moving bar on a terminal, a line per step elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import dagster as dg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


class RunProgress:
    """A context whose `on_event` takes the events of a run of `steps` steps, and of its re-executions."""

    def __init__(self, console: Console, title: str, steps: int) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._console = console
        self._bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        self._title, self._steps = title, steps
        self._task = self._bar.add_task(title, total=steps)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def on_event(self, event: dg.DagsterEvent) -> None:
        """Show the start of an attempt or the end of a step."""
        if event.event_type == dg.DagsterEventType.RUN_START:
            self._bar.reset(self._task, total=self._steps, description=self._title)
        if not (event.is_step_success or event.is_step_failure) or event.step_key is None:
            return
        text = f"{self._title}: {_describe(event.step_key, failed=event.is_step_failure)}"
        self._bar.update(self._task, advance=1, description=text)
        if not self._console.is_terminal:
            self._console.print(text, style="red" if event.is_step_failure else None, highlight=False)


def _describe(step: str, *, failed: bool) -> str:
    name = step.replace("__", ".")
    if failed:
        return f"{name} failed"
    if step.startswith("check_"):
        return f"checked {step.removeprefix('check_').replace('_', '.', 1)}"
    known = {"run_branch": "opened the run's branch", "validated": "pinned what was checked", "publish": "published"}
    return known.get(step, f"wrote {name}")
