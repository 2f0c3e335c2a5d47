"""The demo's story: every claim that it prints is asked of the catalog and the tables, not of the run."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from assets.transforms.deliveries import count_rows
from assets.transforms.months import Month
from assets.transforms.tables import DELIVERED, FLIGHTS
from nessie_ops.client import NessieClient
from nessie_ops.demo import damage, show
from nessie_ops.demo.screen import Screen
from nessie_ops.errors import Forbidden
from nessie_ops.instance import open_instance
from nessie_ops.model import QUARANTINED, CommitHash, Merge, NewCommit, Reference
from nessie_ops.month_runs import MonthRun, run_month
from resources.catalog import CatalogResource
from resources.deliveries import Deliveries
from resources.spark import EnvironmentSpark, SparkLake

GOOD, BAD = ("2013-01", "2013-02"), "2013-03"
LOADED = {"bronze.flights", "bronze.weather"}  # tables that a month writes before its checks fail
GOLD = ("gold.carrier_delays", "gold.airport_hourly")
FAILING = {"bronze.flights:keys_unique", "bronze.flights:times_possible"}  # checks, for what damage.py does


def run_demo(home: Path) -> int:
    """Tell the story on `home`, which may have been through it before; the exit code: 0 only if all was verified."""
    screen, catalog = Screen(), CatalogResource()
    demo = _Demo(home, screen, catalog)
    screen.say(f"Flights of New York in 2013, month by month, into the catalog of {home}.")
    with open_instance(home) as instance:
        for month in GOOD:
            demo.publish(instance, month)
        branch = demo.refuse(instance, BAD)
    screen.title("What there is to see")
    show.show_log(screen, catalog.client, catalog.main)
    show.show_diff(screen, catalog.client, catalog.main, branch)
    with demo.lake.session(catalog.main) as spark:
        show.show_gold(screen, spark, GOOD)
    _say_next(screen, home)
    return 1 if screen.failures else 0


def _say_next(screen: Screen, home: Path) -> None:
    screen.title("Next")
    screen.say(f"`export NESSIE_OPS_HOME={home}` lets the commands below find this catalog.")
    screen.say("`make ui` opens Dagster with these runs; its job load_month loads any month of 2013.")
    screen.say("`.venv/bin/nessie-ops serve` serves the catalog to Spark, PyIceberg and clients of Nessie.")
    if screen.failures:
        screen.say(f"[bold red]{len(screen.failures)} of the claims above are not true.[/]")
    else:
        screen.say("[bold green]All of it verified.[/]")


class _Demo:
    """What the chapters share."""

    def __init__(self, home: Path, screen: Screen, catalog: CatalogResource) -> None:
        self.home, self.screen, self.catalog = home, screen, catalog
        self.lake = SparkLake(pyspark=EnvironmentSpark(), catalog=catalog)

    @property
    def client(self) -> NessieClient:
        return self.catalog.client

    @property
    def main(self) -> Reference:
        return self.client.get_reference(self.catalog.main)

    def publish(self, instance: dg.DagsterInstance, month: str) -> None:
        """Load a month and verify that it is on main, whole, as one commit."""
        self.screen.title(f"{month}, on a branch of its own, checked there, and published")
        before = self.main.hash
        result = self._run(instance, month, "")
        claim = self.screen.claim
        claim(result.commit is not None, f"{month} was published{f', not: {result.reason}' if result.reason else ''}")
        claim(self.main.hash == result.commit, "main ends at the run's commit")
        claim(self._is_one_commit(before), "all tables reached main in that one commit")
        claim(self.client.list_references(prefix=result.branch) == [], "the run's branch is deleted")
        with self.lake.session(self.catalog.main) as spark:
            self._claim_rows(spark, month)

    def refuse(self, instance: dg.DagsterInstance, month: str) -> str:
        """Load a damaged month, verify that main did not move, and show why; the quarantined branch."""
        what = f"{damage.REPEATED} keys repeated and {damage.IMPOSSIBLE} clocks that show 25:75"
        self.screen.title(f"{month}, with {what}")
        source = self.home / "demo" / "damaged"
        damage.write_damaged(Deliveries().folder, source, Month.parse(month))
        before = self.main.hash
        result = self._run(instance, month, str(source))
        claim = self.screen.claim
        branch = self.client.get_reference(result.branch)
        failed = {label for label, found in result.checks.items() if not found.passed and found.blocking}
        claim(result.commit is None, "the damaged month was not published")
        claim(self.main.hash == before, f"main is where it was, at {before[:12]}")
        claim(failed == FAILING, f"the checks that failed are {' and '.join(sorted(failed)) or 'none'}")
        claim(branch.properties.get(QUARANTINED) == result.reason, f"the branch is quarantined: {result.reason}")
        changed = {str(entry.key) for entry in self.client.diff(before, branch.hash)}
        claim(changed == LOADED, f"it differs from main in {' and '.join(sorted(changed))}")
        claim(self._is_refused(branch), "the catalog refuses to merge it")
        show.show_failures(self.screen, result.checks)
        return result.branch

    def _run(self, instance: dg.DagsterInstance, month: str, source_dir: str) -> MonthRun:
        started = time.monotonic()
        with self.screen.steps(month) as on_event:
            result = run_month(month, instance, source_dir=source_dir, on_event=on_event)
        self.screen.say(f"  in {time.monotonic() - started:.0f} s, on branch {result.branch}")
        return result

    def _is_one_commit(self, before: CommitHash) -> bool:
        """Whether main's last commit wrote every table by which main differs from what it was."""
        head = self.main.hash
        [last] = self.client.list_log(head, limit=1, with_operations=True)
        written = {operation.key for operation in last.operations or ()}
        return written == {entry.key for entry in self.client.diff(before, head) if len(entry.key.elements) > 1}

    def _claim_rows(self, spark: SparkSession, month: str) -> None:
        """Count the rows of the tables that a delivery determines, each on main and in its file."""
        when, source = Month.parse(month), Deliveries().folder
        flights = count_rows(source, FLIGHTS, when)
        expected = {table.name: count_rows(source, table, when if table.monthly else None) for table in DELIVERED}
        expected |= dict.fromkeys(("silver.flights", "silver.flights_weather", *GOLD), flights)
        static = {table.name for table in DELIVERED if not table.monthly}
        counts = [
            f"(SELECT {'coalesce(sum(flights), 0)' if name in GOLD else 'count(*)'} FROM {name} "
            f"WHERE {'true' if name in static else when.where}) AS n{n}"
            for n, name in enumerate(expected)
        ]
        row = spark.sql(f"SELECT {', '.join(counts)}").first()
        assert row is not None  # an aggregate has a row
        found = {name: row[n] for n, name in enumerate(expected)}
        self.screen.claim(found["bronze.flights"] == flights, f"{flights:,} flights were delivered and are in bronze")
        wrong = [f"{name} has {found[name]:,} rows, not {count:,}" for name, count in expected.items()
                 if found[name] != count]  # fmt: skip
        text = "the other tables have all rows and no more, and gold counts each flight"
        self.screen.claim(not wrong, f"{text}{'' if not wrong else f': {wrong}'}")

    def _is_refused(self, branch: Reference) -> bool:
        request = Merge(from_ref=branch.name, from_hash=branch.hash, meta=NewCommit(message="by force"))
        try:
            self.client.merge(self.catalog.main, None, request)
        except Forbidden:
            return True
        return False
