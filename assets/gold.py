"""Gold assets: the month's aggregates, on the run's branch."""

import dagster as dg

from assets.runs import key_of, month_of, opened_branch_of
from assets.tables import materialized, table_asset
from assets.transforms.gold import replace_airport_hourly, replace_carrier_delays
from assets.transforms.tables import AIRLINES, AIRPORT_HOURLY, CARRIER_DELAYS, FLIGHTS_WEATHER
from resources.catalog import CatalogResource
from resources.spark import SparkLake


@table_asset(CARRIER_DELAYS, [key_of(FLIGHTS_WEATHER), key_of(AIRLINES)])
def gold_carrier_delays(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    with lake.session(opened_branch_of(context.run, catalog.client)) as spark:
        replace_carrier_delays(spark, month_of(context.run))
        return materialized(context, catalog, spark, CARRIER_DELAYS)


@table_asset(AIRPORT_HOURLY, [key_of(FLIGHTS_WEATHER)])
def gold_airport_hourly(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    with lake.session(opened_branch_of(context.run, catalog.client)) as spark:
        replace_airport_hourly(spark, month_of(context.run))
        return materialized(context, catalog, spark, AIRPORT_HOURLY)


gold_assets = [gold_carrier_delays, gold_airport_hourly]
