"""The rules that a month must obey, per layer, as audits.  What they tolerate is in known_gaps.py and docs/pipeline.md."""

from __future__ import annotations

from collections.abc import Mapping

from assets.transforms.audits import Audit
from assets.transforms.known_gaps import AIRPORT_ZONES, CARRIERS_WITH_FLEET_NUMBERS, PLANES, WEATHER_DAYS_MISSING
from assets.transforms.months import Month
from assets.transforms.silver import MAX_WIND_MPH
from assets.transforms.tables import (
    AIRLINES,
    AIRPORT_HOURLY,
    AIRPORTS,
    CARRIER_DELAYS,
    CLEAN_FLIGHTS,
    DELIVERED,
    FLIGHTS,
    FLIGHTS_WEATHER,
    WEATHER,
    Table,
)
from assets.transforms.tables import PLANES as PLANES_TABLE

# Bounds of what can be true of a flight; the widest values of 2013 are -43 and 1301, 20 and 695, 17 and 4983.
MIN_DELAY_MIN, MAX_DELAY_MIN = -120, 2880
MAX_AIR_TIME_MIN, MAX_DISTANCE_MI = 1200, 6000
MAX_GROUND_MIN = 480  # gate to gate, less air time; 5 to 235 in 2013


def bronze_rules(month: Month, delivered: Mapping[str, int]) -> list[Audit]:
    """Audits of the deliveries; `delivered` has the rows of each file (of the month), by table name; 0 if absent."""
    rules = [_rows_match(table, month, delivered.get(table.name, 0)) for table in DELIVERED]
    rules += [_keys_unique(table, month, f"SELECT DISTINCT * FROM {_of(table, month)}") for table in DELIVERED]
    flights, weather = _of(FLIGHTS, month), _of(WEATHER, month)
    return [
        *rules,
        Audit(
            FLIGHTS, "times_possible", "Clock times, dates and delays exist, and required values are there.",
            f"SELECT * FROM {flights} WHERE NOT ({_possible_flight(month)})", (FLIGHTS,),
        ),
        Audit(
            FLIGHTS, "fresh", "The delivery reaches the last day of the month.",
            _last_day(FLIGHTS, month, month.last_day), (FLIGHTS,),
        ),
        Audit(
            FLIGHTS, "no_exact_duplicates", "No row is delivered twice; silver keeps one of each.",
            f"SELECT *, count(*) AS times FROM {flights} GROUP BY ALL HAVING times > 1", (FLIGHTS,), blocking=False,
        ),
        Audit(
            WEATHER, "values_possible", "Observations are within physical bounds.",
            f"SELECT * FROM {weather} WHERE NOT coalesce(temp BETWEEN -60 AND 130, true) OR NOT "
            "coalesce(humid BETWEEN 0 AND 100, true) OR NOT coalesce(wind_dir BETWEEN 0 AND 360, true) OR "
            "coalesce(wind_speed, 0) < 0 OR precip < 0 OR visib < 0 OR NOT coalesce(pressure BETWEEN 850 AND 1100, true)",
            (WEATHER,),
        ),
        Audit(
            WEATHER, "wind_plausible", f"No wind above {MAX_WIND_MPH} mph; silver leaves such readings out.",
            f"SELECT * FROM {weather} WHERE greatest(wind_speed, wind_gust) > {MAX_WIND_MPH}", (WEATHER,), blocking=False,
        ),
        Audit(
            WEATHER, "fresh", f"Observations reach the end of the month, at most {WEATHER_DAYS_MISSING} day short.",
            _last_day(WEATHER, month, month.last_day - WEATHER_DAYS_MISSING), (WEATHER,),
        ),
    ]


def silver_rules(month: Month) -> list[Audit]:
    """Audits of the cleaned flights and of their join with the weather."""
    flights, joined = _of(CLEAN_FLIGHTS, month), _of(FLIGHTS_WEATHER, month)
    return [
        Audit(
            CLEAN_FLIGHTS, "rows_match_bronze", "Each distinct delivered flight is there, and no other.",
            _differences(
                f"SELECT {_keys(FLIGHTS)} FROM (SELECT DISTINCT * FROM {_of(FLIGHTS, month)})",
                f"SELECT {_keys(FLIGHTS)} FROM {flights}",
            ), (CLEAN_FLIGHTS, FLIGHTS),
        ),
        _keys_unique(CLEAN_FLIGHTS, month),
        Audit(
            CLEAN_FLIGHTS, "no_unknown_carriers", "Every carrier is in bronze.airlines.",
            f"SELECT f.* FROM {flights} f LEFT ANTI JOIN {AIRLINES.name} a ON f.carrier = a.carrier",
            (CLEAN_FLIGHTS, AIRLINES),
        ),
        Audit(
            CLEAN_FLIGHTS, "no_unknown_airports", f"Every airport is in bronze.airports or one of {_list(AIRPORT_ZONES)}.",
            f"SELECT f.* FROM {flights} f LEFT JOIN {AIRPORTS.name} o ON origin = o.faa LEFT JOIN {AIRPORTS.name} d "
            f"ON dest = d.faa WHERE o.faa IS NULL OR d.faa IS NULL AND dest NOT IN ({_list(AIRPORT_ZONES)})",
            (CLEAN_FLIGHTS, AIRPORTS),
        ),
        Audit(
            CLEAN_FLIGHTS, "no_unknown_planes", "Every plane is in bronze.planes or a documented gap.",
            f"SELECT f.* FROM {flights} f LEFT ANTI JOIN {PLANES_TABLE.name} p ON f.tailnum = p.tailnum WHERE "
            f"carrier NOT IN ({_list(CARRIERS_WITH_FLEET_NUMBERS)}) AND coalesce(tailnum, '') NOT IN ({_list(PLANES)}) "
            "AND NOT (tailnum IS NULL AND cancelled)",
            (CLEAN_FLIGHTS, PLANES_TABLE),
        ),
        Audit(
            CLEAN_FLIGHTS, "times_consistent", "Times in UTC agree with the delivered hour, clocks and air time.",
            _inconsistent_times(month), (CLEAN_FLIGHTS, FLIGHTS),
        ),
        Audit(
            FLIGHTS_WEATHER, "each_flight_once", "Each flight of silver.flights is there once, with its delays.",
            _differences(f"SELECT {_JOINED} FROM {flights}", f"SELECT {_JOINED} FROM {joined}"),
            (CLEAN_FLIGHTS, FLIGHTS_WEATHER),
        ),
        Audit(
            FLIGHTS_WEATHER, "weather_observed", "At least 95 % of the flights have an observation.",
            f"SELECT count_if(observed) AS with_weather, count(*) AS flights FROM {joined} "
            "HAVING with_weather < 0.95 * flights", (FLIGHTS_WEATHER,), blocking=False,
        ),
    ]


def gold_rules(month: Month) -> list[Audit]:
    """Audits that reconcile the aggregates with silver, group by group and to the row."""
    sums = (
        "count(*) AS flights, count_if(cancelled) AS cancelled, count(dep_delay_min) AS departed, "
        "coalesce(sum(dep_delay_min), 0) AS dep_delay_sum_min"
    )
    columns = "flights, cancelled, departed, dep_delay_sum_min"
    flights = _of(CLEAN_FLIGHTS, month)
    return [
        _reconciles(CARRIER_DELAYS, month, f"carrier, {columns}, diverted", f"carrier, {sums}, count_if(diverted)", flights),
        _reconciles(AIRPORT_HOURLY, month, f"origin, hour, {columns}", f"origin, hour, {sums}", flights),
        _keys_unique(CARRIER_DELAYS, month),
        _keys_unique(AIRPORT_HOURLY, month),
        Audit(
            CARRIER_DELAYS, "delays_plausible", "No carrier with 100 departures is more than an hour late on average.",
            f"SELECT * FROM {_of(CARRIER_DELAYS, month)} WHERE departed >= 100 AND abs(avg_dep_delay_min) > 60",
            (CARRIER_DELAYS,), blocking=False,
        ),
    ]


_JOINED = "year, month, day, carrier, flight, origin, cancelled, diverted, dep_delay_min, arr_delay_min"


def _of(table: Table, month: Month) -> str:
    return f"(SELECT * FROM {table.name} WHERE {month.where})" if table.monthly else table.name


def _keys(table: Table) -> str:
    return ", ".join(table.key)


def _list(names: object) -> str:
    return ", ".join(f"'{name}'" for name in names)  # type: ignore[attr-defined]


def _rows_match(table: Table, month: Month, delivered: int) -> Audit:
    bad = (
        f"SELECT count(*) AS loaded, {delivered} AS delivered FROM {_of(table, month)} "
        f"HAVING loaded <> {delivered} OR loaded = 0"
    )
    return Audit(table, "rows_match_delivery", "As many rows as the file has, and at least one.", bad, (table,))


def _keys_unique(table: Table, month: Month, rows: str = "") -> Audit:
    source = f"({rows})" if rows else _of(table, month)
    # Every row of a repeated key, so that the sample shows in what they differ.
    bad = (
        f"SELECT * FROM (SELECT *, count(*) OVER (PARTITION BY {_keys(table)}) AS rows_of_key FROM {source}) "
        f"WHERE rows_of_key > 1 ORDER BY {_keys(table)}"
    )
    return Audit(table, "keys_unique", f"({_keys(table)}) names one row, exact duplicates aside.", bad, (table,))


def _last_day(table: Table, month: Month, day: int) -> str:
    return f"SELECT max(day) AS last_day, {day} AS due FROM {_of(table, month)} HAVING coalesce(last_day, 0) < due"


def _possible_flight(month: Month) -> str:
    actual = " AND ".join(f"coalesce({_clock_shown(c)} OR {c} = 2400, true)" for c in ("dep_time", "arr_time"))
    scheduled = " AND ".join(f"{_clock_shown(c)}" for c in ("sched_dep_time", "sched_arr_time"))
    delays = " AND ".join(
        f"coalesce({c} BETWEEN {MIN_DELAY_MIN} AND {MAX_DELAY_MIN}, true)" for c in ("dep_delay", "arr_delay")
    )
    return (
        f"coalesce({scheduled} AND day BETWEEN 1 AND {month.last_day}, false) AND {actual} AND {delays} "
        "AND carrier IS NOT NULL AND flight IS NOT NULL AND origin IS NOT NULL AND dest IS NOT NULL "
        "AND time_hour IS NOT NULL AND (dep_time IS NULL) = (dep_delay IS NULL) "
        "AND hour IS NOT DISTINCT FROM sched_dep_time DIV 100 AND minute IS NOT DISTINCT FROM sched_dep_time % 100 "
        f"AND coalesce(air_time BETWEEN 1 AND {MAX_AIR_TIME_MIN}, true) AND coalesce(distance, 0) BETWEEN 1 AND {MAX_DISTANCE_MI}"
    )


def _clock_shown(column: str) -> str:
    return f"({column} BETWEEN 0 AND 2359 AND {column} % 100 < 60)"


def _inconsistent_times(month: Month) -> str:
    clock = "CAST(date_format(from_utc_timestamp({0}, '{1}'), 'HHmm') AS INT)"
    departed = clock.format("dep_at", "America/New_York")
    return f"""
SELECT f.*, b.dep_time, b.sched_dep_time FROM {_of(CLEAN_FLIGHTS, month)} f
LEFT JOIN (SELECT DISTINCT {_keys(FLIGHTS)}, dep_time, sched_dep_time FROM {_of(FLIGHTS, month)}) b
USING ({_keys(FLIGHTS)})
WHERE NOT coalesce(date_trunc('HOUR', sched_dep_at) = time_hour AND sched_arr_at > sched_dep_at, false)
  OR NOT cancelled AND NOT coalesce({departed} = b.dep_time % 2400, false)
  OR arr_at <= dep_at OR cancelled AND arr_at IS NOT NULL
  OR timestampdiff(MINUTE, dep_at, arr_at) - air_time_min NOT BETWEEN 0 AND {MAX_GROUND_MIN}"""


def _differences(expected: str, found: str) -> str:
    return (
        f"SELECT 'missing' AS what, * FROM ({expected} EXCEPT ALL {found}) UNION ALL "
        f"SELECT 'unexpected' AS what, * FROM ({found} EXCEPT ALL {expected})"
    )


def _reconciles(table: Table, month: Month, columns: str, computed: str, flights: str) -> Audit:
    groups = computed.partition(", count(*)")[0]
    bad = _differences(
        f"SELECT {computed} FROM {flights} GROUP BY {groups}", f"SELECT {columns} FROM {_of(table, month)}"
    )
    return Audit(
        table, "reconciles_with_silver", "Counts and sums equal those of silver.flights in every group.", bad,
        (table, CLEAN_FLIGHTS),
    )
