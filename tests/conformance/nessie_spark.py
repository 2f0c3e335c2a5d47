"""A program: Spark 3.5 with Nessie's own SQL extensions, which carries out a statement per line of its input.

It runs on a PySpark other than the project's, and so imports nothing of it.  Its argument is JSON: the settings of
Spark.  A line in is a statement as JSON text; a line out is the answer as JSON: columns with their types, and rows, or
the error's text.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def answer(spark: SparkSession, statement: str) -> dict[str, Any]:
    """Carry out one statement."""
    try:
        found = spark.sql(statement)
        return {"columns": found.dtypes, "rows": [list(row) for row in found.collect()]}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    spark = SparkSession.builder.config(map=json.loads(sys.argv[1])).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line)), default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
