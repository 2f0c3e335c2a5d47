"""Reads the heads of references over one connection that is kept for it: the query that every request begins with.

`Heads` waits for the answer.  `WatchedHeads` is for an event loop, which does something else meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Engine, PoolProxiedConnection

from nessie_ops.store import rows
from nessie_ops.store.dialects import Dialect, Verdict
from nessie_ops.store.forks import gate
from nessie_ops.store.libpq import Query
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


class WatchedHeads:
    """A query under way at most, on PostgreSQL; the event loop calls `receive` when `fileno` can be read.

    After an error call `close`; `connect` begins anew.  Errors are the driver's.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._query: Query | None = None

    @property
    def fileno(self) -> int | None:
        """None while there is no connection."""
        return self._query.fileno if self._query else None

    def connect(self) -> None:
        """Open the connection; waits for it."""
        with gate.transaction():
            connection = self._engine.raw_connection()
            raw: Any = connection.driver_connection
            connection.detach()
            raw.autocommit = True
            self._query = Query(raw, rows.SELECT_REFERENCES_ANY)

    def send(self, names: Sequence[str]) -> None:
        """Ask for references by name."""
        assert self._query
        self._query.send([name for name in names if rows.storable(name)])

    def receive(self) -> dict[str, ReferenceRecord] | None:
        """Those that exist, by name; None while the answer has not come."""
        found = self._query.receive() if self._query else None
        return None if found is None else {row[0]: ReferenceRecord(*row) for row in found}

    def close(self) -> None:
        query, self._query = self._query, None
        if query:
            query.close()
