"""What the assets of tables have in common: their partitions, their group and what they say after a write."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from assets.runs import branch_of, content_key_of, key_of, month_of
from assets.transforms.months import FIRST, LAST, Month
from assets.transforms.tables import Table
from nessie_ops.model import IcebergTable
from resources.catalog import CatalogResource

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


def materialized(
    context: dg.AssetExecutionContext,
    catalog: CatalogResource,
    spark: SparkSession,
    table: Table,
) -> dg.MaterializeResult:
    """The result of a write: the branch's commit, the table's snapshot and its rows, in all and of the month."""
    branch, key = branch_of(context.run), content_key_of(table)
    head = catalog.client.get_reference(branch).hash
    content = catalog.client.get_contents(head, [key])[key]
    assert isinstance(content, IcebergTable)
    metadata = {"nessie/branch": branch, "nessie/commit": head, "iceberg/snapshot_id": str(content.snapshot_id)}
    counts = _counts(spark, table, month_of(context.run) if table.monthly else None)
    return dg.MaterializeResult(metadata={**metadata, **counts})


def _counts(spark: SparkSession, table: Table, month: Month | None) -> dict[str, int]:
    """Row counts as the table's files state them; exact, because nothing here writes delete files."""
    of_month = f"FILTER (WHERE partition.year = {month.year} AND partition.month = {month.month})" if month else ""
    row = spark.sql(
        f"SELECT coalesce(sum(record_count), 0) AS total, coalesce(sum(record_count) {of_month}, 0) AS part "
        f"FROM {table.name}.files"
    ).first()
    assert row is not None  # an aggregate has a row
    return {"dagster/row_count": row["total"], **({"dagster/partition_row_count": row["part"]} if month else {})}
