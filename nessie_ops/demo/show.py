"""What the demo shows of the catalog and the tables: failed checks, the log, a diff, and the answers in gold."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from assets.runs import Evaluations
from assets.transforms.months import Month
from nessie_ops.client import NessieClient
from nessie_ops.demo.screen import Screen
from nessie_ops.model import Content, IcebergTable

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


def show_failures(screen: Screen, checks: Evaluations) -> None:
    """Each failed blocking check with the first of the rows that it found."""
    for label, found in sorted(checks.items()):
        if not found.passed and found.blocking:
            title = f"{label} failed: {found.description}"
            screen.sample(title, str(found.metadata["sample"].value), _SAMPLE_COLUMNS, _SAMPLE_ROWS)


def show_log(screen: Screen, client: NessieClient, main: str) -> None:
    """The newest commits of main."""
    metas = [entry.commit_meta for entry in client.list_log(client.get_reference(main).hash, limit=_LOG_ROWS)]
    rows = [(meta.hash[:12], f"{meta.commit_time:%Y-%m-%d %H:%M:%S}", meta.message) for meta in metas]
    screen.table(f"Log of {main}", ("commit", "at", "message"), rows)


def show_diff(screen: Screen, client: NessieClient, main: str, branch: str) -> None:
    """What the quarantined branch would have changed."""
    before, after = client.get_reference(main).hash, client.get_reference(branch).hash
    rows = [(entry.key, _snapshot(entry.before), _snapshot(entry.after)) for entry in client.diff(before, after)]
    screen.table(f"Diff of {main} and {branch}", ("table", f"snapshot on {main}", "on the branch"), rows)


def show_gold(screen: Screen, spark: SparkSession, months: Sequence[str]) -> None:
    """Which carriers and hours are late, and how weather matters."""
    where = " OR ".join(f"({Month.parse(month).where})" for month in months)
    for title, query in (("The latest carriers", _CARRIERS), ("The latest hours", _HOURS)):
        rows = spark.sql(query.format(where=where, measures=_MEASURES))
        screen.table(f"{title}, {' and '.join(months)}", rows.columns, [tuple(row) for row in rows.collect()])
    screen.say("Minutes of delay at departure, on average and in rough weather; late is 15 minutes or more.")


def _snapshot(content: Content | None) -> str:
    return str(content.snapshot_id) if isinstance(content, IcebergTable) else ""
