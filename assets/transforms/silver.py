"""Silver: flights cleaned and keyed, with times in UTC, and each flight with the weather at its origin and hour.

Delays are differences of clocks, so they are added to local times before these become UTC.  A flight belongs to the
month of its scheduled local departure.  The session's time zone must be UTC, as SparkLake sets it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assets.transforms.bronze import replace_month
from assets.transforms.known_gaps import AIRPORT_ZONES
from assets.transforms.months import Month
from assets.transforms.tables import AIRPORTS, CLEAN_FLIGHTS, FLIGHTS, FLIGHTS_WEATHER, WEATHER, create_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A reading of 1048 mph was delivered; 231 mph is the highest surface gust outside tornados ever measured.
MAX_WIND_MPH = 231


def upsert_flights(spark: SparkSession, month: Month) -> None:
    """Make `month` of silver.flights hold the cleaned flights of bronze.flights: insert, update and delete rows.

    Keys must be unique in bronze once exact duplicates are removed, else Spark refuses the MERGE.
    """
    create_table(spark, CLEAN_FLIGHTS)
    target = CLEAN_FLIGHTS.name
    same_key = " AND ".join(f"t.{name} = s.{name}" for name in CLEAN_FLIGHTS.key)
    # The literals let Spark read and rewrite this month's files alone.
    this_month = f"t.year = {month.year} AND t.month = {month.month}"
    spark.sql(
        f"MERGE INTO {target} t USING ({clean_flights(month)}) s ON {same_key} AND {this_month} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    # Not the MERGE's own WHEN NOT MATCHED BY SOURCE: with it Spark reads and rewrites all months.
    gone = f"{this_month} AND NOT EXISTS (SELECT 1 FROM {FLIGHTS.name} s WHERE {same_key})"
    if not spark.sql(f"SELECT 1 FROM {target} t WHERE {gone} LIMIT 1").isEmpty():
        spark.sql(f"DELETE FROM {target} t WHERE {gone}")


def clean_flights(month: Month) -> str:
    """The query of `month`'s cleaned flights, with the columns of silver.flights in their order."""
    zones = ", ".join(f"('{faa}', '{zone}')" for faa, zone in AIRPORT_ZONES.items())
    return f"""
WITH zones AS (
  SELECT faa, tzone FROM {AIRPORTS.name} UNION ALL SELECT * FROM VALUES {zones} AS gaps(faa, tzone)
), placed AS (
  SELECT f.*, o.tzone AS origin_zone, d.tzone AS dest_zone, CAST(make_date(year, month, day) AS TIMESTAMP) AS midnight
  FROM (SELECT DISTINCT * FROM {FLIGHTS.name} WHERE {month.where}) f
  LEFT JOIN zones o ON f.origin = o.faa LEFT JOIN zones d ON f.dest = d.faa
), departed AS (
  SELECT *, {_clock("midnight", "sched_dep_time")} AS sched_dep_local,
    to_utc_timestamp({_clock("midnight", "sched_dep_time")}, origin_zone) AS sched_dep_at,
    to_utc_timestamp(timestampadd(MINUTE, dep_delay, {_clock("midnight", "sched_dep_time")}), origin_zone) AS dep_at
  FROM placed
), due AS (
  SELECT *, {_next("date_trunc('DAY', sched_dep_local)", "sched_arr_time", "sched_dep_at")} AS sched_arr_local,
    {_next("date_trunc('DAY', from_utc_timestamp(dep_at, dest_zone))", "arr_time", "dep_at")} AS diverted_arr_local
  FROM departed
)
SELECT year, month, day, carrier, flight, origin, dest, tailnum, hour, time_hour, sched_dep_at, dep_at,
  to_utc_timestamp(sched_arr_local, dest_zone) AS sched_arr_at,
  to_utc_timestamp(coalesce(timestampadd(MINUTE, arr_delay, sched_arr_local), diverted_arr_local), dest_zone) AS arr_at,
  dep_delay AS dep_delay_min, arr_delay AS arr_delay_min, air_time AS air_time_min, distance AS distance_mi,
  dep_time IS NULL AS cancelled, dep_time IS NOT NULL AND arr_delay IS NULL AS diverted
FROM due"""


def replace_flights_weather(spark: SparkSession, month: Month) -> None:
    """Make `month` of silver.flights_weather hold each flight of silver.flights once, with the weather observed."""
    create_table(spark, FLIGHTS_WEATHER)
    replace_month(spark, FLIGHTS_WEATHER, month, flights_weather(month))


def flights_weather(month: Month) -> str:
    """The query of `month`'s flights with weather; `rough` is rain or snow, sight below 3 miles, or a strong wind."""
    keys = ", ".join(f"f.{name}" for name in FLIGHTS_WEATHER.key)
    return f"""
SELECT {keys}, f.hour, f.time_hour, cancelled, diverted, dep_delay_min, arr_delay_min, w.origin IS NOT NULL AS observed,
  temp AS temp_f, humid AS humidity_pct, IF(wind_speed <= {MAX_WIND_MPH}, wind_speed, NULL) AS wind_mph,
  IF(wind_gust <= {MAX_WIND_MPH}, wind_gust, NULL) AS gust_mph, precip AS precip_in, pressure AS pressure_mb,
  visib AS visib_mi,
  precip > 0 OR visib < 3 OR coalesce(wind_gust, wind_speed, 0) BETWEEN 30 AND {MAX_WIND_MPH} AS rough
FROM (SELECT * FROM {CLEAN_FLIGHTS.name} WHERE {month.where}) f
LEFT JOIN (SELECT * FROM {WEATHER.name} WHERE {month.where}) w ON f.origin = w.origin AND f.time_hour = w.time_hour"""


def _clock(midnight: str, hhmm: str) -> str:
    """SQL: `midnight` plus the clock time `hhmm`, such as 517 or 2400."""
    return f"timestampadd(MINUTE, ({hhmm} DIV 100) * 60 + {hhmm} % 100, {midnight})"


def _next(midnight: str, hhmm: str, after: str) -> str:
    """SQL: the first time from `midnight` on, and after `after`, when clocks at the destination show `hhmm`."""
    today = _clock(midnight, hhmm)
    return f"IF(to_utc_timestamp({today}, dest_zone) <= {after}, timestampadd(DAY, 1, {today}), {today})"
