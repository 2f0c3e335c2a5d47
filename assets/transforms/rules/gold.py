"""Rules of the aggregates: they reconcile with silver, group by group and to the row."""

from __future__ import annotations

from assets.transforms.audits import Audit
from assets.transforms.months import Month
from assets.transforms.rules.common import differences, keys_unique, of
from assets.transforms.tables import AIRPORT_HOURLY, CARRIER_DELAYS, CLEAN_FLIGHTS, Table

# Columns of the aggregates, and how silver.flights says what must stand there.
_TOTALS = {
    "flights": "count(*)",
    "cancelled": "count_if(cancelled)",
    "departed": "count(dep_delay_min)",
    "dep_delay_sum_min": "coalesce(sum(dep_delay_min), 0)",
}
_CARRIER_TOTALS = {
    **_TOTALS,
    "diverted": "count_if(diverted)",
    "arrived": "count(arr_delay_min)",
    "arr_delay_sum_min": "coalesce(sum(arr_delay_min), 0)",
}
MAX_AVERAGE_MIN, MIN_DEPARTURES = 60, 100


def gold_rules(month: Month) -> list[Audit]:
    """Audits of both aggregates."""
    return [
        _reconciles(CARRIER_DELAYS, month, ("carrier",), _CARRIER_TOTALS),
        _reconciles(AIRPORT_HOURLY, month, ("origin", "hour"), _TOTALS),
        keys_unique(CARRIER_DELAYS, month),
        keys_unique(AIRPORT_HOURLY, month),
        Audit(
            CARRIER_DELAYS,
            "delays_plausible",
            f"No carrier with {MIN_DEPARTURES} departures is {MAX_AVERAGE_MIN} minutes late on average.",
            f"SELECT * FROM {of(CARRIER_DELAYS, month)} "
            f"WHERE departed >= {MIN_DEPARTURES} AND abs(avg_dep_delay_min) > {MAX_AVERAGE_MIN}",
            (CARRIER_DELAYS,),
            blocking=False,
        ),
    ]


def _reconciles(table: Table, month: Month, groups: tuple[str, ...], totals: dict[str, str]) -> Audit:
    group = ", ".join(groups)
    computed = ", ".join(f"{sql} AS {column}" for column, sql in totals.items())
    expected = f"SELECT {group}, {computed} FROM {of(CLEAN_FLIGHTS, month)} GROUP BY {group}"
    found = f"SELECT {group}, {', '.join(totals)} FROM {of(table, month)}"
    return Audit(
        table,
        "reconciles_with_silver",
        "Counts and sums equal those of silver.flights in every group.",
        differences(expected, found),
        (table, CLEAN_FLIGHTS),
    )
