"""How the driver's JVM is started: environment and Spark settings of the local profile and of a cluster's driver.

The local profile compiles with C1 alone: the work of small jobs is mostly start-up, and it halves their CPU time.
Knows no catalog and starts nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from nessie_ops.runtime.home import create_cache, get_cache
from nessie_ops.runtime.jars import spark_jars
from nessie_ops.runtime.java import Java

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_LOOPBACK = "127.0.0.1"
_LOCAL_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    # With that, Java reserves 48 MB for compiled code; some ten months fill it, and then it stops compiling.
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
)


def local_settings(jar: Path, options: Sequence[str] = ()) -> dict[str, str]:
    """Spark settings of a driver that is the whole of Spark, whose JVM also gets `options`."""
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.extraClassPath": str(jar),
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in (*_LOCAL_OPTIONS, *options)),
        "spark.sql.shuffle.partitions": "4",
        **_common_settings(),
    }


def cluster_settings(*jars: Path) -> dict[str, str]:
    """Spark settings of a driver in client mode; `spark.jars` carries the jars to the executors."""
    names = [str(jar) for jar in jars]
    return {"spark.driver.extraClassPath": ":".join(names), "spark.jars": ",".join(names), **_common_settings()}


def plain_settings(*, is_local: bool) -> dict[str, str]:
    """Spark settings of a driver without tables, for work that is long enough for Java's usual compilers."""
    settings = {"spark.ui.enabled": "false", "spark.sql.catalogImplementation": "in-memory"}
    if is_local:
        settings |= {
            "spark.driver.bindAddress": _LOOPBACK,
            "spark.driver.host": _LOOPBACK,
            "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"',
        }
    return settings


def _common_settings() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": (get_cache() / "spark").as_uri(),  # Spark makes this folder, and nothing uses it
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }


def environment(java: Java, *, is_local: bool, last: Sequence[Path] = ()) -> dict[str, str]:
    """The variables to set before the JVM starts, so that it is PySpark's own Spark on `java`.

    The jars `last` get to the end of the class path, where they may be without harm to the class-data archive.
    """
    variables = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(spark_jars().parent)}
    if last:
        given = os.environ.get("SPARK_DIST_CLASSPATH", "").split(":")
        variables["SPARK_DIST_CLASSPATH"] = ":".join(dict.fromkeys([*map(str, last), *filter(None, given)]))
    if is_local:
        # An empty folder: a spark-env.sh of the machine has no say, and the class path is the same each time.
        empty = create_cache(get_cache(), "conf") / "conf"
        variables |= {
            "SPARK_CONF_DIR": str(empty),
            "SPARK_LOCAL_IP": _LOOPBACK,
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        }
    return variables
