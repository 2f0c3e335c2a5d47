"""Gold assets: the month's aggregates, on the run's branch."""

import dagster as dg

from assets.runs import key_of, month_of
from assets.tables import table_asset, written
from assets.transforms.gold import replace_airport_hourly, replace_carrier_delays
from assets.transforms.tables import AIRLINES, AIRPORT_HOURLY, CARRIER_DELAYS, FLIGHTS_WEATHER
from resources.catalog import CatalogResource
from resources.spark import SparkLake


@table_asset(CARRIER_DELAYS, [key_of(FLIGHTS_WEATHER), key_of(AIRLINES)])
def gold_carrier_delays(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    month = month_of(context.run)
    return written(context, catalog, lake, CARRIER_DELAYS, lambda spark: replace_carrier_delays(spark, month))


@table_asset(AIRPORT_HOURLY, [key_of(FLIGHTS_WEATHER)])
def gold_airport_hourly(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    month = month_of(context.run)
    return written(context, catalog, lake, AIRPORT_HOURLY, lambda spark: replace_airport_hourly(spark, month))


gold_assets = [gold_carrier_delays, gold_airport_hourly]
