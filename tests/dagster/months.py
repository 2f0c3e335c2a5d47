"""Asks main whether a month is there, whole and once."""

from __future__ import annotations

from pathlib import Path

from assets.transforms.deliveries import count_rows
from assets.transforms.months import Month
from assets.transforms.tables import FLIGHTS, TABLES, WEATHER
from nessie_ops.client import NessieClient
from resources.spark import SparkLake


def check_month(lake: SparkLake, source: Path, month: str) -> None:
    """Every delivered row of the month is on main once, in every table that is made of it."""
    where, when = Month.parse(month).where, Month.parse(month)
    monthly = [table.name for table in TABLES.values() if table.monthly]
    columns = [f"(SELECT count(*) FROM {name} WHERE {where}) AS n{n}" for n, name in enumerate(monthly)]
    keys = f"SELECT DISTINCT {', '.join(FLIGHTS.key)} FROM silver.flights WHERE {where}"
    with lake.session("main") as spark:
        row = spark.sql(
            f"SELECT {', '.join(columns)}, (SELECT count(*) FROM ({keys})) AS keys, "
            f"(SELECT sum(flights) FROM gold.carrier_delays WHERE {where}) AS flown, "
            f"(SELECT sum(flights) FROM gold.airport_hourly WHERE {where}) AS hourly"
        ).first()
    assert row is not None
    counts = {name: row[n] for n, name in enumerate(monthly)}
    flights = count_rows(source, FLIGHTS, when)
    assert counts["bronze.flights"] == counts["silver.flights"] == counts["silver.flights_weather"] == flights > 2000
    assert counts["bronze.weather"] == count_rows(source, WEATHER, when) > 100
    assert row["keys"] == row["flown"] == row["hourly"] == flights


def loads_on_main(client: NessieClient) -> list[str]:
    """The months that were published, newest first."""
    log = client.list_log(client.get_reference("main").hash)
    found = (entry.commit_meta.all_properties.get("nessie_ops.partition", ()) for entry in log)
    return [month for months in found for month in months]
