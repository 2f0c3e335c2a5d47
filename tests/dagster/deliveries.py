"""Makes deliveries for tests out of the real ones, and damages them."""

from __future__ import annotations

import csv
import io
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from assets.transforms.months import Month
from resources.deliveries import packaged_deliveries

Row = dict[str, str]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file, plain or the only member of a zip."""
    if not path.exists():
        with zipfile.ZipFile(path.with_name(f"{path.name}.zip")) as archive:
            text = archive.read(path.name).decode()
    else:
        text = path.read_text()
    return list(csv.DictReader(io.StringIO(text)))


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write rows with the columns of the first."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def copy_first_months(target: Path) -> None:
    """Copy the real deliveries, of three days of each of the first three months: the first, the 15th and the last."""
    target.mkdir(parents=True, exist_ok=True)
    months = [Month(2013, number) for number in (1, 2, 3)]
    for name in ("flights", "weather"):
        copy_some_days(packaged_deliveries(), target, name, {m.month: (1, 15, m.last_day) for m in months})
    for name in ("planes", "airports", "airlines"):
        shutil.copy(packaged_deliveries() / f"{name}.csv", target)


def copy_some_days(source: Path, target: Path, name: str, days: Mapping[int, tuple[int, ...]]) -> None:
    """Copy the rows of `name`.csv that are of the given days, by month."""
    rows = read_rows(source / f"{name}.csv")
    kept = [row for row in rows if int(row["day"]) in days.get(int(row["month"]), ())]
    write_rows(target / f"{name}.csv", kept)


def change_rows(folder: Path, name: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Replace the rows of a file by what `change` makes of them."""
    path = folder / f"{name}.csv"
    write_rows(path, change(read_rows(path)))
