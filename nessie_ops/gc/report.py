"""The report of a sweep or of deferred deletions: JSON for programs with every file, HTML for people with the largest.

Both are written beside their names and then renamed, so what is read is whole.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import IO, Any, NamedTuple

import msgspec

from nessie_ops.gc.expire import Swept
from nessie_ops.gc.explain import decode
from nessie_ops.gc.plots import bars, format_bytes
from nessie_ops.gc.rewriting import Shrunk, Untouched
from nessie_ops.gc.sweep import AGES, FATES, Tally, Verdict
from nessie_ops.store.livesets import FileRecord, LiveSets

LARGEST = 1000  # files in the HTML report
TABLES = 40  # bars in its plot
COLORS = {"dead": "#c0392b", "live": "#2e7d5b", "young": "#e0a030", "broken": "#7d3c98", "unclear": "#888888"}
_PAGE = Template(Path(__file__).with_name("report.html").read_text(encoding="utf-8"))


class Table(msgspec.Struct, rename="camel"):
    """A folder where contents lie, with the names they have in the catalog."""

    folder: str
    tables: list[str]
    fates: dict[str, Tally]


class Report(msgspec.Struct, rename="camel"):
    """All of a report but its files.  Instants are ISO-8601, UTC."""

    live_set_id: str
    status: str
    kind: str
    created: str
    written: str
    settings: dict[str, Any]
    fates: dict[str, Tally] = {}
    tables: list[Table] = []
    ages: dict[str, dict[str, Tally]] = {}
    states: dict[str, Tally] = {}
    """Recorded files: pending, deleted, gone, failed, kept."""
    freed_bytes: int = 0
    stopped: str = ""
    explained: str = ""
    broken: list[dict[str, str]] = []
    refused: dict[str, str] = {}
    outside: dict[str, list[str]] = {}
    shrunk: list[Shrunk] = []
    """Tables whose metadata was rewritten, or would be, by branch, and those for which it was not, with the reason."""
    untouched: list[Untouched] = []
    unlisted: dict[str, str] = {}


class Written(NamedTuple):
    json: Path
    html: Path


def of_sweep(sets: LiveSets, swept: Swept, kind: str, settings: dict[str, Any], written: str, why_not: str) -> Report:
    """The report of a sweep."""
    number = swept.record.number
    expansion, bases = swept.expansion, swept.bases
    names = _names(sets, number)
    found = Report(swept.record.id, swept.record.status, kind, format_time(swept.record.created_at), written, settings)
    found.fates = _add_up({fate: verdict.count(fate) for fate in FATES} for verdict in swept.verdicts)
    for folder, fates in _by_folder(swept.verdicts).items():
        found.tables.append(Table(folder, _names_of(bases.owners.get(folder, ()), names), fates))
    found.tables.sort(key=lambda table: -table.fates.get("dead", Tally()).size_bytes)
    ages = sorted({age for verdict in swept.verdicts for age in verdict.by_age})
    found.ages = {_age_label(age): _add_up(verdict.by_age.get(age, {}) for verdict in swept.verdicts) for age in ages}
    _set_outcome(found, sets, number)
    found.stopped, found.explained = swept.stopped, why_not
    found.broken = [
        {"table": names.get(row.content_id, row.content_id), "location": row.location, "why": row.why}
        for row in expansion.broken.values()
    ]
    found.refused = dict(bases.refused)
    found.shrunk, found.untouched = swept.rewritten.shrunk, swept.rewritten.untouched
    found.outside = {names.get(content, content): sorted(folders) for content, folders in expansion.outside.items()}
    found.unlisted = {verdict.base: verdict.error for verdict in swept.verdicts if verdict.error}
    return found


def of_deletion(sets: LiveSets, number: int, id: str, status: str, created_at: int, kind: str, written: str) -> Report:
    """The report of deferred deletions."""
    found = Report(id, status, kind, format_time(created_at), written, {})
    _set_outcome(found, sets, number)
    return found


def plot(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    """Two SVG pictures of a part of a sweep: bytes by folder, those with most to delete first, and by age."""
    folders = sorted(_by_folder(verdicts).items(), key=lambda row: -row[1].get("dead", Tally()).size_bytes)
    ages = sorted({age for verdict in verdicts for age in verdict.by_age})
    by_age = [(_age_label(age), _add_up(verdict.by_age.get(age, {}) for verdict in verdicts)) for age in ages]
    return (
        bars("Bytes by folder", [(name, _sizes(fates)) for name, fates in folders[:TABLES]], COLORS),
        bars("Bytes by age", [(label, _sizes(fates)) for label, fates in by_age], COLORS),
    )


def write(report: Report, sets: LiveSets, number: int, folder: Path, name: str) -> Written:
    """Write both files; where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    largest: list[tuple[int, str, FileRecord]] = []
    written = Written(folder / f"{name}.json", folder / f"{name}.html")
    with _replaced(written.json) as out:
        out.write(msgspec.json.encode(report).decode()[:-1] + ',"files":[')
        for position, file in enumerate(sets.list_files(number)):
            out.write(("," if position else "") + "\n" + msgspec.json.encode(_file(file)).decode())
            entry = (file.size_bytes, file.location, file)
            heapq.heappush(largest, entry) if len(largest) < LARGEST else heapq.heappushpop(largest, entry)
        out.write("\n]}\n")
    with _replaced(written.html) as out:
        out.write(_html(report, [file for _, _, file in sorted(largest, reverse=True)]))
    return written


def _names(sets: LiveSets, number: int) -> dict[str, str]:
    return {row.content_id: row.key for row in sets.list_versions(number)}


def _names_of(contents: Iterable[str], names: dict[str, str]) -> list[str]:
    return sorted(names.get(content, f"dropped ({content})") for content in contents)


def _set_outcome(report: Report, sets: LiveSets, number: int) -> None:
    report.states = {state: Tally(*found) for state, found in sets.sum_files(number).items()}
    report.freed_bytes = report.states.get("deleted", Tally()).size_bytes


def _by_folder(verdicts: Iterable[Verdict]) -> dict[str, dict[str, Tally]]:
    return {folder: fates for verdict in verdicts for folder, fates in verdict.by_folder.items()}


def _add_up(parts: Iterable[dict[str, Tally]]) -> dict[str, Tally]:
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for part in parts:
        for fate, tally in part.items():
            files[fate] += tally.files
            sizes[fate] += tally.size_bytes
    return {fate: Tally(files[fate], sizes[fate]) for fate in files}


def _age_label(age: int) -> str:
    if age == 0:
        return f"younger than {AGES[0]} day"
    if age == len(AGES):
        return f"{AGES[-1]} days or older"
    return f"{AGES[age - 1]} to {AGES[age]} days"


def _file(file: FileRecord) -> dict[str, Any]:
    return {
        "location": file.location,
        "base": file.base,
        "sizeBytes": file.size_bytes,
        "modified": format_time(file.modified_at),
        "state": file.state,
        "error": file.error,
        "reason": decode(file.reason),
    }


def format_time(micros: int) -> str:
    """An instant in microseconds since 1970 as ISO-8601 in UTC."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat().replace("+00:00", "Z")


def _html(report: Report, files: list[FileRecord]) -> str:
    tables = [(", ".join(table.tables) or table.folder, _sizes(table.fates)) for table in report.tables[:TABLES]]
    ages = [(label, _sizes(fates)) for label, fates in report.ages.items()]
    facts = [
        ("Live set", report.live_set_id),
        ("Status", report.status),
        ("Marked", report.created),
        ("Written", report.written),
        *((fate, _describe(tally)) for fate, tally in report.fates.items()),
        *((f"files {state}", _describe(tally)) for state, tally in report.states.items()),
        *((name, str(value)) for name, value in report.settings.items()),
        *(("removed from metadata", str(row)) for row in report.shrunk),
    ]
    troubles = [
        *([("stopped", report.stopped)] if report.stopped else []),
        *([("reasons not looked up", report.explained)] if report.explained else []),
        *((f"broken: {row['table']}", f"{row['location']}: {row['why']}") for row in report.broken),
        *((f"metadata stays: {row.table} on {row.branch}", row.why) for row in report.untouched),
        *((f"not listed: {location}", why) for location, why in report.refused.items()),
        *((f"not listed to the end: {base}", why) for base, why in report.unlisted.items()),
    ]
    return _PAGE.substitute(
        title=escape(f"Garbage collection: {report.kind} of {report.live_set_id}"),
        facts=_rows(facts),
        troubles=_rows(troubles) or "<tr><td>none</td></tr>",
        tables=bars("Bytes by table", tables, COLORS),
        ages=bars("Bytes by age", ages, COLORS),
        count=f"{len(files):,}",
        files=_rows(
            (file.location, format_bytes(file.size_bytes), format_time(file.modified_at), file.state, _why(file))
            for file in files
        ),
    )


def _sizes(fates: dict[str, Tally]) -> dict[str, int]:
    return {fate: tally.size_bytes for fate, tally in fates.items()}


def _why(file: FileRecord) -> str:
    return "; ".join(filter(None, (str(decode(file.reason) or ""), file.error)))


def _describe(tally: Tally) -> str:
    return f"{tally.files:,} files, {format_bytes(tally.size_bytes)}"


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)


@contextmanager
def _replaced(path: Path) -> Iterator[IO[str]]:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as file:
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
