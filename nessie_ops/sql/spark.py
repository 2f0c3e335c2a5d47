"""NessieSession: statements about branches, tags and transactions beside Spark's own SQL, on one reference at a time.

Invariant: the catalog of the Spark session is at the reference of the NessieSession.  Spark makes a catalog once, from
the settings of its session, so for another reference they are changed and Spark is made to forget its catalogs; by
Spark Connect that is not to be had, and a clone of the session takes its place.
Knows no table: what Spark reads and writes is between Spark and the server.
"""

from __future__ import annotations

import re
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType, TimestampType
from pyspark.sql.utils import is_remote

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model.transactions import DEFAULT_LEASE_S
from nessie_ops.sql.lease import Lease
from nessie_ops.sql.parsing import is_statement, parse
from nessie_ops.sql.session import Result, SqlSession
from nessie_ops.sql.splitting import isolate, split
from nessie_ops.sql.statements import Statement

_TYPES: dict[str, DataType] = {
    "authorTime": TimestampType(),
    "committerTime": TimestampType(),
    "properties": MapType(StringType(), StringType()),
}
_GAP = r"(?>\s+|--[^\n]*+|/\*.*?\*/)"
_COMPOUND = re.compile(rf"{_GAP}*+(?:\w+\s*:\s*)?BEGIN\b", re.IGNORECASE | re.DOTALL)  # a script of Spark's
_ADDRESS = re.compile(r"(?P<base>https?://.+?)/iceberg(?:/(?P<ref>[^/]+))?/?")


class NessieSession:
    """`NessieSession(spark, "lake").sql("USE BRANCH dev")`; what follows reads and writes on `dev`.

    For one thread at a time, as its Spark session is.  As a context manager it is closed at the end.
    """

    def __init__(self, spark: SparkSession, catalog: str, *, lease_seconds: int = DEFAULT_LEASE_S) -> None:
        """`catalog` is the name of an Iceberg REST catalog of `spark` whose `uri` is our server's; BadRequest.

        From now on `spark` keeps no table of it in memory between statements.  By Spark Connect, what is not SQL goes
        through the attribute `spark`, which is another session after each change of the reference.  The lease of a
        transaction is `lease_seconds`, and renewed while this process works in it.
        """
        self.spark, self.catalog = spark, catalog
        self._settings = f"spark.sql.catalog.{catalog}"
        uri = spark.conf.get(f"{self._settings}.uri", None) or ""
        place = _ADDRESS.fullmatch(uri)
        if not place:
            raise BadRequest(f"{self._settings}.uri must be like http://host:19120/iceberg/main, and is '{uri}'.")
        self._base = place["base"]
        self._client = NessieClient(self._base)
        self._session = SqlSession(
            self._client, ref=unquote(place["ref"] or ""), catalog=catalog, lease_seconds=lease_seconds
        )
        self._lease_seconds = lease_seconds
        self._lease: Lease | None = None
        self._shown = ""  # the reference that Spark's catalog is at
        self._follow()

    @property
    def ref(self) -> str:
        """The reference in use: a name, or a name with a commit."""
        return self._session.ref

    def sql(self, text: str, args: dict[str, Any] | list[Any] | None = None, **kwargs: Any) -> DataFrame:
        """What the last statement of a text answers; `;` separates.  Those that are not ours are Spark's, as is a text
        that begins with BEGIN.

        They are carried out in order, up to the first that fails; none when one of ours cannot be read.  `args` and
        `kwargs` are for Spark's, as `spark.sql` has them.
        """
        self._follow()
        parts = [(begin, end, is_statement(text[begin:end])) for begin, end in split(text)]
        if _COMPOUND.match(text) or not parts:
            return self.spark.sql(text, args, **kwargs)
        steps = [parse(isolate(text, begin, end)) if ours else text[begin:end] for begin, end, ours in parts]
        answer: DataFrame | None = None
        for step in steps:
            answer = self.spark.sql(step, args, **kwargs) if isinstance(step, str) else self._execute(*step)
        assert answer is not None  # there is a part
        return answer

    def close(self) -> None:
        """Roll back a transaction that is open, and end the connections to the server; Spark goes on."""
        self._session.close()
        self._keep_lease()
        try:
            self._follow()
        finally:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _execute(self, statement: Statement) -> DataFrame:
        try:
            result = self._session.execute(statement)
        finally:
            self._keep_lease()
            self._follow()
        return self._to_frame(result)

    def _keep_lease(self) -> None:
        """Renew the lease of the transaction that is open now, if there is one."""
        open = self._session.transaction
        if open and self._lease is None:
            self._lease = Lease(self._client, open.id, self._lease_seconds)
            weakref.finalize(self, self._lease.end)
        elif open is None and self._lease:
            self._lease.end()
            self._lease = None

    def _follow(self) -> None:
        """Let Spark's catalog be at the session's reference, with the same current catalog and namespace."""
        ref = self._session.ref
        if ref == self._shown:
            return
        catalog, namespace = self.spark.sql("SELECT current_catalog(), current_schema()").collect()[0]
        self._forget_catalogs(f"{self._base}/iceberg/{quote(ref, safe='')}")
        self.spark.sql(f"USE {_quote(catalog)}")
        if namespace:
            with suppress(PySparkException):  # the namespace need not be on the other reference
                self.spark.sql(f"USE {_quote(catalog)}.{namespace}")  # which Spark has quoted
        self._shown = ref

    def _forget_catalogs(self, uri: str) -> None:
        """Let Spark make its catalogs anew when it uses them next, ours from `uri`."""
        spark: Any = self.spark
        if is_remote():
            self.spark = spark = spark.cloneSession()  # with all but the catalogs
        else:
            spark._jsparkSession.sessionState().catalogManager().reset()
        spark.conf.set(f"{self._settings}.uri", uri)
        spark.conf.set(f"{self._settings}.cache-enabled", "false")

    def _to_frame(self, result: Result) -> DataFrame:
        fields = [StructField(name, _TYPES.get(name, StringType())) for name in result.columns]
        rows: list[Any] = result.rows
        return self.spark.createDataFrame(rows, StructType(fields))


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
