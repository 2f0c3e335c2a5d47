"""What the server answers when it refuses; no input makes it fail."""

from __future__ import annotations

import json
import logging
import socket
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nessie_ops.errors import NessieOpsError, StoreUnavailable
from nessie_ops.server.problems import to_nessie_error
from tests.server.helpers import Api, Z, put, table


def test_the_body_of_an_error(api: Api) -> None:
    answer = api.call("GET", "trees/nope")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "status": 404,
        "reason": "Not Found",
        "message": "Named reference 'nope' not found",
        "errorCode": "REFERENCE_NOT_FOUND",
        "serverStackTrace": None,
    }
    assert api.call("GET", "trees/main").headers["content-type"] == "application/json;charset=UTF-8"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "nope", 404),
        ("GET", "trees/main/nope", 404),
        ("GET", "trees/main//entries", 404),
        ("GET", "trees?max-records=x", 404),
        ("GET", "trees?max-records=99999999999999999999", 404),
        ("GET", "trees?max-records=%C2%B2", 404),
        ("GET", "trees?fetch=all", 404),
        ("GET", "trees/main?fetch=full", 404),
        ("GET", "trees/main/history?fetch=x", 404),
        ("GET", "trees/main/contents/a..b", 404),
        ("GET", "trees/main/entries?min-key=a..b", 404),
        ("GET", "trees?name-prefix=%FF", 404),
        ("GET", "reference-log?after=9223372036854775808", 404),
        ("PATCH", "trees", 405),
        ("POST", "config", 405),
        ("PUT", "trees/main/entries", 405),
        ("GET", "trees/main/history/commit", 405),
        ("POST", "trees/main/entries", 405),
    ],
)
def test_what_does_not_exist_has_no_body(api: Api, method: str, path: str, status: int) -> None:
    answer = api.call(method, path)
    assert (answer.status_code, answer.content) == (status, b"")


def test_bodies_must_be_json(api: Api) -> None:
    path = f"trees/main@{Z}/history/commit"
    text = api.call("POST", path, content="x", headers={"Content-Type": "text/plain"})
    assert (text.status_code, text.json()["errorCode"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
    for content in ("{", "x", "\ufeff{}", '{"a":1}{}', "[" * 100_000, '{"a":' * 50_000):
        answer = api.call("POST", path, content=content, headers={"Content-Type": "application/json; charset=utf-8"})
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "BAD_REQUEST")
    for body in ([], 1, "x"):
        assert "object" in api.post(path, body, 400)["message"]


def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    answer = api.call("POST", "trees", content=b" " * (65 << 20), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and answer.json()["errorCode"] == "BAD_REQUEST"


def test_what_nobody_foresaw_keeps_its_causes() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        found = to_nessie_error(error)
    assert type(found) is NessieOpsError and found.http_status == 500
    assert found.message == "ValueError: outer; caused by KeyError: 'inner'"
    assert to_nessie_error(StoreUnavailable("x")).http_status == 503


NASTY = ["\ud800", "\x00", "a\x00b", "é" * 300, "..", "%", "{", "-1", "\u2028", "9" * 40, "main@", "@", "~", "*", "^1"]


@pytest.mark.parametrize("text", NASTY)
def test_nasty_text_anywhere_is_refused_or_kept(api: Api, caplog: pytest.LogCaptureFixture, text: str) -> None:
    raw = json.dumps(text)  # a lone surrogate is escaped, so it does reach the server
    bodies = [
        f'{{"commitMeta":{{"message":{raw},"author":{raw},"properties":{{{raw}:{raw}}}}},"operations":['
        f'{{"type":"PUT","key":{{"elements":["k"]}},"content":{json.dumps(table())}}}]}}',
        f'{{"commitMeta":{{"message":"m"}},"operations":[{{"type":"DELETE","key":{{"elements":[{raw}]}}}}]}}',
        f'{{"commitMeta":{{"message":"m"}},"operations":[{{"type":"PUT","key":{{"elements":["n"]}},"content":'
        f'{{"type":"NAMESPACE","elements":[{raw}],"properties":{{{raw}:{raw}}}}}}}]}}',
        f'{{"commitMeta":{{"message":"m","authorTime":{raw}}},"operations":[]}}',
    ]
    headers = {"Content-Type": "application/json"}
    for body in bodies:
        assert api.call("POST", f"trees/main@{Z}/history/commit", content=body, headers=headers).status_code < 500
    spot = quote(text.encode("utf-8", "surrogatepass"), safe="")
    for path in (f"trees/{spot}", f"trees/{spot}/entries", f"trees/main/contents/{spot}", f"trees/main/diff/{spot}"):
        assert api.call("GET", path).status_code < 500
    for name in ("page-token", "key", "min-key", "limit-hash", "max-records", "fetch", "name-prefix", "name", "after"):
        for path in ("trees", "trees/main/entries", "trees/main/history", "reference-log"):
            assert api.call("GET", f"{path}?{name}={spot}").status_code < 500
    for body in (f'{{"updates":{{{raw}:{raw}}}}}', f'{{"removals":[{raw}]}}'):
        assert api.call("PUT", "trees/main/properties", content=body, headers=headers).status_code < 500
    body = f'{{"name":"main","hash":{raw}}}'
    created = api.call("POST", "trees", params={"name": "x", "type": "TAG"}, content=body, headers=headers)
    assert created.status_code < 500
    assert api.get("trees/main/history", fetch="ALL") and api.get("trees") and api.get("reference-log")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1969-01-01T00:00:00Z"])
def test_times_at_the_end_of_the_calendar(api: Api, time: str) -> None:
    body = {"commitMeta": {"message": "m", "authorTime": time}, "operations": [put("t")]}
    answer = api.call("POST", f"trees/main@{Z}/history/commit", json=body)
    assert answer.status_code in (200, 400)
    assert api.call("GET", f"trees/main*{quote(time)}/entries").status_code in (200, 400)
    assert api.log() is not None


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = {
    "trees?name=x&type=BRANCH": ["name", "hash", "type", "newProperties"],
    f"trees/main@{Z}/history/commit": ["commitMeta", "operations"],
    f"trees/main@{Z}/history/merge": ["fromRefName", "fromHash", "keyMergeModes", "defaultKeyMergeMode", "commitMeta"],
    "trees/main/contents": ["requestedKeys"],
}


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_makes_the_server_fail(api: Api, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(FIELDS)))
    body: Any = {name: data.draw(any_json) for name in FIELDS[path]}
    content = json.dumps(body)
    answer = api.call("POST", path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text


@given(path=st.binary(max_size=40), query=st.binary(max_size=30))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_path_makes_the_server_fail(api: Api, path: bytes, query: bytes) -> None:
    answer = api.call("GET", f"trees/{quote(path, safe='@~^*/%')}?{quote(query, safe='=&%')}")
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("line", ["GET /api/v2/trees/main^1/entries", "GET /api/v2/trees/\xff", "BREW / "])
def test_what_is_not_http_is_a_client_error(base_uri: str, line: str) -> None:
    parts = urlsplit(base_uri)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as sock:
        sock.sendall(f"{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode("latin-1"))
        status = int(sock.makefile("rb").readline().split()[1])
    assert status < 500
    assert httpx.get(f"{base_uri}/health").status_code == 200
