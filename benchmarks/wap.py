"""What a branch per run costs: a month loaded on a branch and published, against the same month written to main.

    .venv/bin/python -m benchmarks.wap [--months 5] [--limit 2.0]

Both sides load the same tables with the same Spark, side by side in one run, each into a catalog of its own; a first
month warms both up and is not counted.  The overhead is the difference of each pair; the last column is the time of the
steps that only the branch has.  Checks are left out: they cost the same wherever they read.  Exits with 1 when the
median overhead is not below `--limit` seconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from assets.run_branches import branch_name, ensure_namespaces, open_branch, publish, validate
from assets.transforms import bronze, gold, silver
from assets.transforms.months import Month
from assets.transforms.tables import DELIVERED, NAMESPACES
from nessie_ops.model import NewCommit
from resources.catalog import CatalogResource
from resources.deliveries import packaged_deliveries
from resources.spark import EnvironmentSpark, SparkLake

STEPS: list[Callable[..., object]] = [
    silver.upsert_flights,
    silver.replace_flights_weather,
    gold.replace_carrier_delays,
    gold.replace_airport_hourly,
]


def load(lake: SparkLake, ref: str, month: Month) -> None:
    """The pipeline's writes, each in a session of its own as assets have it."""
    source = packaged_deliveries()
    for table in DELIVERED:
        with lake.session(ref) as spark:
            if table.monthly:
                bronze.load_month(spark, table, source, month)
            else:
                bronze.load_all(spark, table, source)
    for step in STEPS:
        with lake.session(ref) as spark:
            step(spark, month)


def straight(lake: SparkLake, month: Month) -> float:
    """Seconds to write `month` to main."""
    start = time.perf_counter()
    ensure_namespaces(lake.catalog.client, "main", NAMESPACES)
    load(lake, "main", month)
    return time.perf_counter() - start


def on_branch(lake: SparkLake, month: Month) -> tuple[float, float]:
    """Seconds to write `month` to a branch and to publish it, and how many of them the branch's own steps took."""
    start = time.perf_counter()
    client, name = lake.catalog.client, branch_name(f"benchmark-{month}")
    open_branch(client, "main", name, NAMESPACES)
    opened = time.perf_counter()
    load(lake, name, month)
    loaded = time.perf_counter()
    publish(client, "main", name, NewCommit(message=f"Load {month}"), validate(client, name, []))
    end = time.perf_counter()
    return end - start, opened - start + end - loaded


def measure(months: int) -> list[tuple[float, float]]:
    """(seconds on a branch, seconds straight to main) for each counted month."""
    pairs = []
    with tempfile.TemporaryDirectory() as folder:
        spark = EnvironmentSpark()
        lakes = [SparkLake(pyspark=spark, catalog=CatalogResource(home=str(Path(folder) / n))) for n in ("wap", "main")]
        for n in range(1, months + 2):
            month = Month.parse(f"2013-{n:02}")
            if n % 2:
                branch, own = on_branch(lakes[0], month)
                main = straight(lakes[1], month)
            else:
                main = straight(lakes[1], month)
                branch, own = on_branch(lakes[0], month)
            if n > 1:
                pairs.append((branch, main))
                cells = f"{branch:.2f}", f"{main:.2f}", f"{branch - main:+.2f}", f"{branch / main:.2f}", f"{own:.3f}"
                print(month, *cells, sep="\t", flush=True)
    return pairs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--months", type=int, default=5, choices=range(1, 12), help="counted months (1-11)")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds that the median overhead must stay below")
    options = parser.parse_args()
    print("month\tbranch_s\tmain_s\toverhead_s\tratio\topen_and_publish_s")
    pairs = measure(options.months)
    overhead = statistics.median(a - b for a, b in pairs)
    ratio = statistics.median(a / b for a, b in pairs)
    print(f"median overhead {overhead:+.2f} s, ratio {ratio:.2f}; limit {options.limit} s")
    return 0 if overhead < options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
