"""Bronze assets: each delivered file as a table, monthly ones by month, on the run's branch."""

import dagster as dg
from pyspark.sql import SparkSession

from assets.branch import run_branch
from assets.runs import month_of
from assets.tables import table_asset, written
from assets.transforms.bronze import load_all, load_month
from assets.transforms.tables import DELIVERED, Table
from resources.catalog import CatalogResource
from resources.deliveries import Deliveries
from resources.spark import SparkLake


def _build(table: Table) -> dg.AssetsDefinition:
    @table_asset(table, [run_branch])
    def delivered(
        context: dg.AssetExecutionContext, catalog: CatalogResource, deliveries: Deliveries, lake: SparkLake
    ) -> dg.MaterializeResult:
        def write(spark: SparkSession) -> None:
            if table.monthly:
                load_month(spark, table, deliveries.folder, month_of(context.run))
            else:
                load_all(spark, table, deliveries.folder)

        return written(context, catalog, lake, table, write)

    return delivered


bronze_assets = [_build(table) for table in DELIVERED]
