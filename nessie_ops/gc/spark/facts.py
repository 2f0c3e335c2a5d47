"""The rows that workers answer with, as Arrow batches.  Knows no Spark.

`live` has the digest of a live place; `named` a file that is to be looked at, `folder` and `path` where files of
contents are written, `outside` where they lie besides; `broken` and `missing` are objects that could not be read or
were not there; `read` counts objects and bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

LIVE, NAMED, FOLDER, PATH, OUTSIDE, BROKEN, MISSING, READ = (
    "live",
    "named",
    "folder",
    "path",
    "outside",
    "broken",
    "missing",
    "read",
)
FAULTS = (BROKEN, MISSING)
TOLD = (FOLDER, PATH, OUTSIDE, BROKEN, MISSING)  # what the driver is told; there is little of it
SCHEMA = pa.schema(
    [
        ("fact", pa.string()),
        ("kind", pa.string()),
        ("location", pa.string()),
        ("owners", pa.list_(pa.string())),
        ("text", pa.string()),
        ("digest", pa.binary()),
        ("files", pa.int64()),
        ("size", pa.int64()),
    ]
)
BATCH = 10_000  # rows


class Rows:
    """Collects rows of a schema and gives them out as batches."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """A row, whose last columns may be left out."""
        self._rows.append(values)

    def full(self) -> Iterator[pa.RecordBatch]:
        """A batch, once there are enough rows for one."""
        if len(self._rows) >= BATCH:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """What has been collected."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield make_batch(self._schema, rows)


class Facts(Rows):
    """Rows of `SCHEMA`, of which most are live places."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self._digests: list[bytes] = []

    def add_live(self, digest: bytes) -> None:
        self._digests.append(digest)

    def full(self) -> Iterator[pa.RecordBatch]:
        if len(self._rows) + len(self._digests) >= BATCH:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        yield from super().rest()
        if self._digests:
            digests, self._digests = self._digests, []
            columns = [pa.nulls(len(digests), field.type) for field in SCHEMA]
            columns[0] = pa.repeat(LIVE, len(digests))
            columns[5] = pa.array(digests, pa.binary())
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def make_batch(schema: pa.Schema, rows: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """A batch of rows, whose last columns may be left out."""
    width = len(schema)
    columns = zip(*((*row, *[None] * (width - len(row))) for row in rows))
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, schema)], schema=schema
    )


def make_table(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """A table of rows, made in batches, so that they are never all there as Python has them."""
    found = Rows(schema)
    batches: list[pa.RecordBatch] = []
    for row in rows:
        found.add(*row)
        batches += found.full()
    return pa.Table.from_batches([*batches, *found.rest()], schema=schema)
