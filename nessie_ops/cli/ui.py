"""`nessie-ops ui`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

import typer


class RunUI(Protocol):
    """Runs the web interface until it is told to stop; the exit code."""

    def __call__(self, *, host: str, port: int) -> int: ...


def make_ui(run_ui: RunUI) -> Callable[..., None]:
    """The command that calls `run_ui`."""

    def command(
        host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
        port: Annotated[int, typer.Option(help="Port to listen on.")] = 3000,
    ) -> None:
        """Run Dagster's web interface and daemon on this project's workspace.yaml; Ctrl-C stops both."""
        raise typer.Exit(run_ui(host=host, port=port))

    return command
