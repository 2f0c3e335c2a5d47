"""A damaged delivery: the real files of a month, with repeated keys and clocks that show what no clock shows."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

from assets.transforms.months import Month
from assets.transforms.tables import DELIVERED

REPEATED, IMPOSSIBLE = 5, 3  # rows that are damaged
_CLOCK = "2575"


def write_damaged(source: Path, target: Path, month: Month) -> None:
    """Write the deliveries of `source` to `target`, of flights those of `month` alone, and those damaged."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in (table.name.rpartition(".")[2] for table in DELIVERED):
        if name != "flights":
            shutil.copy(source / f"{name}.csv", target)
    with _open(source) as file, (target / "flights.csv").open("w", newline="") as out:
        rows = csv.DictReader(file)
        writer = csv.DictWriter(out, rows.fieldnames or [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(_damage(row for row in rows if (row["year"], row["month"]) == _of(month)))


def _damage(rows: Iterator[dict[str, str]]) -> Iterator[dict[str, str]]:
    flown = 0
    for row in rows:
        if row["dep_time"] == "NA":
            yield row
            continue
        flown += 1
        if flown <= REPEATED:
            yield row
            yield {**row, "dep_delay": str(int(row["dep_delay"]) + 60)}
        elif flown <= REPEATED + IMPOSSIBLE:
            yield {**row, "dep_time": _CLOCK}
        else:
            yield row


def _of(month: Month) -> tuple[str, str]:
    return str(month.year), str(month.month)


def _open(source: Path) -> io.TextIOBase:
    plain = source / "flights.csv"
    if plain.exists():
        return plain.open(newline="")
    with ZipFile(source / "flights.csv.zip") as archive:
        return io.StringIO(archive.read("flights.csv").decode(), newline="")
