"""The report as a page for a browser: needs no network and no script; every text of a file or table is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from nessie_ops.gc.plots import bars, format_bytes
from nessie_ops.gc.sweep import FATES, Tally

if TYPE_CHECKING:
    from nessie_ops.gc.report import DeadFile, Report

TABLES = 40  # bars in the plot
COLORS = {"dead": "#c0392b", "live": "#2e7d5b", "young": "#e0a030", "broken": "#7d3c98", "unclear": "#888888"}
_MEANINGS = {
    "live": "a live version of a table or view needs it",
    "dead": "no live version needs it",
    "young": "no live version needs it, but one that is still to come may",
    "broken": "lies in a folder of a table that cannot be read",
    "unclear": "has dots as path elements in its name, so readers may mean another file",
}
_STATES = {
    "pending": "to be deleted",
    "deleted": "deleted",
    "gone": "gone before",
    "failed": "could not be deleted",
    "kept": "kept after all",
}
_PAGE = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))


def render(report: Report, largest: Sequence[DeadFile]) -> str:
    """The page; `largest` are its files, in order."""
    recorded = sum(tally.files for tally in report.states.values())
    return _PAGE.substitute(
        title=escape(f"Garbage collection: {report.kind}"),
        subtitle=escape(
            f"Live set {report.live_set_id}, {report.status}; marked {_time(report.created)}, "
            f"written {_time(report.written)}"
        ),
        sums="".join(f"<div><b>{escape(figure)}</b>{escape(text)}</div>" for figure, text in _sums(report)),
        troubles=_section("look", "Needs a look", list_troubles(report)),
        fates=_fates(report),
        tables=bars(
            "Bytes by table", [(_label(table), _sizes(table.fates)) for table in report.tables[:TABLES]], COLORS
        ),
        ages=bars("Bytes by age", [(label, _sizes(fates)) for label, fates in report.ages.items()], COLORS),
        shrunk=_section("shrunk", "Removed from metadata", [("", str(row)) for row in report.shrunk]),
        heading=f"{'All' if recorded == len(largest) else 'The largest'} {len(largest):,} dead files",
        note=escape("" if recorded == len(largest) else f"All {recorded:,} are in the JSON report beside this page."),
        files="\n".join(map(_row, largest)),
        settings=_rows((name, _value(value)) for name, value in report.settings.items()),
    )


def list_troubles(report: Report) -> list[tuple[str, str]]:
    """What a person should look at, and why."""
    return [
        *([("stopped", report.stopped)] if report.stopped else []),
        *([("reasons not looked up", report.explained)] if report.explained else []),
        *((f"broken table {row['table']}", f"{row['location']}: {row['why']}") for row in report.broken),
        *((f"metadata of {row.table} on {row.branch} stays", row.why) for row in report.untouched),
        *((f"not listed: {location}", why) for location, why in report.refused.items()),
        *((f"not listed to the end: {base}", why) for base, why in report.unlisted.items()),
        *(
            (f"live files of {table} outside its folders, which are not listed", ", ".join(folders[:10]))
            for table, folders in report.outside.items()
        ),
    ]


def _sums(report: Report) -> list[tuple[str, str]]:
    return [
        (format_bytes(tally.size_bytes), f"in {tally.files:,} files {_STATES.get(state, state)}")
        for state, tally in report.states.items()
    ] or [("0 B", "to be deleted")]


def _section(kind: str, title: str, rows: Sequence[tuple[str, str]]) -> str:
    if not rows:
        return ""
    return f'<div class="{kind}"><h2>{title}</h2><table>{_rows(rows)}</table></div>'


def _fates(report: Report) -> str:
    if not report.fates:
        return ""
    rows = "".join(
        f'<tr><td class="name">{fate}</td><td class="number">{tally.files:,} files</td>'
        f'<td class="number">{format_bytes(tally.size_bytes)}</td><td>{_MEANINGS[fate]}</td></tr>'
        for fate in FATES
        if (tally := report.fates.get(fate, Tally())).files
    )
    return f"<h2>What was listed</h2><table>{rows or '<tr><td>no files</td></tr>'}</table>"


def _row(file: DeadFile) -> str:
    why = "; ".join(filter(None, ("" if file.reason is None else str(file.reason), file.error))) or "not looked up"
    return (
        f'<tr><td>{escape(file.location)}</td><td class="number">{format_bytes(file.size_bytes)}</td>'
        f'<td class="number" title="{escape(file.modified)}">{file.age_days:,.1f} days</td>'
        f"<td>{escape(', '.join(file.tables))}</td><td>{escape(_STATES.get(file.state, file.state))}</td>"
        f"<td>{escape(why)}</td></tr>"
    )


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row if cell) + "</tr>" for row in rows)


def _label(table: Any) -> str:
    return ", ".join(table.tables) or str(table.folder)


def _sizes(fates: dict[str, Tally]) -> dict[str, int]:
    return {fate: tally.size_bytes for fate, tally in fates.items()}


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value) or "none"


def _time(text: str) -> str:
    return f"{text[:19].replace('T', ' ')} UTC"
