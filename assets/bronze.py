"""Bronze assets: each delivered file as a table, monthly ones by month, on the run's branch."""

import dagster as dg

from assets.branch import run_branch
from assets.runs import month_of, opened_branch_of
from assets.tables import materialized, table_asset
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
        with lake.session(opened_branch_of(context.run, catalog.client)) as spark:
            if table.monthly:
                load_month(spark, table, deliveries.folder, month_of(context.run))
            else:
                load_all(spark, table, deliveries.folder)
            return materialized(context, catalog, spark, table)

    return delivered


bronze_assets = [_build(table) for table in DELIVERED]
