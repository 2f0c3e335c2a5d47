"""What commands print: aligned columns for people, JSON for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import msgspec
import typer

from nessie_ops.model import wire


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
    return msgspec.json.format(wire.to_json(value), indent=2).decode() + "\n"


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Rows of equal length as columns; nothing for no rows."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    for row in rows:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


_LEAST = 20  # characters of a last column that is cut


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, cuts: bool = True) -> None:
    """Rows as columns; on a terminal under their names and cut (or folded) to its width, else as `print_rows`."""
    if not rows or not sys.stdout.isatty():
        print_rows(rows)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    taken = sum(2 + max(len(row[place]) for row in (columns, *rows)) for place in range(len(columns) - 1))
    room = max(console.width - taken, _LEAST)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(columns), header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for *cells, last in rows:
        shown = last if len(last) <= room or not cuts else f"{last[: room - 1]}…"
        table.add_row(*(Text(cell) for cell in (*cells, shown)))
    console.print(table)


def first_line(text: str) -> str:
    """The first line of a message."""
    return text.splitlines()[0] if text else ""
