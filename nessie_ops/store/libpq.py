"""Statements straight to PostgreSQL's client library, all of a list in one round trip.

psycopg opens, pools and closes the connections; its cursors cost several times what these statements do.
Parameters and results are binary, statements are prepared once per connection.  A list is one pipeline: the
first error ends it, and is raised when the connection has answered.
"""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from psycopg import Connection, OperationalError, errors, pq
from psycopg.pq import ExecStatus

MAX_PREPARED = 300  # statements kept per connection; more are prepared anew
_BINARY = pq.Format.BINARY
_BYTEA, _INT8, _TEXT = 17, 20, 25  # object ids of types, constant in all versions
_FAILED = {ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE, ExecStatus.NONFATAL_ERROR}

Statement = tuple[str, Sequence[Any]]

_int8 = struct.Struct("!q")
_array_head = struct.Struct("!iiiii")
_length = struct.Struct("!i")
_prepared: WeakKeyDictionary[Any, dict[str, bytes]] = WeakKeyDictionary()


def run(connection: Connection[Any], statements: Sequence[Statement]) -> list[pq.abc.PGresult]:
    """Run statements with `?` for parameters (bytes, int, str, None, lists of bytes or str); their results in order.

    Raises psycopg's errors; after one, those behind it were not run.
    """
    known = _prepared.setdefault(connection, {})
    if len(known) > MAX_PREPARED:
        known.clear()
    fresh: dict[str, bytes] = {}
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    try:
        expected = []
        for text, parameters in statements:
            name = known.get(text) or fresh.get(text)
            if name is None:
                name = fresh[text] = b"nessie_ops_%d" % (_count.next())
                pgconn.send_prepare(name, _number(text))
                expected.append(False)
            values = [_encode(value) for value in parameters]
            pgconn.send_query_prepared(name, values, [_BINARY] * len(values), result_format=_BINARY)
            expected.append(True)
        pgconn.pipeline_sync()
        results = _receive(pgconn, expected)
    except errors.InvalidSqlStatementName:
        known.clear()  # somebody between here and the server, such as a pooler, has forgotten them
        raise
    finally:
        if pgconn.status == pq.ConnStatus.OK:
            pgconn.exit_pipeline_mode()
    known |= fresh
    return results


def rows_of(result: pq.abc.PGresult) -> list[Sequence[Any]]:
    """The rows of a result: bytes, integers and text."""
    decoders = [_decoder(result.ftype(column)) for column in range(result.nfields)]
    value = result.get_value
    return [
        tuple(None if (raw := value(row, column)) is None else decode(raw) for column, decode in enumerate(decoders))
        for row in range(result.ntuples)
    ]


class Query:
    """One prepared query on a connection of its own, run again and again by an event loop that watches `fileno`."""

    def __init__(self, connection: Connection[Any], text: str) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._name = b"nessie_ops_query"
        result = self._pgconn.prepare(self._name, _number(text))
        if result.status in _FAILED:
            raise errors.error_from_result(result)
        # Our own, since the library closes its socket when it finds the connection lost: the number would then
        # be another file's while the loop still watches it.
        self.fileno = os.dup(self._pgconn.socket)
        self._poll = select.poll()
        self._poll.register(self.fileno, select.POLLIN)
        self._result: pq.abc.PGresult | None = None

    def send(self, *parameters: Any) -> None:
        """Begin; the one before has been received."""
        values = [_encode(value) for value in parameters]
        self._pgconn.send_query_prepared(self._name, values, [_BINARY] * len(values), result_format=_BINARY)
        self._pgconn.flush()

    def receive(self) -> list[Sequence[Any]] | None:
        """The rows; None while they have not all come.  Call it when there is something to read.

        Reads until nothing is left: an event loop tells of an error once, also when there were data before it.
        """
        self._pgconn.flush()
        while True:
            self._pgconn.consume_input()
            rows = self._take()
            if rows is not None or not self._poll.poll(0):
                return rows

    def _take(self) -> list[Sequence[Any]] | None:
        while not self._pgconn.is_busy():
            result = self._pgconn.get_result()
            if result is None:
                done, self._result = self._result, None
                return rows_of(done) if done is not None else None
            if result.status in _FAILED:
                raise errors.error_from_result(result)
            self._result = result
        return None

    def close(self) -> None:
        """Close the connection, which nobody watches any more."""
        os.close(self.fileno)
        self._connection.close()


class _Count:
    """Names of prepared statements, distinct within the process."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        self._last += 1
        return self._last


_count = _Count()


def _number(text: str) -> bytes:
    """`?` as PostgreSQL writes parameters."""
    first, *rest = text.split("?")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(rest, 1))).encode()


def _encode(value: Any) -> bytes | None:
    if value is None or type(value) is bytes:
        return value
    if type(value) is int:
        return _int8.pack(value)
    if isinstance(value, str):
        return value.encode()
    items = [item if type(item) is bytes else item.encode() for item in value]
    kind = _BYTEA if items and items[0] is value[0] else _TEXT
    return _array_head.pack(1, 0, kind, len(items), 1) + b"".join(_length.pack(len(item)) + item for item in items)


def _decoder(type_id: int) -> Callable[[bytes], Any]:
    if type_id == _BYTEA:
        return bytes
    return _decode_int8 if type_id == _INT8 else bytes.decode


def _decode_int8(raw: bytes) -> int:
    value: int = _int8.unpack(raw)[0]
    return value


def _receive(pgconn: pq.abc.PGconn, expected: Sequence[bool]) -> list[pq.abc.PGresult]:
    """Results of the statements sent (true) and not of their preparation (false); raises the first error."""
    results = []
    failure = None
    for is_result in expected:
        while (result := _next(pgconn)) is not None:
            if result.status in _FAILED and failure is None:
                failure = result
            elif is_result:
                results.append(result)
    synced = _next(pgconn)
    if synced is None or synced.status != ExecStatus.PIPELINE_SYNC:
        raise OperationalError("the connection to the database was lost")
    if failure is not None:
        raise errors.error_from_result(failure)
    return results


def _next(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """The next result, waited for."""
    if pgconn.is_busy() or pgconn.flush():
        poll = select.poll()
        while True:
            is_flushed = not pgconn.flush()
            if is_flushed and not pgconn.is_busy():
                break
            poll.register(pgconn.socket, select.POLLIN | (0 if is_flushed else select.POLLOUT))
            poll.poll()
            pgconn.consume_input()
    return pgconn.get_result()
