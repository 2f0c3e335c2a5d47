"""The transformations on real Spark: what a month's tables hold after loading, and after loading again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import SparkSession

from assets.run_branches import ensure_namespaces
from assets.transforms.bronze import load_all, load_month
from assets.transforms.gold import replace_airport_hourly, replace_carrier_delays
from assets.transforms.months import Month
from assets.transforms.silver import replace_flights_weather, upsert_flights
from assets.transforms.tables import (
    AIRLINES,
    AIRPORTS,
    CLEAN_FLIGHTS,
    FLIGHTS,
    NAMESPACES,
    PLANES,
    WEATHER,
)
from nessie_ops.client import NessieClient
from resources.catalog import CatalogResource
from resources.spark import SparkLake
from tests.dagster.deliveries import Row, change_rows, read_rows, write_rows

pytestmark = pytest.mark.spark

JANUARY, FEBRUARY = Month(2013, 1), Month(2013, 2)

Deliver = Callable[..., Path]


@pytest.fixture(scope="module")
def spark(home: Path, lake: SparkLake) -> Iterator[SparkSession]:
    """A session on main, which has the tables that are not monthly."""
    ensure_namespaces(CatalogResource().client, "main", NAMESPACES)
    with lake.session("main") as spark:
        yield spark


@pytest.fixture
def deliver(tmp_path: Path, source: Path) -> Deliver:
    """Make a delivery of flights, each the first one of the real data with changes."""
    first = read_rows(source / "flights.csv")[0]

    def make(*changes: dict[str, Any]) -> Path:
        shutil.copytree(source, tmp_path, dirs_exist_ok=True)
        rows = [{**first, "flight": str(n)} | {k: str(v) for k, v in c.items()} for n, c in enumerate(changes)]
        write_rows(tmp_path / "flights.csv", rows)
        return tmp_path

    return make


def load(spark: SparkSession, source: Path, month: Month = JANUARY) -> list[SparkRow]:
    """Bronze and silver of a month; its cleaned flights by flight number."""
    load_all(spark, AIRPORTS, source)
    load_month(spark, FLIGHTS, source, month)
    upsert_flights(spark, month)
    return spark.sql(f"SELECT * FROM silver.flights WHERE {month.where} ORDER BY day, flight").collect()


def instants(row: SparkRow) -> list[datetime | None]:
    """The four times of a flight, in UTC.  PySpark gives them in this machine's zone."""
    times = [row[name] for name in ("sched_dep_at", "dep_at", "sched_arr_at", "arr_at")]
    return [time and time.astimezone(UTC).replace(tzinfo=None) for time in times]


# What is delivered, and the four times in UTC that it means.
FLIGHTS_AND_TIMES: dict[str, tuple[dict[str, Any], list[str | None]]] = {
    "two time zones": (
        {"dest": "LAX", "sched_dep_time": 900, "dep_time": 905, "dep_delay": 5, "sched_arr_time": 1200,
         "arr_time": 1210, "arr_delay": 10},
        ["2013-01-01 14:00", "2013-01-01 14:05", "2013-01-01 20:00", "2013-01-01 20:10"],
    ),
    "overnight, a clock of 2400, an airport that is not listed": (
        {"dest": "BQN", "sched_dep_time": 2359, "dep_time": 2400, "dep_delay": 1, "sched_arr_time": 440,
         "arr_time": 430, "arr_delay": -10},
        ["2013-01-02 04:59", "2013-01-02 05:00", "2013-01-02 08:40", "2013-01-02 08:30"],
    ),
    "delayed into the next day": (
        {"dest": "HNL", "sched_dep_time": 900, "dep_time": 641, "dep_delay": 1301, "sched_arr_time": 1530,
         "arr_time": 1242, "arr_delay": 1272},
        ["2013-01-01 14:00", "2013-01-02 11:41", "2013-01-02 01:30", "2013-01-02 22:42"],
    ),
    "diverted: the arrival is the first such clock after departure": (
        {"dest": "ORD", "sched_dep_time": 2200, "dep_time": 2355, "dep_delay": 115, "sched_arr_time": 2330,
         "arr_time": 129, "arr_delay": ""},
        ["2013-01-02 03:00", "2013-01-02 04:55", "2013-01-02 05:30", "2013-01-02 07:29"],
    ),
    "cancelled": (
        {"dest": "ORD", "sched_dep_time": 1000, "dep_time": "", "dep_delay": "NA", "sched_arr_time": 1130,
         "arr_time": "NA", "arr_delay": "NA"},
        ["2013-01-01 15:00", None, "2013-01-01 17:30", None],
    ),
}  # fmt: skip


def test_times_become_utc(spark: SparkSession, deliver: Deliver) -> None:
    rows = load(spark, deliver(*(flight for flight, _ in FLIGHTS_AND_TIMES.values())))
    found = {name: instants(row) for name, row in zip(FLIGHTS_AND_TIMES, rows, strict=True)}
    expected = {
        name: [text and datetime.fromisoformat(text) for text in times]
        for name, (_, times) in FLIGHTS_AND_TIMES.items()
    }
    assert found == expected
    assert [name for name, row in zip(FLIGHTS_AND_TIMES, rows, strict=True) if row.cancelled] == ["cancelled"]
    assert [row.diverted for row in rows] == [False, False, False, True, False]


@pytest.mark.parametrize(
    ("month", "elapsed_h"), [(3, {9: 3, 10: 4}), (11, {2: 5, 3: 4})], ids=["summer time begins", "ends"]
)
def test_delays_are_differences_of_clocks(
    spark: SparkSession, deliver: Deliver, month: int, elapsed_h: dict[int, int]
) -> None:
    # Due at 23:30 and gone at 03:30: four hours by the clock, three or five by the sun in the nights of the change.
    flight = {"month": month, "dest": "ATL", "sched_dep_time": 2330, "dep_time": 330, "dep_delay": 240,
              "sched_arr_time": 200, "arr_time": 600, "arr_delay": 240}  # fmt: skip
    found = {}
    for row in load(spark, deliver(*({**flight, "day": day} for day in elapsed_h)), Month(2013, month)):
        due, gone = instants(row)[:2]
        assert due is not None and gone is not None
        found[row.day] = (gone - due) / timedelta(hours=1)
    assert found == elapsed_h


def test_exact_duplicates_are_removed_and_nothing_else(spark: SparkSession, deliver: Deliver) -> None:
    same = {"flight": 7, "day": 3}
    rows = load(spark, deliver(same, same, {"flight": 8, "day": 3}, {"flight": 7, "day": 4}))
    assert [(row.day, row.flight) for row in rows] == [(3, 7), (3, 8), (4, 7)]
    assert spark.sql(f"SELECT * FROM bronze.flights WHERE {JANUARY.where}").count() == 4  # as delivered


def test_loading_again_inserts_updates_and_deletes_in_that_month_alone(spark: SparkSession, deliver: Deliver) -> None:
    february = load(spark, deliver({"month": 2, "flight": 1}), FEBRUARY)
    first = load(spark, deliver({"flight": 1}, {"flight": 2}, {"flight": 3}))
    assert load(spark, deliver({"flight": 1}, {"flight": 2}, {"flight": 3})) == first
    changed = load(spark, deliver({"flight": 2}, {"flight": 3, "tailnum": "N1"}, {"flight": 4}))
    tail = first[0].tailnum
    assert [(row.flight, row.tailnum) for row in changed] == [(2, tail), (3, "N1"), (4, tail)]
    assert changed[0] == first[1]
    assert spark.sql(f"SELECT * FROM silver.flights WHERE {FEBRUARY.where}").collect() == february
    assert load(spark, deliver({"month": 2})) == []  # a month that is not delivered is empty
    assert spark.sql(f"SELECT * FROM bronze.flights WHERE {JANUARY.where}").isEmpty()


def test_a_table_that_is_not_monthly_is_written_only_when_its_file_changed(
    spark: SparkSession, client: NessieClient, source: Path, tmp_path: Path
) -> None:
    load_all(spark, AIRLINES, source)
    before = client.get_reference("main").hash
    assert not load_all(spark, AIRLINES, source)
    assert client.get_reference("main").hash == before
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    change_rows(tmp_path, "airlines", lambda rows: [*rows[1:], {"carrier": "ZZ", "name": "New"}])
    assert load_all(spark, AIRLINES, tmp_path)
    names = {row.carrier for row in spark.table(AIRLINES.name).collect()}
    assert "ZZ" in names and "9E" not in names
    assert load_all(spark, AIRLINES, source)


def test_types_and_partitions_are_those_declared(spark: SparkSession, source: Path) -> None:
    load_all(spark, PLANES, source)
    load(spark, source)
    for table in (FLIGHTS, PLANES, CLEAN_FLIGHTS):
        columns = [(name, kind.upper()) for name, kind in spark.table(table.name).dtypes]
        assert tuple(columns) == tuple((name, "BIGINT" if kind == "LONG" else kind) for name, kind in table.fields)
    partitions = spark.sql(f"SELECT DISTINCT partition.year, partition.month FROM {FLIGHTS.name}.files").collect()
    assert (2013, 1) in {tuple(row) for row in partitions}


def test_each_flight_has_the_weather_of_its_origin_and_hour(spark: SparkSession, source: Path) -> None:
    load(spark, source)
    load_month(spark, WEATHER, source, JANUARY)
    load_all(spark, AIRLINES, source)
    replace_flights_weather(spark, JANUARY)
    weather = {(row["origin"], row["time_hour"]): row for row in read_rows(source / "weather.csv")}
    flights = [row for row in read_rows(source / "flights.csv") if row["month"] == "1"]
    found = spark.sql(f"SELECT * FROM silver.flights_weather WHERE {JANUARY.where}").collect()
    by_key = {(row.day, row.carrier, row.flight, row.origin): row for row in found}
    assert len(by_key) == len(found) == len(flights) > 2000
    observed = 0
    for flight in flights:
        row = by_key[int(flight["day"]), flight["carrier"], int(flight["flight"]), flight["origin"]]
        there: Row | None = weather.get((flight["origin"], flight["time_hour"]))
        assert row.observed == (there is not None)
        assert there is None or (row.temp_f, row.visib_mi) == (float(there["temp"]), float(there["visib"]))
        observed += row.observed
    assert 0 < observed < len(flights)  # EWR and JFK were not observed in one hour of New Year's day

    replace_carrier_delays(spark, JANUARY)
    replace_airport_hourly(spark, JANUARY)
    united = [row for row in flights if row["carrier"] == "UA"]
    [delays] = spark.sql(f"SELECT * FROM gold.carrier_delays WHERE {JANUARY.where} AND carrier = 'UA'").collect()
    late = [int(row["dep_delay"]) for row in united if row["dep_delay"] != "NA"]
    assert (delays.name, delays.flights) == ("United Air Lines Inc.", len(united))
    assert (delays.departed, delays.dep_delay_sum_min) == (len(late), sum(late))
    assert delays.late_departures == sum(delay >= 15 for delay in late)
    assert delays.avg_dep_delay_min == pytest.approx(sum(late) / len(late))
    [hour] = spark.sql(
        f"SELECT * FROM gold.airport_hourly WHERE {JANUARY.where} AND origin = 'JFK' AND hour = 17"
    ).collect()
    then = [row for row in flights if (row["origin"], row["hour"]) == ("JFK", "17")]
    assert (hour.flights, hour.cancelled) == (len(then), sum(row["dep_time"] == "NA" for row in then))


def test_wind_that_cannot_be_is_left_out(spark: SparkSession, deliver: Deliver) -> None:
    folder = deliver({"origin": "EWR", "time_hour": "2013-01-01T16:00:00Z"})

    def storm(rows: list[Row]) -> list[Row]:
        return [{**row, "wind_speed": "1048.36", "wind_gust": "", "precip": "0", "visib": "10"} for row in rows]

    change_rows(folder, "weather", storm)
    load(spark, folder)
    load_month(spark, WEATHER, folder, JANUARY)
    replace_flights_weather(spark, JANUARY)
    [row] = spark.sql(f"SELECT * FROM silver.flights_weather WHERE {JANUARY.where}").collect()
    assert (row.observed, row.wind_mph, row.rough) == (True, None, False)
