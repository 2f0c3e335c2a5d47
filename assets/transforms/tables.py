"""The tables of the pipeline: columns with explicit types, partitions and keys.  One place, used by all layers.

A table of deliveries has the columns of its file, in the file's order, so the same text types the file and the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMESPACES = ("bronze", "silver", "gold")


@dataclass(frozen=True)
class Table:
    """A table: `columns` is SQL text `name TYPE, ...`; `key` identifies a row; monthly ones have month partitions."""

    name: str
    columns: str
    key: tuple[str, ...]
    monthly: bool = True

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Names and types of the columns, in order."""
        pairs = (column.split() for column in self.columns.split(","))
        return tuple((name, kind) for name, kind in pairs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    @property
    def ddl(self) -> str:
        """The statement that creates the table where it is absent."""
        partitions = " PARTITIONED BY (year, month)" if self.monthly else ""
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name} ({self.columns}) USING iceberg{partitions} "
            "TBLPROPERTIES ('format-version'='2', 'write.metadata.delete-after-commit.enabled'='false')"
        )


def create_table(spark: SparkSession, table: Table) -> None:
    """Create `table` where it is absent.  Its namespace must exist."""
    # IF NOT EXISTS costs a commit attempt on some catalogs; asking first costs one read.
    if not spark.catalog.tableExists(table.name):
        spark.sql(table.ddl)


FLIGHTS = Table(
    "bronze.flights",
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP",
    key=("year", "month", "day", "carrier", "flight", "origin"),
)
WEATHER = Table(
    "bronze.weather",
    "origin STRING, year INT, month INT, day INT, hour INT, temp DOUBLE, dewp DOUBLE, humid DOUBLE, wind_dir INT, "
    "wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE, pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP",
    key=("origin", "time_hour"),  # not the local hour: 01:00 comes twice when summer time ends
)
PLANES = Table(
    "bronze.planes",
    "tailnum STRING, year INT, type STRING, manufacturer STRING, model STRING, engines INT, seats INT, speed INT, "
    "engine STRING",
    key=("tailnum",),
    monthly=False,
)
AIRPORTS = Table(
    "bronze.airports",
    "faa STRING, name STRING, lat DOUBLE, lon DOUBLE, alt INT, tz INT, dst STRING, tzone STRING",
    key=("faa",),
    monthly=False,
)
AIRLINES = Table("bronze.airlines", "carrier STRING, name STRING", key=("carrier",), monthly=False)

CLEAN_FLIGHTS = Table(
    "silver.flights",
    "year INT, month INT, day INT, carrier STRING, flight INT, origin STRING, dest STRING, tailnum STRING, "
    "hour INT, time_hour TIMESTAMP, sched_dep_at TIMESTAMP, dep_at TIMESTAMP, sched_arr_at TIMESTAMP, "
    "arr_at TIMESTAMP, dep_delay_min INT, arr_delay_min INT, air_time_min INT, distance_mi INT, "
    "cancelled BOOLEAN, diverted BOOLEAN",
    key=FLIGHTS.key,
)
FLIGHTS_WEATHER = Table(
    "silver.flights_weather",
    "year INT, month INT, day INT, carrier STRING, flight INT, origin STRING, hour INT, time_hour TIMESTAMP, "
    "cancelled BOOLEAN, diverted BOOLEAN, dep_delay_min INT, arr_delay_min INT, observed BOOLEAN, temp_f DOUBLE, "
    "humidity_pct DOUBLE, wind_mph DOUBLE, gust_mph DOUBLE, precip_in DOUBLE, pressure_mb DOUBLE, visib_mi DOUBLE, "
    "rough BOOLEAN",
    key=FLIGHTS.key,
)
CARRIER_DELAYS = Table(
    "gold.carrier_delays",
    "year INT, month INT, carrier STRING, name STRING, flights BIGINT, cancelled BIGINT, diverted BIGINT, "
    "departed BIGINT, dep_delay_sum_min BIGINT, late_departures BIGINT, arrived BIGINT, arr_delay_sum_min BIGINT, "
    "late_arrivals BIGINT, avg_dep_delay_min DOUBLE, avg_arr_delay_min DOUBLE, late_arrival_pct DOUBLE, "
    "rough_flights BIGINT, rough_avg_dep_delay_min DOUBLE, fair_avg_dep_delay_min DOUBLE",
    key=("year", "month", "carrier"),
)
AIRPORT_HOURLY = Table(
    "gold.airport_hourly",
    "year INT, month INT, origin STRING, hour INT, flights BIGINT, cancelled BIGINT, departed BIGINT, "
    "dep_delay_sum_min BIGINT, late_departures BIGINT, avg_dep_delay_min DOUBLE, late_departure_pct DOUBLE, "
    "rough_flights BIGINT, rough_cancelled BIGINT, rough_avg_dep_delay_min DOUBLE, fair_avg_dep_delay_min DOUBLE, "
    "avg_visib_mi DOUBLE, avg_wind_mph DOUBLE",
    key=("year", "month", "origin", "hour"),
)

DELIVERED = (FLIGHTS, WEATHER, PLANES, AIRPORTS, AIRLINES)
TABLES = {table.name: table for table in (*DELIVERED, CLEAN_FLIGHTS, FLIGHTS_WEATHER, CARRIER_DELAYS, AIRPORT_HOURLY)}
