"""Whatever a request to the Iceberg API holds: an error of the protocol's form, never a 5xx, and nothing is written.

Valid bodies for every route are taken apart: at every place in them, values that do not belong there are tried.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from nessie_ops.catalog import shapes
from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from tests.bodies import DEEP, places, replace
from tests.iceberg.bodies import BODIES, VERSION
from tests.iceberg.helpers import SCHEMA, Json, create, error_of

STRANGE: list[Any] = [None, -1, 2**70, "\x00", "\U0001f600" * 300, [], {"": ""}, DEEP]
MANY_KEYS = ",".join(f'"k{i}":"x"' for i in range(100_000))
NAMES = [
    "%00",
    "a%00b",
    "%1F",
    "%1F%1F",
    "%EE%80%80",
    "%FF",
    "%C3",
    "x" * 3000,
    "%F0%9F%98%80",
    ".",
    "%2F",
    "%23",
    "@",
    "t@",
    "t%23",
]
NAMES += ["t@nowhere", "t@b..b", "t%23yesterday", "t%2399999999-01-01", "t@main%23zz", "t@main@1234%231234"]
PATHS = [
    ("GET", "namespaces?parent={}"),
    ("GET", "namespaces?pageSize={}"),
    ("GET", "namespaces?pageToken={}"),
    *((method, "namespaces/{}") for method in ("GET", "HEAD", "DELETE")),
    ("POST", "namespaces/{}/properties"),
    *((method, "namespaces/{}/tables") for method in ("GET", "POST")),
    *((method, "namespaces/n/tables/{}") for method in ("GET", "HEAD", "POST", "DELETE")),
    ("GET", "namespaces/n/tables/t?snapshots={}"),
    ("DELETE", "namespaces/n/tables/t?purgeRequested={}"),
    ("GET", "namespaces/n/tables/{}/credentials"),
    ("POST", "namespaces/n/tables/{}/metrics"),
    ("POST", "namespaces/{}/register"),
    *((method, "namespaces/{}/views") for method in ("GET", "POST")),
    *((method, "namespaces/n/views/{}") for method in ("GET", "HEAD", "POST", "DELETE")),
    ("POST", "namespaces/n/tables/{}/plan"),
    ("GET", "namespaces/{}/functions"),
]


class Target:
    """A branch of its own with a namespace, a table and a view, that is put back after whatever a request did."""

    def __init__(self, http: httpx.Client, nessie: NessieClient, warehouse: str) -> None:
        self._http, self._nessie = http, nessie
        self._wrong: list[str] = []
        self._warehouse = Path(urlsplit(warehouse).path)
        head = nessie.get_reference("main").hash
        self._name = nessie.create_reference(ReferenceType.BRANCH, f"bad-{head[:12]}", head).name
        self._base = f"/v1/{self._name}"
        assert http.post(f"{self._base}/namespaces", json={"namespace": ["n"]}).status_code == 200
        table = create(http, f"{self._base}/namespaces/n", "t")
        body = {"name": "v", "schema": SCHEMA, "view-version": VERSION}
        view = http.post(f"{self._base}/namespaces/n/views", json=body).json()
        self._start = nessie.get_reference(self._name)
        self._places = {
            "file:///x": f"{warehouse}/bad/x",
            "file:///t.json": table["metadata-location"],
            "file:///v.json": view["metadata-location"],
        }
        self._files = self._count_files()

    def post(self, path: str, text: str) -> int:
        """The status of the answer to a JSON body, in which places stand for others (see tests.iceberg.bodies)."""
        for name, place in self._places.items():
            text = text.replace(name, place)
        return self.send("POST", path, text.encode())

    def send(self, method: str, path: str, content: bytes | None = None) -> int:
        """The status of the answer; what is wrong with it is noted for `check`."""
        answer = self._http.request(method, f"{self._base}/{path}", content=content)
        now = self._nessie.get_reference(self._name)
        refused = answer.status_code >= 400
        if answer.status_code >= 500 and answer.status_code != 501:
            self._note("fault", method, path, content, answer)
        if refused and method != "HEAD" and not all(error_of(answer)):
            self._note("an error without words", method, path, content, answer)
        if now.hash != self._start.hash:
            if refused:
                self._note("written although refused", method, path, content, answer)
            self._nessie.assign_reference(self._name, now.hash, self._start.hash)
            self._files += 1  # no request here changes more than one table or view
        return answer.status_code

    def _note(self, what: str, method: str, path: str, content: bytes | None, answer: httpx.Response) -> None:
        self._wrong.append(f"{what}: {method} {path[:80]} {(content or b'')[:400]!r}: {answer.text[:400]}")

    def _count_files(self) -> int:
        return sum(len(names) for _, _, names in os.walk(self._warehouse))

    def check(self) -> None:
        wrong, self._wrong = self._wrong, []
        assert not wrong, f"{len(wrong)} wrong answers:\n" + "\n".join(wrong[:10])
        allowed, self._files = self._files, self._count_files()
        assert self._files <= allowed, "requests that were refused have left files"


@pytest.fixture(scope="module")
def target(http: httpx.Client, nessie: NessieClient, warehouse: str) -> Target:
    return Target(http, nessie, warehouse)


def test_no_update_and_no_requirement_is_left_out() -> None:
    tried = BODIES["namespaces/n/tables/t"]
    assert {update["action"] for body in tried for update in body["updates"]} == shapes.UPDATES.keys()
    assert {item["type"] for body in tried for item in body["requirements"]} == shapes.REQUIREMENTS.keys()


@pytest.mark.parametrize("path", BODIES)
def test_every_place_of_every_body(target: Target, path: str) -> None:
    as_they_are = [target.post(path, json.dumps(body)) for body in BODIES[path]]
    assert {200, 204, 409} & set(as_they_are), "what is tried below would be refused for another reason"
    refused = 0
    for i, body in enumerate(BODIES[path]):
        for place in places(body):
            if i and len(place) < 3:
                continue  # the frame is that of the first body
            refused += sum(target.post(path, json.dumps(replace(body, place, value))) >= 400 for value in STRANGE)
    target.check()
    assert refused > len(STRANGE)


@pytest.mark.parametrize("path", BODIES)
def test_what_is_hardly_json(target: Target, path: str) -> None:
    raw = [b"", b"{", b"\xff", b'"\xff"', b"x", b"[" * 100_000, b'{"a":' * 50_000, b"\x00", b'"\\ud800"']
    for content in raw:
        assert target.send("POST", path, content) == 400
    target.check()


@pytest.mark.parametrize("path", BODIES)
def test_a_hundred_thousand_keys(target: Target, path: str) -> None:
    body = BODIES[path][0]
    target.post(path, f"{{{MANY_KEYS}}}")
    target.post(path, widen(body))
    for name in [name for name, value in body.items() if isinstance(value, dict)][:1]:
        target.post(path, json.dumps({**body, name: "here"}).replace('"here"', widen(body[name])))
    target.check()


def widen(value: Json) -> str:
    """The JSON text of `value` with 100,000 keys more."""
    return json.dumps(value)[:-1] + f"{',' if value else ''}{MANY_KEYS}}}"


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_every_name_in_every_path(target: Target, method: str, path: str) -> None:
    for name in NAMES:
        target.send(method, path.format(name), b"{}" if method == "POST" else None)
    target.check()


@pytest.mark.parametrize(
    "prefix", ["%00", "%FF", "b..b", "main@xyz", "main%7Cx", "main~0", "main*never", "%7C%7C", "nowhere"]
)
def test_references_that_cannot_be(http: httpx.Client, prefix: str) -> None:
    for method, path in (("GET", "namespaces"), ("POST", "tables/rename"), ("GET", "namespaces/n/tables/t")):
        body = json.dumps(BODIES["tables/rename"][0]).encode() if method == "POST" else None
        code, kind, _ = error_of(http.request(method, f"/v1/{prefix}/{path}", content=body))
        assert code == 400
        assert kind == ("NoSuchReferenceException" if prefix == "nowhere" else "BadRequestException")


def test_paths_and_methods_that_are_not_there(http: httpx.Client) -> None:
    for path in ("/v1/main/nothing", "/nothing", "/v1/main/namespaces/n/tables/t/nothing/at/all"):
        assert error_of(http.get(path))[:2] == (404, "UnsupportedOperationException")
    wrong_method = http.put("/v1/main/namespaces")
    assert error_of(wrong_method)[:2] == (405, "UnsupportedOperationException")
    assert wrong_method.headers["allow"]
    assert error_of(http.get("/v1/main//tables"))[:2] == (400, "BadRequestException")
