"""Iceberg tables as a client of the REST catalog knows them, and the requests that create, load and append to them.

An append says what Spark's would: a snapshot with its summary, and that nobody wrote in between.  No data is written,
as neither server reads any.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.load import Connection, request
from benchmarks.nessie import WrongAnswer, expect

PREFIX = "/iceberg/v1/main"
FIRST_SNAPSHOT = 10**18  # as long as real ones
_TYPES = ("long", "string", "double", "timestamp", "date")
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": n, "name": f"column_{n}", "required": False, "type": _TYPES[n % 5]} for n in range(1, 16)],
}
_LOCATION = re.compile(rb'"location"\s*:\s*"([^"]+)"')
_UUID = re.compile(rb'"table-uuid"\s*:\s*"([^"]+)"')


@dataclass
class Table:
    """A table, and how many snapshots it has."""

    namespace: str
    name: str
    location: str
    uuid: str
    snapshots: int = 0

    @property
    def path(self) -> str:
        return f"{PREFIX}/namespaces/{self.namespace}/tables/{self.name}"

    def append(self) -> dict[str, Any]:
        """The change that adds the next snapshot."""
        parent = FIRST_SNAPSHOT + self.snapshots if self.snapshots else None
        snapshot = {
            "snapshot-id": FIRST_SNAPSHOT + self.snapshots + 1,
            "sequence-number": self.snapshots + 1,
            "timestamp-ms": time.time_ns() // 1_000_000,
            "manifest-list": f"{self.location}/metadata/snap-{self.snapshots:019}-1-{self.uuid}.avro",
            "summary": _summary(self.snapshots),
            "schema-id": 0,
        }
        if parent:
            snapshot["parent-snapshot-id"] = parent
        return {
            "identifier": {"namespace": [self.namespace], "name": self.name},
            "requirements": [
                {"type": "assert-table-uuid", "uuid": self.uuid},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": snapshot["snapshot-id"],
                },
            ],
        }


def _summary(before: int) -> dict[str, str]:
    return {
        "operation": "append",
        "spark.app.id": "local-1795282190357",
        "added-data-files": "2",
        "added-records": "1000",
        "added-files-size": "65536",
        "changed-partition-count": "1",
        "total-records": str(1000 * (before + 1)),
        "total-files-size": str(65536 * (before + 1)),
        "total-data-files": str(2 * (before + 1)),
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
        "engine-name": "spark",
        "iceberg-version": "Apache Iceberg 1.12.0",
    }


def _post(path: str, body: Any) -> bytes:
    return request("POST", path, json.dumps(body, separators=(",", ":")).encode())


async def create_namespace(connection: Connection, name: str) -> None:
    expect(await connection.call(_post(f"{PREFIX}/namespaces", {"namespace": [name]})))


def create_request(namespace: str, name: str) -> bytes:
    body = {"name": name, "schema": SCHEMA, "properties": {}, "stage-create": False}
    return _post(f"{PREFIX}/namespaces/{namespace}/tables", body)


async def create(connection: Connection, namespace: str, name: str) -> Table:
    body = expect(await connection.call(create_request(namespace, name))).body
    location, uuid = _LOCATION.search(body), _UUID.search(body)
    if location is None or uuid is None:
        raise WrongAnswer(f"no table in {body[:500]!r}")
    return Table(namespace, name, location[1].decode(), uuid[1].decode())


def append_request(table: Table) -> bytes:
    return _post(table.path, table.append())


def transaction_request(tables: Sequence[Table]) -> bytes:
    """One append to each table, as one commit."""
    return _post(f"{PREFIX}/transactions/commit", {"table-changes": [table.append() for table in tables]})


def load_request(table: Table, snapshots: str = "all", etag: str = "") -> bytes:
    headers = [f"If-None-Match: {etag}"] if etag else []
    return request("GET", f"{table.path}?snapshots={snapshots}", headers=headers)
