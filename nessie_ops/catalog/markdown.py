"""Tables of figures as Markdown, for pages of Dagster, merge requests and CI.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from nessie_ops.catalog.changes import Change, Size

MAX_LINES = 100  # tables of one page


class Markdown(str):
    """Text that is Markdown already."""


def escape(text: str) -> Markdown:
    """Text on one line that shows as it is, whatever it holds: data, names and messages are written by anybody."""
    return Markdown(re.sub(r"([\\`*~\[<|])", r"\\\1", " ".join(text.splitlines())))


def code(text: str) -> Markdown:
    """Text as code, such as a name."""
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    pad = " " if "`" in text else ""
    return Markdown(f"{ticks}{pad}{' '.join(text.splitlines())}{pad}{ticks}")


def to_table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; whatever is in a cell stays in it, and shows as it is unless it is `Markdown`."""
    lines = [names, [Markdown("---")] * len(names), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def describe_changes(changes: Sequence[Change]) -> str:
    """A line for each table or view: size now, and what was added and removed; a sentence when there is none."""
    shown = [change for change in changes if change.type != "NAMESPACE"]
    if not shown:
        return "Nothing changed."
    names = ("Table", "Change", "Rows", "Files", "Bytes", "Schema")
    text = to_table(names, (_line(change) for change in shown[:MAX_LINES]))
    left = len(shown) - MAX_LINES
    return f"{text}\n\n… and {left:,} more." if left > 0 else text


def _line(change: Change) -> tuple[str, ...]:
    words = f"{change.change} (was {change.was})" if change.was else change.change
    figures = [_figure(change, name) for name in Size.__struct_fields__]
    return (change.key, words, *figures, "; ".join(change.schema))


def _figure(change: Change, name: str) -> str:
    """Such as `336,776 (+27,004 -0)`; `≈` when what was added and removed is only a difference."""
    if change.type != "ICEBERG_TABLE":
        return ""
    now, added, removed = (getattr(size, name) for size in (change.after, change.added, change.removed))
    about = "" if change.is_exact else "≈ "
    return f"{now:,} ({about}+{added:,} -{removed:,})" if added or removed else f"{now:,}"


def _cell(value: object) -> str:
    if isinstance(value, Markdown):
        return re.sub(r"(?<!\\)\|", r"\\|", value)  # a bar ends a cell even in code
    return escape(str(value))
