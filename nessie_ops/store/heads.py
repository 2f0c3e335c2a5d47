"""Reads the heads of references over one connection that is kept for it: the query that every request begins with."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, PoolProxiedConnection

from nessie_ops.store import rows
from nessie_ops.store.dialects import Dialect, Verdict
from nessie_ops.store.rows import ReferenceRecord


class Heads:
    """A connection on which each statement is a transaction of its own, opened when it is needed."""

    def __init__(self, engine: Engine, dialect: Dialect) -> None:
        self._engine = engine
        self._dialect = dialect
        self._lock = threading.Lock()
        self._connection: PoolProxiedConnection | None = None
        self._raw: Any = None

    def get(self, names: Sequence[str]) -> dict[str, ReferenceRecord]:
        """Those of these references that exist, by name; errors are the driver's."""
        with self._lock:
            try:
                return self._query(names)
            except self._dialect.errors as error:
                self._close()
                if self._dialect.judge(error) is not Verdict.LOST:
                    raise
            try:  # the server was started anew since the last time
                return self._query(names)
            except self._dialect.errors:
                self._close()
                raise

    def _query(self, names: Sequence[str]) -> dict[str, ReferenceRecord]:
        if self._connection is None:
            self._connection = self._engine.raw_connection()
            self._raw = self._connection.driver_connection
            self._connection.detach()  # not the pool's any more: nobody else sees that it is in another mode
            self._dialect.set_autocommit(self._raw)
        statement = rows.SELECT_REFERENCE if len(names) == 1 else rows.select_references(len(names), "")
        found = self._dialect.fetch(self._raw, statement, names)
        return {row[0]: ReferenceRecord(*row) for row in found}

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        connection, self._connection, self._raw = self._connection, None, None
        if connection is not None:
            connection.close()
