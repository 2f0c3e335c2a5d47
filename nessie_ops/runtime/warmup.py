"""Run small statements of every kind that a pipeline uses, so that their classes get into the archive.

A program: reads Spark's settings as JSON from standard input, works in the folder that is its argument, and ends
after the JVM did, as the JVM writes its archive while it exits.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_STATEMENTS = (
    "CREATE NAMESPACE warm.n",
    "CREATE TABLE warm.n.t (id BIGINT, name STRING, at TIMESTAMP) USING iceberg PARTITIONED BY (month(at))",
    "INSERT INTO warm.n.t SELECT id, string(id), timestamp '2013-01-01 00:00:00' FROM range(100)",
    "MERGE INTO warm.n.t AS t USING (SELECT * FROM warm.n.t WHERE id < 5) AS s ON t.id = s.id"
    " WHEN MATCHED THEN UPDATE SET name = 'x' WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM warm.n.t WHERE id = 7",
    "CREATE OR REPLACE TABLE warm.n.u USING iceberg AS SELECT a.name, count(*) AS n, avg(b.id) AS mean"
    " FROM warm.n.t a JOIN warm.n.t b ON a.id = b.id GROUP BY a.name",
    "SELECT *, row_number() OVER (PARTITION BY name ORDER BY mean) FROM warm.n.u ORDER BY n LIMIT 3",
    "SELECT file_path, record_count FROM warm.n.t.files",
    "DROP TABLE warm.n.u",
)


def main() -> None:
    settings = json.load(sys.stdin) | {
        "spark.sql.catalog.warm": _CATALOG,
        "spark.sql.catalog.warm.type": "hadoop",
        "spark.sql.catalog.warm.warehouse": f"{sys.argv[1]}/warehouse",
        "spark.sql.catalog.rest": _CATALOG,
        "spark.sql.catalog.rest.type": "rest",
        "spark.sql.catalog.rest.uri": "http://127.0.0.1:9",  # refuses; reaching for it loads the client's classes
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate().newSession()
    for statement in _STATEMENTS:
        spark.sql(statement).collect()
    spark.createDataFrame([(1, "a")], "id INT, name STRING").createOrReplaceTempView("rows")
    spark.sql("SELECT * FROM rows").toPandas()
    with contextlib.suppress(Py4JJavaError):
        spark.sql("SHOW NAMESPACES IN rest").collect()
    _exit_jvm(spark)


def _exit_jvm(spark: SparkSession) -> None:
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the gateway's JVM ends with its input
    gateway.proc.wait()


if __name__ == "__main__":
    main()
