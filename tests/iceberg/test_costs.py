"""What reads and writes of tables cost: files written and read, transactions, and bytes sent.  Counted, not timed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import msgspec
import pytest

from nessie_ops.catalog import Change, IcebergCatalog
from nessie_ops.catalog.requests import CreateTable
from nessie_ops.model import ContentKey
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from tests.iceberg.helpers import SCHEMA, Json, create

DB = ContentKey.of("db")
MANY = 1000
LOGS = ("snapshot-log", "metadata-log")
BYTES_PER_LOG_ENTRY = 80


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path}/catalog.db")
    yield store
    store.close()


class TestWrites:
    def test_of_create_and_commit(self, store: Store, tmp_path: Path) -> None:
        """One file and one transaction each, also of several tables' commit but for a file per table."""
        catalog = IcebergCatalog(VersionStore(store), f"{tmp_path}/warehouse")
        catalog.namespaces.create("main", DB, {})
        transactions: list[bool] = []

        def watch(_connection: sqlite3.Connection, statement: str) -> None:
            if statement == "COMMIT":
                transactions.append(True)

        store.dialect.on_statement = watch

        def spent() -> tuple[int, int]:
            count = len(transactions), sum(1 for path in (tmp_path / "warehouse").rglob("*") if path.is_file())
            transactions.clear()
            return count

        catalog.tables.create("main", DB, CreateTable(name="t", schema=SCHEMA))
        assert spent() == (1, 1)
        catalog.tables.commit("main", [changed("t")])
        assert spent() == (1, 2)
        catalog.tables.create("main", DB, CreateTable(name="u", schema=SCHEMA))
        catalog.tables.commit("main", [changed("t"), changed("u")])
        assert spent() == (2, 5)
        catalog.tables.create("main", DB, CreateTable(name="s", schema=SCHEMA, stage_create=True))
        catalog.tables.commit("main", [Change(DB.child("t"), [], [])])
        catalog.tables.load("main", DB.child("t"))
        assert spent() == (0, 5)


def changed(name: str) -> Change:
    return Change(DB.child(name), [], [{"action": "set-properties", "updates": {"a": str(uuid4())}}])


class TestReads:
    def test_of_branches_and_tags_alone(self, http: httpx.Client, db: str) -> None:
        """As many bytes at the 2nd and at the 1,000th snapshot, but for the log of what was current when.

        Iceberg wants that log whole: it is what clients look times up in.
        """
        few, many = (self._load_refs(http, db, count) for count in (2, MANY))
        assert [len(answer["metadata"]["snapshots"]) for answer in (few, many)] == [1, 1]
        assert [len(answer["metadata"]["snapshot-log"]) for answer in (few, many)] == [2, MANY]
        sizes = [size_without(answer) for answer in (few, many)]
        assert sizes[1] - sizes[0] < 10, "only numbers that have more digits"
        assert len(msgspec.json.encode(many)) - sizes[1] < BYTES_PER_LOG_ENTRY * MANY

    def _load_refs(self, http: httpx.Client, db: str, count: int) -> Json:
        answer = http.get(f"{register(http, db, count)}?snapshots=refs")
        assert answer.headers["content-encoding"] == "gzip" if count == MANY else answer.status_code == 200
        loaded: Json = answer.json()
        return loaded

    @pytest.mark.parametrize("snapshots", ["all", "refs"])
    def test_metadata_is_read_once(self, http: httpx.Client, db: str, snapshots: str) -> None:
        path = f"{register(http, db, 10)}?snapshots={snapshots}"
        first = http.get(path).json()
        for file in Path(urlsplit(first["metadata-location"]).path).parent.iterdir():
            file.unlink()  # it never changes, so what was read stays true
        assert http.get(path).json() == first


def size_without(answer: Json) -> int:
    rest = {name: value for name, value in answer["metadata"].items() if name not in LOGS}
    return len(msgspec.json.encode(rest))


def register(http: httpx.Client, db: str, count: int) -> str:
    """The path of a table with `count` snapshots in a row, of which the last is current."""
    name = f"t{count:04d}"
    base = create(http, db, f"base-of-{name}")
    metadata = {**base["metadata"], **history(count, base["metadata"]["location"])}
    location = f"{metadata['location']}/metadata/{count:05d}-{uuid4()}.metadata.json"
    Path(urlsplit(location).path).write_bytes(msgspec.json.encode(metadata))
    answer = http.post(f"{db}/register", json={"name": name, "metadata-location": location})
    assert answer.status_code == 200, answer.text
    return f"{db}/tables/{name}"


def history(count: int, location: str) -> dict[str, Any]:
    ids = [10**18 + number for number in range(count)]
    snapshots = [
        {
            "snapshot-id": snapshot_id,
            **({"parent-snapshot-id": ids[number - 1]} if number else {}),
            "sequence-number": number + 1,
            "timestamp-ms": 1_700_000_000_000 + number,
            "manifest-list": f"{location}/metadata/snap-{snapshot_id}-1-{uuid4()}.avro",
            "summary": {"operation": "append", "added-data-files": "1", "total-records": "1000"},
            "schema-id": 0,
        }
        for number, snapshot_id in enumerate(ids)
    ]
    log = [{"snapshot-id": row["snapshot-id"], "timestamp-ms": row["timestamp-ms"]} for row in snapshots]
    return {
        "snapshots": snapshots,
        "snapshot-log": log,
        "current-snapshot-id": ids[-1],
        "refs": {"main": {"snapshot-id": ids[-1], "type": "branch"}},
        "last-sequence-number": count,
        "last-updated-ms": log[-1]["timestamp-ms"],
    }
