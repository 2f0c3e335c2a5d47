"""What commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
import typer


def print_version(wanted: bool) -> None:
    """What `--version` does: print the version and exit."""
    if wanted:
        try:
            print(f"nessie-ops {version('nessie-ops')}")
        except PackageNotFoundError:
            print("nessie-ops, run from its source")
        raise typer.Exit


def print_json(value: Any) -> None:
    typer.echo(to_text(value), nl=False)


def to_text(value: Any) -> str:
    """A value as JSON for people and programs, with a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Rows of equal length as columns; nothing for no rows."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
