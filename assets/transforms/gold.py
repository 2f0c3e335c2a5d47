"""Gold: which carriers and hours are late, and how weather matters, per month.

Counts and sums are whole numbers, so that they can be reconciled with silver to the row; averages are made of them.
Late is 15 minutes or more, as the US Bureau of Transportation Statistics counts.  Cancelled flights have no delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.transforms.bronze import replace_month
from assets.transforms.months import Month
from assets.transforms.tables import AIRLINES, AIRPORT_HOURLY, CARRIER_DELAYS, FLIGHTS_WEATHER, create_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE_MIN = 15

_DEPARTURES = f"""count(*) AS flights, count_if(cancelled) AS cancelled, count(dep_delay_min) AS departed,
  coalesce(sum(dep_delay_min), 0) AS dep_delay_sum_min, count_if(dep_delay_min >= {LATE_MIN}) AS late_departures,
  avg(dep_delay_min) AS avg_dep_delay_min, count_if(rough) AS rough_flights,
  avg(dep_delay_min) FILTER (WHERE rough) AS rough_avg_dep_delay_min,
  avg(dep_delay_min) FILTER (WHERE NOT rough) AS fair_avg_dep_delay_min"""


def replace_carrier_delays(spark: SparkSession, month: Month) -> None:
    """Make `month` of gold.carrier_delays hold one row per carrier that had flights."""
    create_table(spark, CARRIER_DELAYS)
    replace_month(spark, CARRIER_DELAYS, month, carrier_delays(month))


def replace_airport_hourly(spark: SparkSession, month: Month) -> None:
    """Make `month` of gold.airport_hourly hold one row per airport and local hour of scheduled departures."""
    create_table(spark, AIRPORT_HOURLY)
    replace_month(spark, AIRPORT_HOURLY, month, airport_hourly(month))


def carrier_delays(month: Month) -> str:
    """The query of gold.carrier_delays from silver."""
    return f"""
SELECT g.*, name FROM (
  SELECT carrier, {_DEPARTURES}, count_if(diverted) AS diverted, count(arr_delay_min) AS arrived,
    coalesce(sum(arr_delay_min), 0) AS arr_delay_sum_min, count_if(arr_delay_min >= {LATE_MIN}) AS late_arrivals,
    avg(arr_delay_min) AS avg_arr_delay_min,
    100D * count_if(arr_delay_min >= {LATE_MIN}) / nullif(count(arr_delay_min), 0) AS late_arrival_pct
  FROM {FLIGHTS_WEATHER.name} WHERE {month.where} GROUP BY carrier
) g LEFT JOIN {AIRLINES.name} USING (carrier)"""


def airport_hourly(month: Month) -> str:
    """The query of gold.airport_hourly from silver."""
    return f"""
SELECT origin, hour, {_DEPARTURES}, count_if(rough AND cancelled) AS rough_cancelled,
  100D * count_if(dep_delay_min >= {LATE_MIN}) / nullif(count(dep_delay_min), 0) AS late_departure_pct,
  {_exact_avg("visib_mi")} AS avg_visib_mi, {_exact_avg("wind_mph")} AS avg_wind_mph
FROM {FLIGHTS_WEATHER.name} WHERE {month.where} GROUP BY origin, hour"""


def _exact_avg(column: str) -> str:
    # Sums of decimals do not depend on their order, so that loading again gives the same number.
    return f"CAST(avg(CAST({column} AS DECIMAL(9, 4))) AS DOUBLE)"
