"""A site with folders in and out of reach, and what tests of locations send to its server."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import httpx

from nessie_ops.client import NessieClient
from nessie_ops.model import Content, ContentKey, IcebergTable, IcebergView, NewCommit, Put
from tests.iceberg.helpers import SCHEMA, Json

NUMBERS = itertools.count(1)
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1000,
    "summary": {},
    "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}


class Site(NamedTuple):
    """A server whose warehouse is one of the folders in `root`, with a table and a view."""

    root: Path
    http: httpx.Client
    nessie: NessieClient
    table: Json
    view: Json

    @property
    def warehouse(self) -> str:
        return (self.root / "wh").as_uri()

    def state(self) -> tuple[str, list[Path]]:
        """All that a refused request must leave as it is."""
        return self.nessie.get_reference("main").hash, sorted(self.root.rglob("*"))

    def put(self, content: Content) -> str:
        """A new name for a content that a client of the Nessie API puts."""
        name = f"n{next(NUMBERS)}"
        self.commit(ContentKey.of("db", name), content)
        return name

    def commit(self, key: ContentKey, content: Content) -> None:
        head = self.nessie.get_reference("main").hash
        self.nessie.commit("main", head, NewCommit(message="m"), [Put(key, content)])


def ways_out(root: Path) -> list[str]:
    """Locations that must be refused wherever they stand."""
    inside = f"file://{root}/wh"
    tails = ["/../outside/x", "/a/../../outside/x", "/./x", "/%2e%2e/outside/x", "/%2E%2E%2Foutside%2Fx", "/..%5cx"]
    tails += ["/%252e%252e/outside/x", "/%25252525252e/x", "/%c0%ae%c0%ae/outside/x", "\\..\\outside\\x", "//x"]
    tails += ["/a//../x", "2/x", "/x?v=1", "/x#y", "/x\0", "/x\n", "/x%00", "/x\x85", "/x\u2028", "/x::file:///etc/x"]
    hosts = ["http://127.0.0.1/x", "https://example.org/x", "HTTP://169.254.169.254/latest/meta-data/", "s3://b/x"]
    hosts += ["s3://169.254.169.254/latest", "s3://127.0.0.1:9000/x", "s3://localhost/x", "s3://[::1]/x"]
    hosts += ["s3://user:secret@bucket/x", f"file://host{root}/wh/x", f"file://localhost{root}/wh/x"]
    plain = ["file:/etc/x", "file:///etc/x", "FILE:///etc/x", "/etc/x", f"local://{root}/wh/x", f"{root}/outside/x"]
    plain += [inside, f"file://{root}/WH/x", f"simplecache::{inside}/x", "", "x/y", "file://" + "/a" * 2000]
    beside = [f"file://{root}/allowed2/x", f"file://{root}/allowed/../outside/x", f"file://{root}/allowed%2f../x"]
    return [inside + tail for tail in tails] + hosts + plain + beside


def commit(site: Site, *updates: Json, path: str = "tables/t") -> httpx.Response:
    return site.http.post(f"/namespaces/db/{path}", json={"updates": list(updates)})


def post(site: Site, path: str, **body: object) -> httpx.Response:
    return site.http.post(f"/namespaces/db/{path}", json={"name": f"n{next(NUMBERS)}", "schema": SCHEMA, **body})


def set_property(name: str, location: str) -> Json:
    return {"action": "set-properties", "updates": {name: location}}


def snapshot(location: str) -> Json:
    number = next(NUMBERS)
    return {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": 1_900_000_000_000 + number,
        "manifest-list": location,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }


def table_at(location: str) -> IcebergTable:
    return IcebergTable(metadata_location=location, snapshot_id=1, schema_id=0, spec_id=0, sort_order_id=0)


def view_at(location: str) -> IcebergView:
    return IcebergView(metadata_location=location, version_id=1, schema_id=0)


def statistics(location: str) -> Json:
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    return {"snapshot-id": 1, "statistics-path": location, "blob-metadata": [], **sizes}


def of_view(site: Site, **fields: object) -> httpx.Response:
    return post(site, "views", **{"view-version": VERSION}, **fields)


def staged(site: Site, location: str, namespace: str = "db") -> httpx.Response:
    """The end of a staged create."""
    order: Json = {"order-id": 0, "fields": []}
    updates: list[Json] = [
        {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}, "last-column-id": 1},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": order},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": location},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    return site.http.post(f"/namespaces/{namespace}/tables/n{next(NUMBERS)}", json=body)
