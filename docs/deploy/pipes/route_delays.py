"""A job for spark-submit: writes gold.route_delays on the run's branch, and reports what it wrote and checked.

Needs PySpark and dagster-pipes where it runs, nothing of this project.  Context and messages are found through the
environment, or through the arguments that Databricks, EMR and others hand over.
"""

from dagster_pipes import PipesContext, open_dagster_pipes
from pyspark.sql import SparkSession

COLUMNS = "year INT, month INT, origin STRING, dest STRING, flights BIGINT, arr_delay_sum_min BIGINT"


def write(spark: SparkSession, table: str, year: int, month: int) -> None:
    """Replace the month's partition of `table` by one row for each route."""
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {table} ({COLUMNS}) USING iceberg PARTITIONED BY (year, month) "
        "TBLPROPERTIES ('format-version'='2', 'write.metadata.delete-after-commit.enabled'='false')"
    )
    spark.sql(
        f"INSERT OVERWRITE {table} PARTITION (year = {year}, month = {month}) "
        "SELECT origin, dest, count(*), coalesce(sum(arr_delay_min), 0) FROM silver.flights "
        f"WHERE year = {year} AND month = {month} GROUP BY origin, dest"
    )


def main(pipes: PipesContext) -> None:
    table, (year, month) = pipes.extras["table"], map(int, pipes.extras["month"].split("-"))
    spark = SparkSession.builder.config(map=pipes.extras["spark_conf"]).getOrCreate()
    spark.sql(f"USE {pipes.extras['alias']}")
    write(spark, table, year, month)
    where = f"year = {year} AND month = {month}"
    [rows] = spark.sql(f"SELECT count(*), coalesce(sum(flights), 0) FROM {table} WHERE {where}").collect()
    [flown] = spark.sql(f"SELECT count(*) FROM silver.flights WHERE {where}").collect()
    [snapshot] = spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()
    pipes.report_asset_materialization(
        {"iceberg/snapshot_id": str(snapshot[0]), "dagster/partition_row_count": rows[0]}
    )
    pipes.report_asset_check(
        "reconciles_with_silver", passed=rows[1] == flown[0], metadata={"bad_rows": abs(rows[1] - flown[0])}
    )
    spark.stop()


if __name__ == "__main__":
    with open_dagster_pipes() as context:
        main(context)
