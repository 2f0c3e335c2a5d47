"""SparkLake: one Spark per process, one session per reference, so that an asset names tables and no branch.

Where Spark runs is the environment's decision and changes no asset:

    NESSIE_OPS_SPARK_MASTER   `local[*]` by default; `spark://host:port`, `yarn`, `k8s://...`: a driver in client mode
    NESSIE_OPS_SPARK_CONF     a JSON object of Spark settings, which win over all others
    NESSIE_OPS_SPARK_S3       `true`: with the AWS libraries also when the catalog is not on S3
    SPARK_REMOTE              `sc://host:port`: Spark Connect; its server has the Iceberg jar and extensions

The environment is read, Java found and jars fetched when the first session is asked for, never at import.
"""

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from dagster_pyspark.resources import spark_session_from_config
from pydantic import Field
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from nessie_ops.catalog.stores import parse_switch
from nessie_ops.errors import BadRequest
from nessie_ops.runtime import jvm
from nessie_ops.runtime.cds import archive_options
from nessie_ops.runtime.jars import ICEBERG_AWS, ensure_jar
from nessie_ops.runtime.java import find_java
from resources.catalog import CatalogResource
from resources.interrupts import cancellable, signals_kept

DEFAULT_ALIAS = "lake"
NOTHING: Mapping[str, str] = MappingProxyType({})
_PROPERTY_HEADER = "Nessie-Commit-Property-"  # of requests: what the catalog's server puts into the commit
_SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."  # what Iceberg puts into the summaries of snapshots
_SESSION_SETTINGS = {"spark.sql.session.timeZone": "UTC"}  # times are stored and compared in UTC alone

_lock = threading.Lock()
_sessions: dict[int, SparkSession] = {}  # the first session of a process, by its id


def spark_config(further: Sequence[Path] = ()) -> dict[str, str]:
    """The settings with which the environment wants Spark started; a cluster also gets the jars `further`.

    Fetches the Iceberg jar when it is not in the cache.  Raises BadRequest when NESSIE_OPS_SPARK_CONF is no JSON
    object, MachineNotReady when Java or the jar is missing.
    """
    if remote := os.environ.get("SPARK_REMOTE"):
        return {"spark.remote": remote, **_SESSION_SETTINGS, **_overrides()}
    jar = ensure_jar()
    if _is_local():
        settings = jvm.local_settings(jar, archive_options(find_java(), jar))
    else:
        settings = jvm.cluster_settings(jar, *further)
    names = {"spark.master": _master(), "spark.app.name": "nessie-ops"}
    return {**names, **settings, **_SESSION_SETTINGS, **_overrides()}


class EnvironmentSpark(LazyPySparkResource):
    """dagster-pyspark's lazy resource, whose settings are those of the environment; `spark_config` adds to them."""

    spark_config: dict[str, Any] = Field(default_factory=dict)

    @property
    def spark_session(self) -> SparkSession:
        """The first session of this process's Spark, which is started if need be."""
        return self.start(lambda: False)

    def start(self, is_on_s3: Callable[[], bool]) -> SparkSession:
        """The same; a Spark that is started now can use S3 if `is_on_s3` or the environment says so."""
        with _lock, signals_kept():
            if os.getpid() not in _sessions:
                further: list[Path] = []
                if "SPARK_REMOTE" not in os.environ:
                    further = [ensure_jar(ICEBERG_AWS)] if _is_s3_wanted() or is_on_s3() else []
                    last = further if _is_local() else ()
                    os.environ.update(jvm.environment(find_java(), is_local=_is_local(), last=last))
                settings = {**spark_config(further), **self.spark_config}
                _sessions[os.getpid()] = spark_session_from_config(settings)  # type: ignore[no-untyped-call]
            return _sessions[os.getpid()]


class SparkLake(dg.ConfigurableResource):
    """Spark on the tables of the catalog: `with lake.session(branch) as spark: spark.table("gold.delays")`."""

    pyspark: EnvironmentSpark
    catalog: CatalogResource

    @contextmanager
    def session(
        self, ref: str, alias: str = DEFAULT_ALIAS, properties: Mapping[str, str] = NOTHING
    ) -> Iterator[SparkSession]:
        """A session whose tables are those of the reference `ref`, named without it or as `alias.namespace.table`.

        What it writes carries `properties`, in its commits and in the summaries of its snapshots: ASCII text, names
        in lower case.
        A request to terminate the run cancels the session's work at once and makes the block end with
        DagsterExecutionInterruptedError; the session's process stays usable.
        """
        spark: SparkSession | None = None

        def cancel() -> None:
            if spark is not None:
                _cancel(spark)

        with cancellable(cancel) as is_interrupted:
            spark = self._open(ref, alias, properties)
            try:
                if not is_interrupted():
                    yield spark
            finally:
                _close(spark)

    def _open(self, ref: str, alias: str, properties: Mapping[str, str]) -> SparkSession:
        spark = _new_session(self.pyspark.start(self.catalog.is_on_s3))
        settings = self.catalog.spark_conf(alias, ref)
        for name, value in properties.items():
            settings[f"spark.sql.catalog.{alias}.header.{_PROPERTY_HEADER}{name}"] = value
            settings[f"{_SNAPSHOT_PROPERTY}{name}"] = value
        for key, value in settings.items():
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


def _is_s3_wanted() -> bool:
    return parse_switch(os.environ.get("NESSIE_OPS_SPARK_S3", ""), "NESSIE_OPS_SPARK_S3")


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
