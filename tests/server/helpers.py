"""A server of one's own over HTTP, and short ways to talk to it as a foreign client would: plain JSON."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import httpx

from nessie_ops.server.app import open_app
from nessie_ops.server.serve import base_uri_of, bind, make_server
from nessie_ops.server.settings import Settings

Z = "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"
UNKNOWN = "ab" * 32  # a hash that no commit has


@contextmanager
def running_server(store: str = "sqlite://", warehouse: str = "file:///nowhere") -> Iterator[str]:
    """The base URI of a server in a thread, told to stop at the end."""
    settings = Settings(store=store, warehouse=warehouse, port=0)
    app, versions = open_app(settings)
    sock = bind(settings.host, settings.port)
    server = make_server(app, versions.store.moved.close)

    def run() -> None:
        server.run([sock])
        versions.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.002)
    try:
        yield base_uri_of(sock)
    finally:
        server.should_exit = True  # the thread ends soon; nobody needs to wait for it


def table(n: int = 1, id: str | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "ICEBERG_TABLE", "metadataLocation": f"m{n}", "snapshotId": n}
    content |= {"schemaId": 0, "specId": 0, "sortOrderId": 0}
    return content | ({"id": id} if id else {})


def view(n: int = 1, id: str | None = None) -> dict[str, Any]:
    content = {"type": "ICEBERG_VIEW", "metadataLocation": f"v{n}", "versionId": n, "schemaId": 0}
    return content | ({"id": id} if id else {})


def namespace(*elements: str, **properties: str) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "NAMESPACE", "elements": list(elements)}
    return content | ({"properties": properties} if properties else {})


def key(path: str) -> dict[str, Any]:
    return {"elements": path.split(".")}


def put(path: str, content: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "PUT", "key": key(path), "content": content or table()}


def delete(path: str) -> dict[str, Any]:
    return {"type": "DELETE", "key": key(path)}


def unchanged(path: str) -> dict[str, Any]:
    return {"type": "UNCHANGED", "key": key(path)}


class Api:
    """A client of `/api/v2` that checks nothing but what it is asked to check."""

    def __init__(self, base_uri: str) -> None:
        self.http = httpx.Client(base_url=base_uri, timeout=60, headers={"Nessie-Client-Spec": "2"})

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self.http.request(method, f"/api/v2/{path}", **options)

    def get(self, path: str, status: int = 200, **params: Any) -> Any:
        """The JSON at a path; None when the answer has no body."""
        answer = self.call("GET", path, params=params or None)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    def post(self, path: str, body: Any, status: int = 200, **options: Any) -> Any:
        answer = self.call("POST", path, json=body, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def head(self, ref: str = "main") -> str:
        return str(self.get(f"trees/{quote(ref, safe='')}")["reference"]["hash"])

    def branch(self, name: str, at: str | None = None, kind: str = "BRANCH") -> str:
        """Create a reference; its head."""
        body = {"type": "BRANCH", "name": "main", "hash": at or self.head()}
        answer = self.post("trees", body, params={"name": name, "type": kind})
        return str(answer["reference"]["hash"])

    def commit(self, *operations: dict[str, Any], ref: str = "main", at: str | None = None) -> dict[str, Any]:
        """Commit; the answer."""
        return dict(self.try_commit(*operations, ref=ref, at=at, status=200))

    def try_commit(
        self, *operations: dict[str, Any], ref: str = "main", at: str | None = None, status: int = 409, **options: Any
    ) -> Any:
        """Commit and expect an answer with `status`; its body."""
        path = f"trees/{quote(ref, safe='')}@{at or self.head(ref)}/history/commit"
        body = {"commitMeta": {"message": "m"}, "operations": list(operations)}
        return self.post(path, body, status, **options)

    def content(self, path: str, ref: str = "main") -> dict[str, Any]:
        return dict(self.get(f"trees/{quote(ref, safe='')}/contents/{quote(path, safe='')}")["content"])

    def add_table(self, path: str, ref: str = "main", n: int = 1) -> str:
        """Create a table; its content id."""
        answer = self.commit(put(path, table(n)), ref=ref)
        return str(answer["addedContents"][0]["contentId"])

    def merge(self, source: str, target: str = "main", status: int = 200, at: str | None = None, **fields: Any) -> Any:
        body = {"fromRefName": source, "fromHash": self.head(source), **fields}
        return self.post(f"trees/{target}@{at or self.head(target)}/history/merge", body, status)

    def log(self, ref: str = "main", **params: Any) -> list[dict[str, Any]]:
        return list(self.get(f"trees/{quote(ref, safe='')}/history", **params)["logEntries"])


def conflict_types(error: dict[str, Any]) -> set[str]:
    assert error["errorCode"] == "REFERENCE_CONFLICT"
    return {conflict["conflictType"] for conflict in error["errorDetails"]["conflicts"]}
