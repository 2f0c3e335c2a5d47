"""Audits: each is a query for the rows that break a rule; no rows means that the rule holds.

All audits of a layer are counted by one statement; the first offending rows are fetched for those that fail.  An audit
says which tables it reads, so that what it vouches for can be compared with what is published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assets.transforms.tables import Table
from nessie_ops.catalog.markdown import to_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

SAMPLE_ROWS = 10  # enough to recognise a fault, few enough for a page
MAX_TEXT = 200  # characters of a value in a sample


@dataclass(frozen=True)
class Audit:
    """A rule about `table`: `bad` selects the rows that break it; a blocking one stops the month."""

    table: Table
    name: str
    description: str
    bad: str
    reads: tuple[Table, ...]
    blocking: bool = True

    @property
    def label(self) -> str:
        """How people and commits name it, such as silver.flights:keys_unique."""
        return f"{self.table.name}:{self.name}"


@dataclass(frozen=True)
class Finding:
    """How many rows break an audit's rule, and the first of them as (column names, rows of text)."""

    audit: Audit
    bad_rows: int
    columns: tuple[str, ...] = ()
    sample: tuple[tuple[str, ...], ...] = ()

    @property
    def passed(self) -> bool:
        return self.bad_rows == 0

    @property
    def markdown(self) -> str:
        """The sample as a Markdown table."""
        return to_table(self.columns, self.sample)


def run_audits(spark: SparkSession, audits: Sequence[Audit]) -> list[Finding]:
    """One finding per audit, in order."""
    counts = ", ".join(f"(SELECT count(*) FROM ({audit.bad})) AS c{n}" for n, audit in enumerate(audits))
    row = spark.sql(f"SELECT {counts}").first()
    assert row is not None  # an aggregate has a row
    return [_with_sample(spark, audit, row[n]) if row[n] else Finding(audit, 0) for n, audit in enumerate(audits)]


def _with_sample(spark: SparkSession, audit: Audit, bad_rows: int) -> Finding:
    rows = spark.sql(f"SELECT * FROM ({audit.bad}) LIMIT {SAMPLE_ROWS}")
    sample = tuple(tuple(_text(value) for value in row) for row in rows.collect())
    return Finding(audit, bad_rows, tuple(rows.columns), sample)


def _text(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
