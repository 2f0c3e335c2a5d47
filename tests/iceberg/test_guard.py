"""However a table came to be, no client is told that it may delete files, and no two tables share a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey, IcebergTable, NewCommit, Put
from tests.iceberg.helpers import SCHEMA, Json, create, kind_of, set_properties

GUARDED = {"gc.enabled": "false"}.items()
UNSAFE = [{"gc.enabled": "true"}, {"gc.enabled": "TRUE"}, {"write.metadata.delete-after-commit.enabled": "true"}]
Made = Callable[[], Json]


def staged(http: httpx.Client, db: str, name: str, **fields: object) -> list[Json]:
    """The updates with which a client ends a staged create: what it was told, and nothing of the catalog's own."""
    table = create(http, db, name, **{"stage-create": True}, **fields)["metadata"]
    return [
        {"action": "assign-uuid", "uuid": table["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": 2},
        {"action": "add-schema", "schema": table["schemas"][0], "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": table["location"]},
    ]


def test_every_new_table(http: httpx.Client, db: str, namespace: str) -> None:
    create(http, db, "plain")
    commit = {"requirements": [{"type": "assert-create"}], "updates": staged(http, db, "one")}
    assert http.post(f"{db}/tables/one", json=commit).status_code == 200
    changes = [
        {
            "identifier": {"namespace": [namespace], "name": name},
            "requirements": [{"type": "assert-create"}],
            "updates": staged(http, db, name),
        }
        for name in ("two", "three")
    ]
    assert http.post("/v1/main/transactions/commit", json={"table-changes": changes}).status_code == 204
    tables = [http.get(f"{db}/tables/{name}").json()["metadata"] for name in ("plain", "one", "two", "three")]
    assert all(table["properties"].items() >= GUARDED for table in tables)
    assert len({table["location"] for table in tables}) == 4


@pytest.mark.parametrize("unsafe", UNSAFE, ids=str)
def test_nobody_can_ask_for_it(http: httpx.Client, db: str, table: Json, unsafe: dict[str, str]) -> None:
    body = {"name": "bad", "schema": SCHEMA, "properties": unsafe}
    assert kind_of(http.post(f"{db}/tables", json=body)) == (400, "BadRequestException")
    assert kind_of(http.post(f"{db}/tables", json={**body, "stage-create": True})) == (400, "BadRequestException")
    updates = [*staged(http, db, "bad"), {"action": "set-properties", "updates": unsafe}]
    commit = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert kind_of(http.post(f"{db}/tables/bad", json=commit)) == (400, "BadRequestException")
    assert http.head(f"{db}/tables/bad").status_code == 404
    assert kind_of(http.post(f"{db}/tables/t", json=set_properties(table, **unsafe))) == (400, "BadRequestException")
    removal = {"updates": [{"action": "remove-properties", "removals": ["gc.enabled"]}]}
    assert kind_of(http.post(f"{db}/tables/t", json=removal)) == (400, "BadRequestException")


@pytest.mark.parametrize("unsafe", [{}, *UNSAFE], ids=str)
def test_metadata_that_a_client_wrote(
    http: httpx.Client, nessie: NessieClient, db: str, namespace: str, table: Json, unsafe: dict[str, str]
) -> None:
    """A client of the Nessie API writes metadata files itself and commits only the pointer."""
    file = Path(urlsplit(table["metadata-location"]).path).with_name("v9.metadata.json")
    file.write_bytes(msgspec.json.encode({**table["metadata"], "properties": unsafe}))
    pointer = IcebergTable(metadata_location=file.as_uri(), snapshot_id=-1, schema_id=0, spec_id=0, sort_order_id=0)
    head = nessie.get_reference("main").hash
    key = ContentKey((namespace, "own"))
    nessie.commit("main", head, NewCommit(message="a pointer"), [Put(key, pointer)])
    for query in ("", "?snapshots=refs"):
        loaded = http.get(f"{db}/tables/own{query}").json()
        assert loaded["metadata-location"] == file.as_uri()
        assert loaded["metadata"]["properties"].items() >= GUARDED
        assert "true" not in [value.lower() for value in loaded["metadata"]["properties"].values()]
    changed = http.post(f"{db}/tables/own", json=set_properties(loaded, a="1")).json()
    written = msgspec.json.decode(Path(urlsplit(changed["metadata-location"]).path).read_bytes())
    assert written["properties"] == loaded["metadata"]["properties"] | {"a": "1"} == changed["metadata"]["properties"]


def test_a_name_used_again_is_another_folder(
    http: httpx.Client, nessie: NessieClient, db: str, namespace: str, new_branch: Callable[[], str]
) -> None:
    other = f"/v1/{quote(new_branch(), safe='')}/namespaces/{namespace}"
    first = create(http, db, "t")["metadata"]["location"]
    assert http.delete(f"{db}/tables/t").status_code == 204
    locations = {first, create(http, db, "t")["metadata"]["location"], create(http, other, "t")["metadata"]["location"]}
    assert len(locations) == 3


def test_what_pyiceberg_expires_stays_on_other_branches(
    connect: Callable[[str], RestCatalog], new_branch: Callable[[], str], namespace: str, table: Json
) -> None:
    """PyIceberg asks no property, but takes snapshots out of the metadata alone."""
    ours = connect("main").load_table((namespace, "t"))
    for number in (1, 2):
        ours.append(pa.table({"id": [number]}))
    first, last = (entry.snapshot_id for entry in ours.history())
    other = connect(new_branch()).load_table((namespace, "t"))
    ours.maintenance.expire_snapshots().by_id(first).commit()
    assert [snapshot.snapshot_id for snapshot in ours.refresh().snapshots()] == [last]
    assert other.refresh().scan(snapshot_id=first).to_arrow().to_pydict() == {"id": [1]}
    assert sorted(ours.scan().to_arrow()["id"].to_pylist()) == [1, 2]
