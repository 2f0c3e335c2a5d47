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
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from nessie_ops.gc.expire import Swept
from nessie_ops.gc.explain import Reason, decode
from nessie_ops.gc.identify import to_micros
from nessie_ops.gc.page import COLORS, TABLES, render
from nessie_ops.gc.places import list_folders
from nessie_ops.gc.plots import bars
from nessie_ops.gc.rewriting import Shrunk, Untouched
from nessie_ops.gc.sweep import AGES, FATES, Tally, Verdict
from nessie_ops.model import ContentKey
from nessie_ops.store.livesets import FileRecord, LiveSets

LARGEST = 1000  # files in the HTML report
_DAY = 86_400_000_000


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


class DeadFile(msgspec.Struct, rename="camel"):
    """A recorded file: the tables in whose folder it lies, and who held it last; its age counts back from the mark."""

    location: str
    base: str
    tables: list[str]
    size_bytes: int
    modified: str
    age_days: float
    state: str
    error: str
    reason: Reason | None


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
    largest: list[tuple[int, str, DeadFile]] = []
    marked = to_micros(datetime.fromisoformat(report.created))
    tables = _Tables(sets, number)
    written = Written(folder / f"{name}.json", folder / f"{name}.html")
    with _replaced(written.json) as out:
        out.write(msgspec.json.encode(report).decode()[:-1] + ',"files":[')
        for position, row in enumerate(sets.list_files(number)):
            file = _describe(row, marked, tables.of(row.location))
            out.write(("," if position else "") + "\n" + msgspec.json.encode(file).decode())
            entry = (file.size_bytes, file.location, file)
            heapq.heappush(largest, entry) if len(largest) < LARGEST else heapq.heappushpop(largest, entry)
        out.write("\n]}\n")
    with _replaced(written.html) as out:
        out.write(render(report, [file for _, _, file in sorted(largest, reverse=True)]))
    return written


def _describe(file: FileRecord, marked: int, tables: list[str]) -> DeadFile:
    return DeadFile(
        file.location,
        file.base,
        tables,
        file.size_bytes,
        format_time(file.modified_at),
        round((marked - file.modified_at) / _DAY, 2),
        file.state,
        file.error,
        decode(file.reason),
    )


class _Tables:
    """The names of the tables whose files lie in a folder."""

    def __init__(self, sets: LiveSets, number: int) -> None:
        names = _names(sets, number)
        owners: dict[str, set[str]] = {}
        for base in sets.list_bases(number):
            owners.setdefault(base.place, set()).add(base.content_id)
        self._names = {place: _names_of(contents, names) for place, contents in owners.items()}

    def of(self, location: str) -> list[str]:
        """Those of the innermost folder that holds a file."""
        return next((self._names[folder] for folder in list_folders(location) if folder in self._names), [])


def _names(sets: LiveSets, number: int) -> dict[str, str]:
    keys = {row.content_id: row.key for row in sets.list_versions(number)}
    return {content: str(ContentKey.from_path(key)) for content, key in keys.items()}


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


def format_time(micros: int) -> str:
    """An instant in microseconds since 1970 as ISO-8601 in UTC."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat().replace("+00:00", "Z")


@contextmanager
def _replaced(path: Path) -> Iterator[IO[str]]:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("w", encoding="utf-8") as file:
            yield file
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _sizes(fates: dict[str, Tally]) -> dict[str, int]:
    return {fate: tally.size_bytes for fate, tally in fates.items()}
