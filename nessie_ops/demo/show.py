"""What the demo prints: runs, failed checks with their samples, the log, a diff, and the gold tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table as Grid

from assets.runs import Evaluations
from assets.transforms.months import Month
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, DiffEntry, IcebergTable
from nessie_ops.month_runs import MonthRun

_LOG_ROWS = 8
_SAMPLE_ROWS = 6
_SAMPLE_COLUMNS = ("month", "day", "carrier", "flight", "origin", "dest", "sched_dep_time", "dep_time", "dep_delay")
_MEASURES = """sum(flights) AS flights, round(100D * sum(late_departures) / sum(departed), 1) AS late_pct,
  round(sum(dep_delay_sum_min) / sum(departed), 1) AS avg_min,
  round(sum(rough_avg_dep_delay_min * rough_flights) / sum(rough_flights), 1) AS rough_avg_min"""
_CARRIERS = """
SELECT name AS carrier, {measures}
FROM gold.carrier_delays WHERE {where} GROUP BY name HAVING flights >= 1000 ORDER BY avg_min DESC LIMIT 6"""
_HOURS = """
SELECT origin, lpad(hour, 2, '0') || ':00' AS hour, {measures}
FROM gold.airport_hourly WHERE {where} GROUP BY ALL HAVING flights >= 200 ORDER BY avg_min DESC LIMIT 6"""


def print_result(console: Console, result: MonthRun, seconds: float) -> None:
    """One line: how a run ended."""
    if result.commit is not None:
        passed = sum(evaluation.passed for evaluation in result.checks.values())
        text = f"published as {result.commit[:12]}, {passed} of {len(result.checks)} checks passed"
    else:
        text = f"[red]refused[/red]: {result.reason}"
    console.print(f"[bold]{result.month}[/bold] {text}, in {seconds:.0f} s", highlight=False)


def print_failures(console: Console, checks: Evaluations) -> None:
    """Each failed blocking check with the rows that it found."""
    for label, found in sorted(checks.items()):
        if not found.passed and found.blocking:
            console.print(f"\n[bold red]{label}[/bold red]: {found.description}", highlight=False)
            console.print(_sample(str(found.metadata["sample"].value)))


def _sample(markdown: str) -> Grid:
    """The rows of a check's Markdown table, in the columns that fit a terminal."""
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in markdown.splitlines())
    shown = [n for n, name in enumerate(header) if name in _SAMPLE_COLUMNS]
    grid = Grid(*(header[n] for n in shown))
    for row in rows[:_SAMPLE_ROWS]:
        grid.add_row(*(row[n] for n in shown))
    return grid


def print_log(console: Console, client: NessieClient, head: CommitHash) -> None:
    """The newest commits of main."""
    grid = Grid("commit", "message", "at", title="\nLog of main", title_justify="left")
    for entry in client.list_log(head, limit=_LOG_ROWS):
        meta = entry.commit_meta
        grid.add_row(meta.hash[:12], meta.message, f"{meta.commit_time:%Y-%m-%d %H:%M:%S}")
    console.print(grid)


def print_diff(console: Console, branch: str, entries: Sequence[DiffEntry]) -> None:
    """What the quarantined branch would have changed."""
    grid = Grid("table", "snapshot on main", "on the branch", title=f"\nmain against {branch}", title_justify="left")
    for entry in entries:
        grid.add_row(str(entry.key), _snapshot(entry.before), _snapshot(entry.after))
    console.print(grid)


def print_gold(console: Console, spark: SparkSession, months: Sequence[str]) -> None:
    """Which carriers and hours are late, and how weather matters."""
    where = " OR ".join(f"({Month.parse(month).where})" for month in months)
    for title, query in (("The latest carriers", _CARRIERS), ("The latest hours", _HOURS)):
        rows = spark.sql(query.format(where=where, measures=_MEASURES))
        grid = Grid(*rows.columns, title=f"\n{title}, {' and '.join(months)}", title_justify="left")
        for row in rows.collect():
            grid.add_row(*(str(value) for value in row))
        console.print(grid)
    console.print("Minutes of delay at departure, on average and in rough weather; late is 15 minutes or more.")


def print_next_steps(console: Console) -> None:
    """How to go on."""
    console.print(
        "\n[bold]Next[/bold]: `make ui` opens Dagster on these runs; launch load_month for another month there."
    )
    console.print("`.venv/bin/nessie-ops serve` serves the catalog to Spark, PyIceberg and Nessie clients.")


def _snapshot(content: object) -> str:
    return str(content.snapshot_id) if isinstance(content, IcebergTable) else "-"
