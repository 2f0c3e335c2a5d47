"""`nessie-ops run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

import typer

from nessie_ops.errors import BadRequest


class RunMonth(Protocol):
    """Loads a month, or resumes a run, in this process; the exit code."""

    def __call__(self, *, month: str, source: str, resume: str, all_steps: bool) -> int: ...


def make_run(run_month: RunMonth) -> Callable[..., None]:
    """The command that calls `run_month`."""

    def command(
        month: Annotated[str, typer.Option(help="The month to load, as YYYY-MM.")] = "",
        source: Annotated[str, typer.Option(help="Folder of the deliveries; by default the packaged ones.")] = "",
        resume: Annotated[str, typer.Option(help="A failed or cancelled run to execute again instead.")] = "",
        all_steps: Annotated[bool, typer.Option("--all-steps", help="Resume from the start.")] = False,
    ) -> None:
        """Load a month on a branch, check it, and publish it, in this process; 0 only if it was published."""
        if bool(month) == bool(resume):
            raise BadRequest("give either --month or --resume.")
        if resume and source:
            raise BadRequest("--source cannot be changed when a run is resumed.")
        raise typer.Exit(run_month(month=month, source=source, resume=resume, all_steps=all_steps))

    return command
