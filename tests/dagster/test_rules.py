"""Every rule holds on the real deliveries and fails on data that break it; a rule that cannot fail guards nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from assets.checks import all_rules
from assets.run_branches import ensure_namespaces
from assets.transforms.audits import SAMPLE_ROWS, Audit, Finding, run_audits
from assets.transforms.bronze import load_all, load_month
from assets.transforms.deliveries import count_rows
from assets.transforms.gold import replace_airport_hourly, replace_carrier_delays
from assets.transforms.months import Month
from assets.transforms.silver import replace_flights_weather, upsert_flights
from assets.transforms.tables import DELIVERED, FLIGHTS, NAMESPACES
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, ReferenceType
from resources.catalog import CatalogResource
from resources.spark import SparkLake

pytestmark = pytest.mark.spark

MONTH = Month(2013, 1)
ONE = f"{MONTH.where} AND day = 15 AND carrier = 'UA' AND flight = 1018"
OTHER_PLANE = ", ".join("'N1'" if name == "tailnum" else name for name in FLIGHTS.names)
# Statements that break each rule, and it alone or with its consequences.
DAMAGE: Mapping[str, str] = {
    "bronze.flights:rows_match_delivery": "DELETE FROM bronze.flights WHERE {one}",
    "bronze.flights:keys_unique": "INSERT INTO bronze.flights SELECT {other_plane} FROM bronze.flights WHERE {one}",
    "bronze.flights:times_possible": "UPDATE bronze.flights SET dep_time = 2575 WHERE {one}",
    "bronze.flights:fresh": "DELETE FROM bronze.flights WHERE day = 31",
    "bronze.flights:no_exact_duplicates": "INSERT INTO bronze.flights SELECT * FROM bronze.flights WHERE {one}",
    "bronze.weather:rows_match_delivery": "DELETE FROM bronze.weather WHERE day = 15 AND hour = 4",
    "bronze.weather:keys_unique": "UPDATE bronze.weather SET time_hour = TIMESTAMP '2013-01-15' WHERE day = 15",
    "bronze.weather:values_possible": "UPDATE bronze.weather SET temp = 451 WHERE day = 15 AND hour = 4",
    "bronze.weather:wind_plausible": "UPDATE bronze.weather SET wind_speed = 1048 WHERE day = 15 AND hour = 4",
    "bronze.weather:fresh": "DELETE FROM bronze.weather WHERE month = 1 AND day > 29",
    "bronze.planes:rows_match_delivery": "DELETE FROM bronze.planes WHERE tailnum = 'N10156'",
    "bronze.planes:keys_unique": "UPDATE bronze.planes SET tailnum = 'N10156' WHERE tailnum = 'N102UW'",
    "bronze.airports:rows_match_delivery": "DELETE FROM bronze.airports WHERE faa = '04G'",
    "bronze.airports:keys_unique": "UPDATE bronze.airports SET faa = '04G' WHERE faa = '06A'",
    "bronze.airlines:rows_match_delivery": "DELETE FROM bronze.airlines",
    "bronze.airlines:keys_unique": "UPDATE bronze.airlines SET carrier = '9E' WHERE carrier = 'AA'",
    "silver.flights:rows_match_bronze": "DELETE FROM silver.flights WHERE {one}",
    "silver.flights:keys_unique": "INSERT INTO silver.flights SELECT * FROM silver.flights WHERE {one}",
    "silver.flights:no_unknown_carriers": "UPDATE silver.flights SET carrier = 'ZZ' WHERE {one}",
    "silver.flights:no_unknown_airports": "UPDATE silver.flights SET dest = 'ZZZ' WHERE {one}",
    "silver.flights:no_unknown_planes": "UPDATE silver.flights SET tailnum = 'N0' WHERE {one}",
    "silver.flights:times_consistent": "UPDATE silver.flights SET dep_at = dep_at - INTERVAL 1 HOUR WHERE {one}",
    "silver.flights_weather:each_flight_once": "UPDATE silver.flights_weather SET dep_delay_min = 999 WHERE {one}",
    "silver.flights_weather:weather_observed": "UPDATE silver.flights_weather SET observed = false WHERE day = 15",
    "gold.carrier_delays:reconciles_with_silver": "DELETE FROM gold.carrier_delays WHERE carrier = 'UA'",
    "gold.carrier_delays:keys_unique": "UPDATE gold.carrier_delays SET carrier = 'UA' WHERE carrier = 'AA'",
    "gold.carrier_delays:delays_plausible": "UPDATE gold.carrier_delays SET avg_dep_delay_min = 61 "
    "WHERE carrier = 'UA'",
    "gold.airport_hourly:reconciles_with_silver": "UPDATE gold.airport_hourly SET cancelled = cancelled + 1 "
    "WHERE origin = 'JFK' AND hour = 17",
    "gold.airport_hourly:keys_unique": "UPDATE gold.airport_hourly SET hour = 8 WHERE origin = 'JFK' AND hour = 9",
}


@pytest.fixture(scope="module")
def audits(source: Path) -> dict[str, Audit]:
    """The rules of the month, by label."""
    delivered = {table.name: count_rows(source, table, MONTH if table.monthly else None) for table in DELIVERED}
    return {audit.label: audit for audit in all_rules(MONTH, delivered)}


@pytest.fixture(scope="module")
def loaded(home: Path, lake: SparkLake, source: Path) -> CommitHash:
    """A commit that has the whole month."""
    client = CatalogResource().client
    ensure_namespaces(client, "main", NAMESPACES)
    with lake.session("main") as spark:
        for table in DELIVERED:
            if table.monthly:
                load_month(spark, table, source, MONTH)
            else:
                load_all(spark, table, source)
        upsert_flights(spark, MONTH)
        replace_flights_weather(spark, MONTH)
        replace_carrier_delays(spark, MONTH)
        replace_airport_hourly(spark, MONTH)
    return client.get_reference("main").hash


def test_all_rules_hold_on_real_data(loaded: CommitHash, lake: SparkLake, audits: dict[str, Audit]) -> None:
    with lake.session("main") as spark:
        findings = run_audits(spark, list(audits.values()))
    assert [finding.audit.label for finding in findings if not finding.passed] == []


@pytest.mark.parametrize("label", DAMAGE)
def test_a_rule_finds_what_breaks_it(
    loaded: CommitHash, client: NessieClient, lake: SparkLake, audits: dict[str, Audit], label: str
) -> None:
    branch = f"damaged/{label.replace(':', '-')}"
    client.create_reference(ReferenceType.BRANCH, branch, loaded)
    with lake.session(branch) as spark:
        spark.sql(DAMAGE[label].format(one=ONE, other_plane=OTHER_PLANE))
        [finding] = run_audits(spark, [audits[label]])
    assert finding.bad_rows > 0
    assert 0 < len(finding.sample) <= SAMPLE_ROWS
    assert len(finding.markdown.splitlines()) == len(finding.sample) + 2


def test_every_rule_is_broken_by_a_test(audits: dict[str, Audit]) -> None:
    assert set(audits) == set(DAMAGE)


def test_a_sample_is_a_markdown_table(audits: dict[str, Audit]) -> None:
    audit = audits["bronze.flights:fresh"]
    finding = Finding(audit, 2, ("a", "b"), (("1", ""), ("x|y", "z")))
    assert finding.markdown == "| a | b |\n| --- | --- |\n| 1 |  |\n| x\\|y | z |"
    assert not finding.passed and Finding(audit, 0).passed
