"""Rows to write, and rows that were read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batch(*ids: int, name: str = "n") -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{name}{i}" for i in ids]}, schema=SCHEMA)


def ids(table: Table, **scan: Any) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


def snapshot_of(table: Table) -> int:
    """The id of the current snapshot."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id
