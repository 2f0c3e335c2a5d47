"""What a statement of Spark SQL gave."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession


def rows(spark: SparkSession, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]


def one(spark: SparkSession, statement: str) -> Row:
    return spark.sql(statement).collect()[0]


def column(spark: SparkSession, statement: str) -> list[object]:
    """The first column of all rows."""
    return [row[0] for row in spark.sql(statement).collect()]


def error_of(spark: SparkSession, statement: str) -> str:
    with pytest.raises(Exception) as caught:
        spark.sql(statement).collect()
    return str(caught.value)
