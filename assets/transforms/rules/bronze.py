"""Rules of the deliveries: complete, keyed, possible and fresh."""

from __future__ import annotations

from collections.abc import Mapping

from assets.transforms.audits import Audit
from assets.transforms.known_gaps import WEATHER_DAYS_MISSING
from assets.transforms.months import Month
from assets.transforms.rules.common import keys_unique, of
from assets.transforms.silver import MAX_WIND_MPH
from assets.transforms.tables import DELIVERED, FLIGHTS, WEATHER, Table

# Bounds of what can be true of a flight; the widest values of 2013 are -86 and 1301, 20 and 695, 17 and 4983.
MIN_DELAY_MIN, MAX_DELAY_MIN = -120, 2880
MAX_AIR_TIME_MIN, MAX_DISTANCE_MI = 1200, 6000

ROWS_MATCH_DELIVERY = "rows_match_delivery"  # the rule that reads the delivered file


def bronze_rules(month: Month, delivered: Mapping[str, int]) -> list[Audit]:
    """Audits of the deliveries; `delivered` has the rows of each file (of the month), by table name; 0 if absent."""
    rules = [_rows_match(table, month, delivered.get(table.name, 0)) for table in DELIVERED]
    rules += [keys_unique(table, month, f"(SELECT DISTINCT * FROM {of(table, month)})") for table in DELIVERED]
    return [*rules, *_flights_rules(month), *_weather_rules(month)]


def _flights_rules(month: Month) -> list[Audit]:
    flights = of(FLIGHTS, month)
    return [
        Audit(
            FLIGHTS,
            "times_possible",
            "Clock times, dates and delays exist, and required values are there.",
            f"SELECT * FROM {flights} WHERE NOT ({_possible_flight(month)})",
            (FLIGHTS,),
        ),
        Audit(
            FLIGHTS,
            "fresh",
            "The delivery reaches the last day of the month.",
            _last_day(FLIGHTS, month, month.last_day),
            (FLIGHTS,),
        ),
        Audit(
            FLIGHTS,
            "no_exact_duplicates",
            "No row is delivered twice; silver keeps one of each.",
            f"SELECT *, count(*) AS times FROM {flights} GROUP BY ALL HAVING times > 1",
            (FLIGHTS,),
            blocking=False,
        ),
    ]


def _weather_rules(month: Month) -> list[Audit]:
    weather = of(WEATHER, month)
    return [
        Audit(
            WEATHER,
            "values_possible",
            "Observations are within physical bounds.",
            f"SELECT * FROM {weather} WHERE temp NOT BETWEEN -60 AND 130 OR humid NOT BETWEEN 0 AND 100 "
            "OR wind_dir NOT BETWEEN 0 AND 360 OR wind_speed < 0 OR precip < 0 OR visib < 0 "
            "OR pressure NOT BETWEEN 850 AND 1100",
            (WEATHER,),
        ),
        Audit(
            WEATHER,
            "wind_plausible",
            f"No wind above {MAX_WIND_MPH} mph; silver leaves such readings out.",
            f"SELECT * FROM {weather} WHERE greatest(wind_speed, wind_gust) > {MAX_WIND_MPH}",
            (WEATHER,),
            blocking=False,
        ),
        Audit(
            WEATHER,
            "fresh",
            f"Observations reach the end of the month, at most {WEATHER_DAYS_MISSING} day short.",
            _last_day(WEATHER, month, month.last_day - WEATHER_DAYS_MISSING),
            (WEATHER,),
        ),
    ]


def _rows_match(table: Table, month: Month, delivered: int) -> Audit:
    bad = (
        f"SELECT count(*) AS loaded, {delivered} AS delivered FROM {of(table, month)} "
        f"HAVING loaded <> {delivered} OR loaded = 0"
    )
    return Audit(table, ROWS_MATCH_DELIVERY, "As many rows as the file has, and at least one.", bad, (table,))


def _last_day(table: Table, month: Month, day: int) -> str:
    return f"SELECT max(day) AS last_day, {day} AS due FROM {of(table, month)} HAVING coalesce(last_day, 0) < due"


def _possible_flight(month: Month) -> str:
    """SQL: never null; true of a row whose values can be, whether the flight was flown, diverted or cancelled."""
    required = ("carrier", "flight", "origin", "dest", "time_hour", "sched_dep_time", "sched_arr_time", "distance")
    optional = [
        *(f"({_is_clock(column)} OR {column} = 2400)" for column in ("dep_time", "arr_time")),
        *(f"{column} BETWEEN {MIN_DELAY_MIN} AND {MAX_DELAY_MIN}" for column in ("dep_delay", "arr_delay")),
        f"air_time BETWEEN 1 AND {MAX_AIR_TIME_MIN}",
    ]
    conditions = [
        *(f"{column} IS NOT NULL" for column in required),
        *(f"coalesce({condition}, true)" for condition in optional),
        f"coalesce({_is_clock('sched_dep_time')} AND {_is_clock('sched_arr_time')}, false)",
        f"coalesce(day BETWEEN 1 AND {month.last_day} AND distance BETWEEN 1 AND {MAX_DISTANCE_MI}, false)",
        "(dep_time IS NULL) = (dep_delay IS NULL)",
        "hour IS NOT DISTINCT FROM sched_dep_time DIV 100 AND minute IS NOT DISTINCT FROM sched_dep_time % 100",
    ]
    return " AND ".join(conditions)


def _is_clock(column: str) -> str:
    return f"({column} BETWEEN 0 AND 2359 AND {column} % 100 < 60)"
