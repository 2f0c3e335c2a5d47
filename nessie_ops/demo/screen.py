"""What the demonstration prints: steps as they end, tables, and claims with what was found."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import dagster as dg
from rich.console import Console
from rich.table import Table


class Screen:
    """Prints to a console, and remembers the claims that did not hold."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)
        self.failures: list[str] = []

    def title(self, text: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{text}", align="left")

    def say(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def claim(self, holds: bool, text: str) -> None:
        """Print whether a claim holds; one that does not fails the demonstration."""
        self.say(f"  [green]verified[/] {text}" if holds else f"  [bold red]NOT TRUE[/] {text}")
        if not holds:
            self.failures.append(text)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        shown = Table(title=f"\n{title}", title_justify="left", title_style="bold")
        for column in columns:
            shown.add_column(column, overflow="fold")
        for row in rows:
            shown.add_row(*("" if cell is None else str(cell) for cell in row))
        self.console.print(shown)

    def sample(self, title: str, markdown: str, columns: Collection[str], rows: int) -> None:
        """The first rows of a Markdown table, in those of `columns` that it has."""
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines()]
        shown = [n for n, name in enumerate(lines[0]) if name in columns]
        body = [[line[n] for n in shown] for line in lines[2 : 2 + rows]]
        self.table(title, [lines[0][n] for n in shown], body)

    @contextmanager
    def steps(self, what: str) -> Iterator[StepPrinter]:
        """A printer of a run's events, with a spinner on terminals."""
        with self.console.status(f"{what} ...") as status:
            yield StepPrinter(self.console, lambda text: status.update(f"{what}: {text} ..."))


class StepPrinter:
    """Prints each step of a run once it has ended: its time, the rows of its table, the results of its checks."""

    def __init__(self, console: Console, update: Callable[[str], None]) -> None:
        self._console = console
        self._update = update
        self._started = time.monotonic()
        self._notes: list[str] = []

    def __call__(self, event: dg.DagsterEvent) -> None:
        if event.event_type == dg.DagsterEventType.STEP_START:
            self._started, self._notes = time.monotonic(), []
            self._update(event.step_key or "")
        elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
            self._notes += _rows(event)
        elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            self._notes += _failed_check(event)
        elif event.is_step_success or event.is_step_failure:
            mark = "[green]ok    [/]" if event.is_step_success else "[red]failed[/]"
            seconds = time.monotonic() - self._started
            notes = ", ".join(self._notes)
            self._console.print(f"  {mark} {event.step_key or '':28} {seconds:4.1f} s  {notes}", soft_wrap=True)


def _rows(event: dg.DagsterEvent) -> list[str]:
    metadata = event.step_materialization_data.materialization.metadata
    for name in ("dagster/partition_row_count", "dagster/row_count"):
        if name in metadata:
            return [f"{metadata[name].value:,} rows"]
    return []


def _failed_check(event: dg.DagsterEvent) -> list[str]:
    evaluation = event.asset_check_evaluation_data
    if evaluation.passed:
        return []
    word = "[red]broken[/]" if evaluation.blocking else "[yellow]warning[/]"
    return [f"{evaluation.check_name}: {word} by {evaluation.metadata['bad_rows'].value} rows"]
