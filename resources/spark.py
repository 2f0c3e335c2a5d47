"""SparkLake: one Spark per process, one session per reference, so that an asset names tables and no branch.

Where Spark runs is the environment's decision and changes no asset:

    NESSIE_OPS_SPARK_MASTER   `local[*]` by default; `spark://host:port`, `yarn`, `k8s://...`: a driver in client mode
    NESSIE_OPS_SPARK_CONF     a JSON object of Spark settings, which win over all others
    SPARK_REMOTE              `sc://host:port`: Spark Connect; its server has the Iceberg jar and extensions

The environment is read, Java found and the jar fetched when the first session is asked for, never at import.
"""

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from dagster_pyspark.resources import spark_session_from_config
from pydantic import Field
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from nessie_ops.errors import BadRequest
from nessie_ops.runtime import jvm
from nessie_ops.runtime.cds import archive_options
from nessie_ops.runtime.jars import ensure_jar
from nessie_ops.runtime.java import find_java
from resources.catalog import CatalogResource
from resources.interrupts import cancellable, signals_kept

DEFAULT_ALIAS = "lake"
_SESSION_SETTINGS = {"spark.sql.session.timeZone": "UTC"}  # times are stored and compared in UTC alone

_lock = threading.Lock()
_sessions: dict[int, SparkSession] = {}  # the first session of a process, by its id


def spark_config() -> dict[str, str]:
    """The settings with which the environment wants Spark started.

    Fetches the Iceberg jar when it is not in the cache.  Raises BadRequest when NESSIE_OPS_SPARK_CONF is no JSON
    object, MachineNotReady when Java or the jar is missing.
    """
    if remote := os.environ.get("SPARK_REMOTE"):
        return {"spark.remote": remote, **_SESSION_SETTINGS, **_overrides()}
    master, jar = _master(), ensure_jar()
    settings = jvm.local_settings(jar, archive_options(find_java(), jar)) if _is_local() else jvm.cluster_settings(jar)
    return {"spark.master": master, "spark.app.name": "nessie-ops", **settings, **_SESSION_SETTINGS, **_overrides()}


class EnvironmentSpark(LazyPySparkResource):
    """dagster-pyspark's lazy resource, whose settings are those of the environment; `spark_config` adds to them."""

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> SparkSession:
        """The first session of this process's Spark, which is started if need be."""
        with _lock, signals_kept():
            if os.getpid() not in _sessions:
                if "SPARK_REMOTE" not in os.environ:
                    os.environ.update(jvm.environment(find_java(), is_local=_is_local()))
                settings = {**spark_config(), **self.spark_config}
                _sessions[os.getpid()] = spark_session_from_config(settings)  # type: ignore[no-untyped-call]
            return _sessions[os.getpid()]


class SparkLake(dg.ConfigurableResource):
    """Spark on the tables of the catalog: `with lake.session(branch) as spark: spark.table("gold.delays")`."""

    pyspark: EnvironmentSpark
    catalog: CatalogResource

    @contextmanager
    def session(self, ref: str, alias: str = DEFAULT_ALIAS) -> Iterator[SparkSession]:
        """A session whose tables are those of the reference `ref`, named without it or as `alias.namespace.table`.

        A request to terminate the run cancels the session's work at once and makes the block end with
        DagsterExecutionInterruptedError; the session's process stays usable.
        """
        spark: SparkSession | None = None

        def cancel() -> None:
            if spark is not None:
                _cancel(spark)

        with cancellable(cancel) as is_interrupted:
            spark = self._open(ref, alias)
            try:
                if not is_interrupted():
                    yield spark
            finally:
                _close(spark)

    def _open(self, ref: str, alias: str) -> SparkSession:
        spark = _new_session(self.pyspark.spark_session)
        for key, value in self.catalog.spark_conf(alias, ref).items():
            spark.conf.set(key, value)
        spark.sql(f"USE {alias}")
        return spark


def _new_session(first: SparkSession) -> SparkSession:
    if not is_remote():
        return first.newSession()
    builder = type(first).builder.config(map={**_SESSION_SETTINGS, **_overrides()})
    session: SparkSession = builder.remote(os.environ["SPARK_REMOTE"]).create()
    return session


def _cancel(spark: SparkSession) -> None:
    if is_remote():
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def _close(spark: SparkSession) -> None:
    """Give a Connect server its memory back; a session of a driver is only settings."""
    if is_remote():
        with suppress(Exception):  # the server forgets an idle session by itself
            spark.stop()


def _master() -> str:
    return os.environ.get("NESSIE_OPS_SPARK_MASTER") or "local[*]"


def _is_local() -> bool:
    """Whether the driver is the whole of Spark; `local-cluster[...]` starts executors of its own."""
    return re.match(r"local(\[|$)", _master()) is not None


def _overrides() -> dict[str, str]:
    text = os.environ.get("NESSIE_OPS_SPARK_CONF") or "{}"
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise BadRequest(f"NESSIE_OPS_SPARK_CONF is not JSON: {error}") from error
    if not isinstance(settings, dict) or any(isinstance(value, dict | list | None) for value in settings.values()):
        raise BadRequest('NESSIE_OPS_SPARK_CONF must be a JSON object of plain values: {"spark.driver.memory": "4g"}')
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}


def _forget_parent() -> None:
    """In a forked child: PySpark would go on talking to the parent's JVM, on the sockets that the parent reads."""
    global _lock
    _lock = threading.Lock()
    context: Any = SparkContext
    if context._gateway is not None:
        client = context._gateway._gateway_client
        client.is_connected = False  # else the JVM drops objects of the parent when Python collects their copies here
        client.deque.clear()
    context._gateway = context._jvm = context._active_spark_context = None
    session: Any = SparkSession
    session._instantiatedSession = None


os.register_at_fork(after_in_child=_forget_parent)
