"""Tables as metadata alone, in any format version, and updates of them, for tests without files or HTTP."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from nessie_ops.catalog.metadata import new_metadata
from nessie_ops.catalog.requests import CreateTable
from nessie_ops.catalog.tablemetadata import TableMetadata, parse_metadata, serialize_metadata
from nessie_ops.catalog.updates import apply_updates, parse_updates
from nessie_ops.errors import BadRequest

Json = dict[str, Any]
LOCATION = "file:///wh/db/t"
FILE = f"{LOCATION}/metadata/00000-a.metadata.json"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NOW_MS = 1_767_225_600_000
UUID_1 = UUID(int=1)
KEY = {"key-id": "k1", "encrypted-key-metadata": "YWJj", "encrypted-by-id": "k0", "properties": {"a": "b"}}
every_version = pytest.mark.parametrize("version", [1, 2, 3])
"""Runs a test once for each format version."""


def field(number: int, name: str, kind: Any = "long", **extra: Any) -> Json:
    return {"id": number, "name": name, "required": False, "type": kind, **extra}


def schema(*fields: Json, **extra: Any) -> Json:
    return {"type": "struct", "fields": list(fields), **extra}


BASE_SCHEMA = schema(field(1, "id"), field(2, "day", "date"), field(3, "name", "string"))
BY_DAY = {"source-id": 2, "transform": "day", "name": "day_part"}
BY_ID = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def new(version: int = 2, **request: Any) -> TableMetadata:
    body: Json = {"schema": BASE_SCHEMA, "properties": {"format-version": str(version)}, **request}
    return new_metadata(CreateTable(name="t", **body), LOCATION, UUID_1, NOW)


def update(action: str, **names: Any) -> Json:
    return {"action": action, **{name.replace("_", "-"): value for name, value in names.items()}}


def after(base: TableMetadata, *updates: Json) -> TableMetadata:
    """The table as the next reader of its file gets it."""
    changed = apply_updates(base, FILE, parse_updates(updates), NOW_MS)
    assert changed is not None
    return parse_metadata(serialize_metadata(changed), FILE)


def refusal(base: TableMetadata, *updates: Json, error: type[Exception] = BadRequest) -> str:
    before = json.dumps(base.json)
    with pytest.raises(error) as caught:
        after(base, *updates)
    assert json.dumps(base.json) == before
    return str(caught.value)


def snapshot(number: int, parent: int | None = None, **extra: Any) -> Json:
    body = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": NOW_MS + number,
        "manifest-list": f"{LOCATION}/metadata/snap-{number}.avro",
        "summary": {"operation": "append", "added-dvs": "2", "engine-name": "x"},
        "schema-id": 0,
        "first-row-id": 10 * (number - 1),
        "added-rows": 10,
        **({} if parent is None else {"parent-snapshot-id": parent}),
    }
    return {"action": "add-snapshot", "snapshot": {**body, **extra}}


def point(name: str, number: int, kind: str = "branch", **extra: Any) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": number, **extra}


def with_snapshots(version: int, count: int) -> TableMetadata:
    table = new(version)
    for number in range(1, count + 1):
        table = after(table, snapshot(number, number - 1 or None), point("main", number))
    return table
