"""Silver assets: the month's flights cleaned, and joined with the weather, on the run's branch."""

import dagster as dg

from assets.runs import key_of, month_of
from assets.tables import table_asset, written
from assets.transforms.silver import replace_flights_weather, upsert_flights
from assets.transforms.tables import AIRPORTS, CLEAN_FLIGHTS, FLIGHTS, FLIGHTS_WEATHER, WEATHER
from resources.catalog import CatalogResource
from resources.spark import SparkLake


@table_asset(CLEAN_FLIGHTS, [key_of(FLIGHTS), key_of(AIRPORTS)])
def silver_flights(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    month = month_of(context.run)
    return written(context, catalog, lake, CLEAN_FLIGHTS, lambda spark: upsert_flights(spark, month))


@table_asset(FLIGHTS_WEATHER, [key_of(CLEAN_FLIGHTS), key_of(WEATHER)])
def silver_flights_weather(
    context: dg.AssetExecutionContext, catalog: CatalogResource, lake: SparkLake
) -> dg.MaterializeResult:
    month = month_of(context.run)
    return written(context, catalog, lake, FLIGHTS_WEATHER, lambda spark: replace_flights_weather(spark, month))


silver_assets = [silver_flights, silver_flights_weather]
