"""What the rules find in a commit of somebody else's branch.  Knows Spark, not Dagster.

A rule is evaluated when it reads a table that differs from the merge base, for the months whose files differ there; for
all months when that cannot be told from files alone.  What could not be evaluated is never taken for passed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from assets.branch_changes import Change, Work, read_with
from assets.transforms.audits import Audit, Finding, run_audits
from assets.transforms.deliveries import count_rows
from assets.transforms.months import FIRST, LAST, Month
from assets.transforms.rules import bronze_rules, gold_rules, silver_rules
from assets.transforms.tables import DELIVERED, TABLES, Table
from nessie_ops.errors import BadRequest

READABLE, UP_TO_DATE = "readable", "branch:up_to_date"  # what is required besides the rules
BEFORE = "before"  # Spark's catalog of the merge base
_WIDER = {"int": {"int", "bigint"}}  # a type may have become wider, as Iceberg allows
_MAX_NAMED = 10  # in a summary

_Pair = tuple[int | None, int | None]  # year and month of rows, which may be any


class Verdict(NamedTuple):
    """What was found, over all months; `samples` are Markdown tables.  `audit` is None for what is no asset check."""

    label: str
    passed: bool
    summary: str
    audit: Audit | None = None
    bad_rows: int = 0
    months: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether the merge depends on it."""
        return self.audit is None or self.audit.blocking


def evaluate(
    spark: SparkSession, work: Work, folder: Path, *, tables: Iterable[str] = (), months: Iterable[str] = ()
) -> list[Verdict]:
    """Verdicts on `work`, whose tables `spark` reads at the commit and, in the catalog `before`, at the merge base.

    `tables` are looked at along with the changed ones; `months` replace those that were found.  Deliveries are in
    `folder`.  BadRequest for a name or month that is none.
    """
    wanted = {change.table for change in work.changes} | {_named(name) for name in tables}
    faults = dict.fromkeys(wanted - work.tables, "The table is gone.")
    faults |= {table: fault for table in wanted & work.tables if (fault := _columns_fault(spark, table))}
    found = {Month.parse(month) for month in months}
    if not found:
        found, strange = _find_months(spark, work, wanted, work.tables - faults.keys())
        faults |= {table: fault for table, fault in strange.items() if table in wanted}
    verdicts = [_up_to_date(work)]
    for table in sorted(wanted, key=lambda table: table.name):
        fault = faults.get(table, "")
        verdicts.append(Verdict(f"{table.name}:{READABLE}", not fault, fault or "It is there, with its columns."))
    return verdicts + _judge(_run(spark, wanted, work.tables - faults.keys(), sorted(found, key=str), folder))


def _run(
    spark: SparkSession, wanted: set[Table], there: frozenset[Table], months: Sequence[Month], folder: Path
) -> list[tuple[str, Finding]]:
    """(month, finding) of each rule that reads a wanted table and finds all that it reads."""
    found: list[tuple[str, Finding]] = []
    for number, month in enumerate(months or [Month.parse(FIRST)]):
        delivered = {
            table.name: count_rows(folder, table, month if table.monthly else None)
            for table in DELIVERED
            if table in wanted & there
        }
        audits = [
            audit
            for audit in _rules(month, delivered)
            if wanted & set(audit.reads)
            and there.issuperset(audit.reads)
            and (bool(months) if _is_monthly(audit) else number == 0)
        ]
        if audits:
            found += [(str(month) if _is_monthly(row.audit) else "", row) for row in run_audits(spark, audits)]
    return found


def _judge(found: Sequence[tuple[str, Finding]]) -> list[Verdict]:
    """One verdict for each rule over all months, in the order of the rules."""
    by_label: dict[str, list[tuple[str, Finding]]] = {}
    for month, finding in found:
        by_label.setdefault(finding.audit.label, []).append((month, finding))
    return [_verdict(rows) for rows in by_label.values()]


def _verdict(rows: Sequence[tuple[str, Finding]]) -> Verdict:
    audit, months = rows[0][1].audit, tuple(month for month, _ in rows if month)
    bad = [(month, finding) for month, finding in rows if not finding.passed]
    where = ", ".join(f"{finding.bad_rows} rows{f' of {month}' if month else ''}" for month, finding in bad)
    return Verdict(
        audit.label,
        not bad,
        f"{where} break: {audit.description}" if bad else audit.description,
        audit,
        sum(finding.bad_rows for _, finding in bad),
        months,
        tuple(finding.markdown for _, finding in bad),
    )


def _up_to_date(work: Work) -> Verdict:
    if names := ", ".join(table.name for table in work.behind):
        return Verdict(
            UP_TO_DATE, False, f"The target changed {names}, which the rules read: merge it into the branch."
        )
    return Verdict(UP_TO_DATE, True, "What the rules read, and the branch left alone, the target has not changed.")


def _find_months(
    spark: SparkSession, work: Work, wanted: set[Table], sound: frozenset[Table]
) -> tuple[set[Month], dict[Table, str]]:
    """The months to look at, and the tables that have rows in others, with what is wrong."""
    changes = [change for change in work.changes if change.table in sound]
    rows = {change.table: _changed_months(spark, change) for change in changes if change.table.monthly}
    # A table may differ in no file at all, as by its properties, or by a statement that met no row.
    if not changes or any(not (change.is_plain and rows.get(change.table)) for change in changes):
        rows |= {table: _all_months(spark, table.name) for table in read_with(wanted) & sound if table.monthly}
    strange = {table: pairs - _KNOWN.keys() for table, pairs in rows.items()}
    months = {_KNOWN[pair] for pairs in rows.values() for pair in pairs if pair in _KNOWN}
    return months, {table: _describe(pairs) for table, pairs in strange.items() if pairs}


def _changed_months(spark: SparkSession, change: Change) -> set[_Pair]:
    name, before = change.table.name, f"{BEFORE}.{change.table.name}"
    if change.is_new or not (_tells_months(spark, name) and _tells_months(spark, before)):
        return _all_months(spark, name)
    files, old = (f"SELECT content, file_path, partition FROM {table}.files" for table in (name, before))
    differing = f"({files} EXCEPT {old}) UNION ALL ({old} EXCEPT {files})"
    return _pairs(spark, f"SELECT DISTINCT partition.year AS year, partition.month AS month FROM ({differing})")


def _all_months(spark: SparkSession, name: str) -> set[_Pair]:
    if _tells_months(spark, name):
        return _pairs(spark, f"SELECT DISTINCT partition.year AS year, partition.month AS month FROM {name}.files")
    return _pairs(spark, f"SELECT DISTINCT year, month FROM {name}")


def _pairs(spark: SparkSession, query: str) -> set[_Pair]:
    return {(row["year"], row["month"]) for row in spark.sql(query).collect()}


def _tells_months(spark: SparkSession, name: str) -> bool:
    """Whether the partition of each file tells its month; not so in other layouts, of which there may be several."""
    fields = {field.name: field.dataType for field in spark.table(f"{name}.files").schema.fields}
    parts = getattr(fields.get("partition"), "names", ())
    if not {"year", "month"} <= set(parts):
        return False
    untold = f"SELECT 1 FROM {name}.files WHERE partition.year IS NULL OR partition.month IS NULL LIMIT 1"
    return not spark.sql(untold).collect()


def _columns_fault(spark: SparkSession, table: Table) -> str:
    """Which columns a table lacks or has with another type; empty when none."""
    found = {field.name: field.dataType.simpleString() for field in spark.table(table.name).schema.fields}
    wrong = [
        f"{name} is {found.get(name, 'missing')}, not {kind}"
        for name, kind in ((name, kind.lower()) for name, kind in table.fields)
        if found.get(name) not in _WIDER.get(kind, {kind})
    ]
    return f"Columns differ: {_list(wrong)}." if wrong else ""


def _rules(month: Month, delivered: Mapping[str, int]) -> list[Audit]:
    return [*bronze_rules(month, delivered), *silver_rules(month), *gold_rules(month)]


def _is_monthly(audit: Audit) -> bool:
    return any(table.monthly for table in audit.reads)


def _named(name: str) -> Table:
    if name not in TABLES:
        raise BadRequest(f"tables: '{name[:60]}' has no rules; choose from {', '.join(TABLES)}.")
    return TABLES[name]


def _describe(pairs: set[_Pair]) -> str:
    names = sorted("-".join("null" if part is None else f"{part:02}" for part in pair) for pair in pairs)
    return f"Rows are in months that are not delivered: {_list(names)}."


def _list(names: Collection[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(list(names)[:_MAX_NAMED]) + more


def _known() -> dict[_Pair, Month]:
    first, last = Month.parse(FIRST), Month.parse(LAST)
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    pairs = ((first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1) for n in range(count))
    return {(year, month): Month(year, month) for year, month in pairs}


_KNOWN = _known()
