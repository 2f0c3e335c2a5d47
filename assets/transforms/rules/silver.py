"""Rules of the cleaned flights and of their join with the weather."""

from __future__ import annotations

from assets.transforms.audits import Audit
from assets.transforms.known_gaps import AIRPORT_ZONES, CARRIERS_WITH_FLEET_NUMBERS
from assets.transforms.known_gaps import PLANES as KNOWN_PLANES
from assets.transforms.months import Month
from assets.transforms.rules.common import differences, keys_unique, listed, of
from assets.transforms.tables import AIRLINES, AIRPORTS, CLEAN_FLIGHTS, FLIGHTS, FLIGHTS_WEATHER, PLANES

MAX_GROUND_MIN = 480  # gate to gate, less air time; 5 to 235 in 2013
MIN_OBSERVED = 0.95  # of a month's flights; 0.967 in December, which lacks a day


def silver_rules(month: Month) -> list[Audit]:
    """Audits of both silver tables."""
    return [
        _rows_match_bronze(month),
        keys_unique(CLEAN_FLIGHTS, month),
        *_no_orphans(month),
        Audit(
            CLEAN_FLIGHTS,
            "times_consistent",
            "Times in UTC agree with the delivered hour, clocks and air time.",
            _inconsistent_times(month),
            (CLEAN_FLIGHTS, FLIGHTS),
        ),
        *_weather_rules(month),
    ]


def _rows_match_bronze(month: Month) -> Audit:
    key = ", ".join(FLIGHTS.key)
    delivered = f"SELECT {key} FROM (SELECT DISTINCT * FROM {of(FLIGHTS, month)})"
    return Audit(
        CLEAN_FLIGHTS,
        "rows_match_bronze",
        "Each distinct delivered flight is there, and no other.",
        differences(delivered, f"SELECT {key} FROM {of(CLEAN_FLIGHTS, month)}"),
        (CLEAN_FLIGHTS, FLIGHTS),
    )


def _no_orphans(month: Month) -> list[Audit]:
    flights = of(CLEAN_FLIGHTS, month)
    return [
        Audit(
            CLEAN_FLIGHTS,
            "no_unknown_carriers",
            "Every carrier is in bronze.airlines.",
            f"SELECT f.* FROM {flights} f LEFT ANTI JOIN {AIRLINES.name} a ON f.carrier = a.carrier",
            (CLEAN_FLIGHTS, AIRLINES),
        ),
        Audit(
            CLEAN_FLIGHTS,
            "no_unknown_airports",
            f"Every airport is in bronze.airports or one of {', '.join(AIRPORT_ZONES)}.",
            f"SELECT f.* FROM {flights} f LEFT JOIN {AIRPORTS.name} o ON origin = o.faa LEFT JOIN {AIRPORTS.name} d "
            f"ON dest = d.faa WHERE o.faa IS NULL OR d.faa IS NULL AND dest NOT IN ({listed(AIRPORT_ZONES)})",
            (CLEAN_FLIGHTS, AIRPORTS),
        ),
        Audit(
            CLEAN_FLIGHTS,
            "no_unknown_planes",
            "Every plane is in bronze.planes or a documented gap; a cancelled flight may have none.",
            f"SELECT f.* FROM {flights} f LEFT ANTI JOIN {PLANES.name} p ON f.tailnum = p.tailnum "
            f"WHERE carrier NOT IN ({listed(CARRIERS_WITH_FLEET_NUMBERS)}) "
            f"AND coalesce(tailnum, '') NOT IN ({listed(KNOWN_PLANES)}) AND NOT (tailnum IS NULL AND cancelled)",
            (CLEAN_FLIGHTS, PLANES),
        ),
    ]


def _weather_rules(month: Month) -> list[Audit]:
    columns = ", ".join([*FLIGHTS.key, "cancelled", "diverted", "dep_delay_min", "arr_delay_min"])
    flights, joined = of(CLEAN_FLIGHTS, month), of(FLIGHTS_WEATHER, month)
    return [
        Audit(
            FLIGHTS_WEATHER,
            "each_flight_once",
            "Each flight of silver.flights is there once, with its delays.",
            differences(f"SELECT {columns} FROM {flights}", f"SELECT {columns} FROM {joined}"),
            (CLEAN_FLIGHTS, FLIGHTS_WEATHER),
        ),
        Audit(
            FLIGHTS_WEATHER,
            "weather_observed",
            f"At least {MIN_OBSERVED:.0%} of the flights have an observation.",
            f"SELECT count_if(observed) AS with_weather, count(*) AS flights FROM {joined} "
            f"HAVING with_weather < {MIN_OBSERVED} * flights",
            (FLIGHTS_WEATHER,),
            blocking=False,
        ),
    ]


def _inconsistent_times(month: Month) -> str:
    # What the clock in New York shows at the departure in UTC must be what was delivered: this finds a wrong zone.
    departed = "CAST(date_format(from_utc_timestamp(dep_at, 'America/New_York'), 'HHmm') AS INT)"
    key = ", ".join(FLIGHTS.key)
    return f"""
SELECT f.*, b.dep_time FROM {of(CLEAN_FLIGHTS, month)} f
LEFT JOIN (SELECT DISTINCT {key}, dep_time FROM {of(FLIGHTS, month)}) b USING ({key})
WHERE NOT coalesce(date_trunc('HOUR', sched_dep_at) = time_hour AND sched_arr_at > sched_dep_at, false)
  OR NOT cancelled AND NOT coalesce({departed} = b.dep_time % 2400, false)
  OR arr_at <= dep_at OR cancelled AND arr_at IS NOT NULL
  OR timestampdiff(MINUTE, dep_at, arr_at) - air_time_min NOT BETWEEN 0 AND {MAX_GROUND_MIN}"""
