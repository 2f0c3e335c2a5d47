"""Bronze: the deliveries as tables, typed and partitioned, otherwise as delivered.

A month is replaced as a whole.  A table that is not monthly is replaced only when its file has changed, so that runs of
different months do not touch it and cannot conflict over it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assets.transforms.deliveries import fingerprint, read_delivery
from assets.transforms.months import Month
from assets.transforms.tables import Table, create_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FINGERPRINT = "nessie-ops.delivery-sha256"  # table property


def load_month(spark: SparkSession, table: Table, source: Path, month: Month) -> None:
    """Make the partition `month` of `table` hold exactly what is delivered."""
    create_table(spark, table)
    spark.createDataFrame(read_delivery(source, table, month)).createOrReplaceTempView("delivery")
    replace_month(spark, table, month, "SELECT * FROM delivery")


def load_all(spark: SparkSession, table: Table, source: Path) -> bool:
    """Make `table` hold exactly what is delivered; False when it held that already and was not written."""
    delivered = fingerprint(source, table)
    create_table(spark, table)
    if _property(spark, table, FINGERPRINT) == delivered:
        return False
    spark.createDataFrame(read_delivery(source, table)).createOrReplaceTempView("delivery")
    spark.sql(f"INSERT OVERWRITE {table.name} SELECT * FROM delivery")
    # Last, so that a killed load is not taken for a finished one.
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('{FINGERPRINT}'='{delivered}')")
    return True


def replace_month(spark: SparkSession, table: Table, month: Month, query: str) -> None:
    """Replace the partition `month` of `table` by the rows of `query`, also by none; no other partition is touched."""
    names = [name for name in table.names if name not in ("year", "month")]
    spark.sql(
        f"INSERT OVERWRITE {table.name} PARTITION (year = {month.year}, month = {month.month}) "
        f"({', '.join(names)}) SELECT {', '.join(names)} FROM ({query})"
    )


def _property(spark: SparkSession, table: Table, name: str) -> str:
    rows = spark.sql(f"SHOW TBLPROPERTIES {table.name}").collect()
    return str({row["key"]: row["value"] for row in rows}.get(name, ""))
