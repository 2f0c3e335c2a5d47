"""`nessie-ops demo`."""

from __future__ import annotations

from collections.abc import Callable

import typer


def make_demo(run_demo: Callable[[], int]) -> Callable[[], None]:
    """The command that calls `run_demo`, which returns the exit code."""

    def command() -> None:
        """Load two months on branches, publish them, and see a damaged third refused; 0 only if all is verified."""
        raise typer.Exit(run_demo())

    return command
