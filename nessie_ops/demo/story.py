"""The demo's story, and its verdict: every claim it prints is asked of the catalog and the tables, not of the run."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
from rich.console import Console

from assets.transforms.deliveries import count_rows
from assets.transforms.months import Month
from assets.transforms.tables import DELIVERED, FLIGHTS
from nessie_ops.demo import damage, show
from nessie_ops.demo.progress import RunProgress
from nessie_ops.demo.verdict import Verdict
from nessie_ops.errors import Forbidden
from nessie_ops.instance import open_instance
from nessie_ops.model import QUARANTINED, CommitHash, Merge, NewCommit
from nessie_ops.month_runs import MonthRun, count_steps, run_month
from resources.catalog import CatalogResource
from resources.deliveries import Deliveries
from resources.spark import EnvironmentSpark, SparkLake

GOOD, BAD = ("2013-01", "2013-02"), "2013-03"


def run_demo(home: Path) -> int:
    """Tell the story on `home`, which may have been through it before; the exit code: 0 only if all was verified."""
    console, catalog = Console(), CatalogResource()
    demo = _Demo(home, console, catalog, SparkLake(pyspark=EnvironmentSpark(), catalog=catalog))
    console.print(f"[bold]nessie-ops demo[/bold]: flights of New York in 2013, in {home}", highlight=False)
    with open_instance(home) as instance:
        for month in GOOD:
            demo.publish_month(instance, month)
        demo.refuse_damaged_month(instance, BAD)
    demo.verdict.print(console)
    show.print_next_steps(console)
    return 0 if demo.verdict.holds else 1


class _Demo:
    """The state that the chapters share."""

    def __init__(self, home: Path, console: Console, catalog: CatalogResource, lake: SparkLake) -> None:
        self.home, self.console, self.catalog, self.lake = home, console, catalog, lake
        self.verdict = Verdict()

    @property
    def head(self) -> CommitHash:
        return self.catalog.client.get_reference(self.catalog.main).hash

    def publish_month(self, instance: dg.DagsterInstance, month: str) -> None:
        """Load a month and verify that it is on main, complete, as one commit."""
        before = self.head
        result = self._run(instance, month, "")
        claim = self.verdict.claim
        if not claim(f"{month} was published", result.commit is not None, result.reason):
            return
        entry = self.catalog.client.list_log(self.head, limit=1)[0]
        claim(f"{month} is main's newest commit", entry.commit_meta.hash == result.commit)
        claim(f"{month} is one commit on main's former head or its namespaces", self._is_one_commit(before))
        for name, delivered, found in self._counts(month):
            claim(f"{name} has the {delivered:,} rows delivered for {month}", found == delivered, f"found {found:,}")
        branches = self.catalog.client.list_references(prefix=result.branch)
        claim(f"the branch of {month} is deleted", branches == [])

    def refuse_damaged_month(self, instance: dg.DagsterInstance, month: str) -> None:
        """Load a damaged month, verify that main did not move, and show what there is to see."""
        source = self.home / "demo" / "damaged"
        damage.write_damaged(Deliveries().folder, source, Month.parse(month))
        self.console.print(
            f"\nNow {month}, with {damage.REPEATED} keys repeated and {damage.IMPOSSIBLE} clocks that show 25:75:"
        )
        before = self.head
        result = self._run(instance, month, str(source))
        claim, client = self.verdict.claim, self.catalog.client
        claim(f"the damaged {month} was not published", result.commit is None)
        claim("main is unchanged", self.head == before)
        failed = {label for label, found in result.checks.items() if not found.passed and found.blocking}
        expected = {"bronze.flights:keys_unique", "bronze.flights:times_possible"}
        claim("exactly the checks of keys and times failed", failed == expected, ", ".join(sorted(failed)))
        branch = client.get_reference(result.branch)
        claim("its branch is quarantined with the reason", branch.properties.get(QUARANTINED) == result.reason)
        claim("the catalog refuses to merge it", self._is_refused(result.branch, branch.hash))
        show.print_failures(self.console, result.checks)
        show.print_log(self.console, client, self.head)
        show.print_diff(self.console, result.branch, client.diff(self.head, branch.hash))
        with self.lake.session(self.catalog.main) as spark:
            show.print_gold(self.console, spark, GOOD)

    def _run(self, instance: dg.DagsterInstance, month: str, source_dir: str) -> MonthRun:
        started = time.monotonic()
        with RunProgress(self.console, month, count_steps()) as progress:
            result = run_month(month, instance, source_dir=source_dir, on_event=progress.on_event)
        show.print_result(self.console, result, time.monotonic() - started)
        return result

    def _is_one_commit(self, before: CommitHash) -> bool:
        log = self.catalog.client.list_log(self.head, limit_hash=before, limit=4)
        messages = [entry.commit_meta.message for entry in log if entry.commit_meta.hash != before]
        return len([text for text in messages if not text.startswith("Create namespaces")]) == 1

    def _counts(self, month: str) -> list[tuple[str, int, int]]:
        """Name, rows delivered, and rows on main, of each table whose rows the delivery determines."""
        when, source = Month.parse(month), Deliveries().folder
        flights = count_rows(source, FLIGHTS, when)
        expected = {table.name: count_rows(source, table, when if table.monthly else None) for table in DELIVERED}
        expected |= {"silver.flights": flights, "silver.flights_weather": flights}
        monthly = {table.name for table in DELIVERED if table.monthly} | {"silver.flights", "silver.flights_weather"}
        columns = [
            f"(SELECT count(*) FROM {name} {f'WHERE {when.where}' if name in monthly else ''})" for name in expected
        ]
        with self.lake.session(self.catalog.main) as spark:
            row = spark.sql(f"SELECT {', '.join(f'{sql} AS n{n}' for n, sql in enumerate(columns))}").first()
        assert row is not None  # an aggregate has a row
        return [(name, count, row[n]) for n, (name, count) in enumerate(expected.items())]

    def _is_refused(self, branch: str, commit: CommitHash) -> bool:
        request = Merge(from_ref=branch, from_hash=commit, meta=NewCommit(message="by force"))
        try:
            self.catalog.client.merge(self.catalog.main, None, request)
        except Forbidden:
            return True
        return False
