"""What the assets of tables have in common: their partitions, their group and what they say after a write."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from assets.facts import of_table, stopwatch
from assets.runs import key_of, month_of, opened_branch_of
from assets.said import ASSETS, properties_of
from assets.transforms.months import FIRST, LAST, Month
from assets.transforms.tables import Table
from resources.catalog import CatalogResource
from resources.spark import SparkLake

months = dg.MonthlyPartitionsDefinition(start_date=FIRST, end_date="2014-01", fmt="%Y-%m")
assert months.get_last_partition_key() == LAST  # the end is exclusive


def table_asset(
    table: Table,
    deps: Sequence[dg.AssetKey | dg.AssetsDefinition],
    *,
    kinds: AbstractSet[str] = frozenset({"spark", "iceberg"}),
    check_specs: Sequence[dg.AssetCheckSpec] = (),
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """`dg.asset` for the asset of `table`."""
    return dg.asset(
        key=key_of(table),
        deps=deps,
        group_name=table.name.split(".")[0],
        kinds=set(kinds),
        check_specs=check_specs,
        partitions_def=months if table.monthly else None,
        metadata={"dagster/relation_identifier": f"lake.{table.name}"},
        description=f"{table.name}, one row per {', '.join(table.key)}.",
    )


def written(
    context: dg.AssetExecutionContext,
    catalog: CatalogResource,
    lake: SparkLake,
    table: Table,
    write: Callable[[SparkSession], None],
) -> dg.MaterializeResult:
    """The result of writing `table` on the run's branch, whose commits name the run and the asset."""
    took, month = stopwatch(), month_of(context.run) if table.monthly else None
    branch = opened_branch_of(context.run, catalog.client)
    said = {**properties_of(context.run), ASSETS: table.name}
    with lake.session(branch, properties=said) as spark:
        write(spark)
        rows = {"dagster/partition_row_count": _count_rows(spark, table, month)} if month else {}
    return dg.MaterializeResult(metadata={**of_table(catalog, branch, table), **rows, **took()})


def _count_rows(spark: SparkSession, table: Table, month: Month) -> int:
    """Rows of the month as the table's files state them; exact, because nothing here writes delete files."""
    row = spark.sql(
        f"SELECT coalesce(sum(record_count), 0) AS n FROM {table.name}.files "
        f"WHERE partition.year = {month.year} AND partition.month = {month.month}"
    ).first()
    assert row is not None  # an aggregate has a row
    return int(row["n"])
