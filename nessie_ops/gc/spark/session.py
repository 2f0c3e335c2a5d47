"""Finding or starting the Spark that a sweep runs on.

The first that is given counts: a master by name, `NESSIE_OPS_SPARK_MASTER`, `SPARK_REMOTE` (Spark Connect), the
spark-defaults.conf of `SPARK_CONF_DIR`, else `local[*]`, for which Java is found.  A process that has a Spark uses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nessie_ops.errors import BadRequest, MachineNotReady
from nessie_ops.gc.spark.engine import SparkEngine
from nessie_ops.gc.spark.workers import Opener
from nessie_ops.runtime import jvm
from nessie_ops.runtime.java import find_java


def parse_settings(texts: Sequence[str]) -> dict[str, str]:
    """Spark settings of `name=value` texts; BadRequest."""
    pairs = dict(text.partition("=")[::2] for text in texts)
    for name, value in pairs.items():
        if not (name.startswith("spark.") and value):
            raise BadRequest(f"spark-conf: '{name[:60]}' is no setting; give spark.NAME=VALUE, each by its own option.")
    return pairs


def find_master(given: str, env: Mapping[str, str] = os.environ) -> str:
    """The master; empty when Spark's own settings say it."""
    found = given or env.get("NESSIE_OPS_SPARK_MASTER", "") or env.get("SPARK_REMOTE", "")
    return found or ("" if _has_defaults(env) else "local[*]")


@contextmanager
def open_engine(opener: Opener, master: str, settings: Mapping[str, str]) -> Iterator[SparkEngine]:
    """An engine on the Spark of this process, or on one that is started and ends with it.  MachineNotReady."""
    context: Any = SparkContext
    is_ours = context._active_spark_context is None
    try:
        spark = _start(find_master(master), settings) if is_ours else SparkSession.builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise MachineNotReady(f"Spark does not start: {str(error).strip()[:500]}") from error
    engine = SparkEngine(spark, opener)
    try:
        yield engine
    finally:
        engine.close()
        if is_ours:
            spark.stop()


def _has_defaults(env: Mapping[str, str]) -> bool:
    folder = env.get("SPARK_CONF_DIR", "")
    return bool(folder) and Path(folder, "spark-defaults.conf").is_file()


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    if master.startswith("sc://"):
        return SparkSession.builder.config(map={**settings}).remote(master).getOrCreate()
    is_local = re.match(r"local(\[|$)", master) is not None
    variables = jvm.environment(find_java(), is_local=is_local)
    if _has_defaults(os.environ):
        variables.pop("SPARK_CONF_DIR", None)
    os.environ.update(variables)
    named = {"spark.master": master} if master else {}
    every: dict[str, Any] = {
        "spark.app.name": "nessie-ops gc",
        **jvm.plain_settings(is_local=is_local),
        **named,
        **settings,
    }
    return SparkSession.builder.config(map=every).getOrCreate()
