"""NessieSession: statements about branches, tags and transactions beside Spark's own SQL, on one reference at a time.

Spark keeps a catalog as it was configured first, so another reference is another session of the same Spark: with the
same settings and current namespace, but for the catalog's address.  Temporary views stay behind with the old session;
global ones (`global_temp`) are seen by all.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType, TimestampType

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.sql.parsing import is_statement
from nessie_ops.sql.session import Result, SqlSession

_TYPES: dict[str, DataType] = {
    "authorTime": TimestampType(),
    "committerTime": TimestampType(),
    "properties": MapType(StringType(), StringType()),
}
_ROOT = "/iceberg"


class NessieSession:
    """`NessieSession(spark, "lake").sql("USE BRANCH dev")`; what follows reads and writes on `dev`."""

    def __init__(self, spark: SparkSession, catalog: str) -> None:
        """`catalog` is the name of an Iceberg REST catalog of `spark` whose `uri` is our server's; BadRequest."""
        self.catalog = catalog
        self._setting = f"spark.sql.catalog.{catalog}.uri"
        uri = spark.conf.get(self._setting, None)
        if not uri or _ROOT not in uri:
            raise BadRequest(f"{self._setting} must be the address of a nessie-ops server, such as .../iceberg/main.")
        base, _, ref = uri.partition(_ROOT)
        self._base = base
        self._client = NessieClient(base)
        self._session = SqlSession(self._client, ref=unquote(ref.strip("/")), catalog=catalog)
        self._spark, self._ref = spark, self._session.ref

    @property
    def spark(self) -> SparkSession:
        """The session of the reference in use, for everything that is not SQL."""
        return self._spark

    @property
    def ref(self) -> str:
        """The reference in use: a name, or a name with a commit."""
        return self._ref

    def sql(self, text: str) -> DataFrame:
        """What the last statement of ours in `text` answers; a text that begins as no such statement is Spark's."""
        if not is_statement(text):
            return self._spark.sql(text)
        results = self._session.sql(text)
        if self._session.ref != self._ref:
            self._spark, self._ref = self._open(self._session.ref), self._session.ref
        return self._to_frame(results[-1])

    def close(self) -> None:
        """Close the connections to the server; Spark goes on."""
        self._client.close()

    def _open(self, ref: str) -> SparkSession:
        spark = self._spark.newSession()
        for name, value in self._spark.conf.getAll.items():
            if spark.conf.isModifiable(name) or name.startswith("spark.sql.catalog."):
                with suppress(PySparkException):  # a setting that Spark takes at its start alone
                    spark.conf.set(name, value)
        spark.conf.set(self._setting, f"{self._base}{_ROOT}/{quote(ref, safe='')}")
        namespace = [part for part in self._spark.catalog.currentDatabase().split(".") if part]
        catalog = self._spark.catalog.currentCatalog()
        spark.sql(f"USE {_quote([catalog])}")  # in SQL: the catalog's methods act on the thread's active session
        if namespace:
            with suppress(PySparkException):  # the namespace need not be on the other reference
                spark.sql(f"USE {_quote([catalog, *namespace])}")
        return spark

    def _to_frame(self, result: Result) -> DataFrame:
        fields = [StructField(name, _TYPES.get(name, StringType())) for name in result.columns]
        rows: list[Any] = result.rows
        return self._spark.createDataFrame(rows, StructType(fields))


def _quote(parts: list[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)
