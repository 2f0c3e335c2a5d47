"""Whatever a request holds, the answer is a 4xx that names the field, or what was asked for; nothing is half written.

Valid bodies are taken apart: at every place in them, every value that does not belong there is tried.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from nessie_ops.versioning.codec import MAX_CONTENT_BYTES, MAX_WORDS_BYTES
from tests.bodies import DEEP, places, replace
from tests.server.helpers import Api, Z, key, namespace, put, table, view

STRANGE: list[Any] = [True, 0, -1, 1.5, 2**70, "", "\ud800", "\x00", "x" * 5000, [], {}, [None], {"": ""}, DEEP]
META = {
    "message": "m",
    "author": "a",
    "authors": ["a"],
    "signedOffBy": "s",
    "allSignedOffBy": ["s"],
    "properties": {"k": "v"},
    "allProperties": {"k": ["v"]},
    "authorTime": "2021-04-07T14:42:25Z",
}


def bodies(head: str, id: str) -> dict[str, Any]:
    """A valid body for each path below `trees/main@head`, and for others."""
    modes = [{"key": key("t"), "expectedTargetContent": table(1, id), "resolvedContent": table(9, id)}]
    flags = {"isDryRun": True, "isReturnConflictAsResult": True}
    contents = [table(2), view(), namespace("n", a="b"), {"type": "UDF", "versionId": "1"}]
    contents.append({"type": "DELTA_LAKE_TABLE", "metadataLocationHistory": ["a"], "checkpointLocationHistory": ["b"]})
    operations: list[Any] = [put(f"k{n}", content) for n, content in enumerate(contents)]
    operations += [{"type": "UNCHANGED", "key": key("t")}]
    merge = {"fromRefName": "f", "message": "m", "commitMeta": META, "keyMergeModes": modes, **flags}
    config = {
        "type": "GARBAGE_COLLECTOR",
        "defaultCutoffPolicy": "P1D",
        "perRefCutoffPolicies": [{"referenceNamePattern": "x", "policy": "1"}],
        "newFilesGracePeriod": "PT1H",
        "expectedFileCountPerContent": 1,
    }
    return {
        f"trees/main@{head}/history/commit": {"commitMeta": META, "operations": operations},
        f"trees/main@{head}/history/merge": merge | {"fromHash": "f"},
        f"trees/main@{head}/history/transplant": merge | {"hashesToTransplant": ["f"]},
        f"trees/main@{head}/history/revert": {"commitMeta": META, "commitHash": head, **flags},
        f"trees/-@{head}/history/revert": {"keys": [key("t")], "sourceRef": "main", "allowDeletes": True, **flags},
        "trees/main/contents": {"requestedKeys": [key("t")]},
        "config/repository": {"config": config},
    }


def send(api: Api, path: str, content: bytes | str, method: str = "POST") -> httpx.Response:
    return api.call(method, path, content=content, headers={"Content-Type": "application/json"})


@pytest.fixture
def filled(api: Api, caplog: pytest.LogCaptureFixture) -> Iterator[Api]:
    """A main with a table, an `f` that changed it; afterwards everything can still be read."""
    id = api.add_table("t")
    api.branch("f")
    api.commit(put("t", table(2, id)), ref="f")
    yield api
    assert api.get("trees/main/history", fetch="ALL") and api.get("trees/main/entries", content="true")
    assert api.get("trees") and api.get("config/repository") is not None
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("n", range(7))
def test_a_strange_value_anywhere_in_a_body(filled: Api, n: int) -> None:
    path, body = list(bodies(filled.head(), filled.content("t")["id"]).items())[n]
    head = filled.head("f")
    text = json.dumps(body).replace('"f"}', f'"{head}"}}').replace('["f"]', f'["{head}"]')
    body = json.loads(text) | ({"fromHash": head} if "fromHash" in body else {})
    answer = send(filled, path, json.dumps(body))
    assert answer.status_code == 200, answer.text
    for place in list(places(body))[1:]:
        names = {str(name).lower() for name in place if isinstance(name, str)}
        for value in STRANGE:
            answer = send(filled, path, json.dumps(replace(body, place, value)))
            assert answer.status_code in (200, 400, 404, 409), (place, value, answer.text)
            if answer.status_code == 400 and not isinstance(value, str):
                message = answer.json()["message"].lower()
                assert any(name in message for name in names) or "key" in message or "hash" in message, (
                    place,
                    value,
                    message,
                )


@pytest.mark.parametrize(
    "content",
    [
        b'{"config":{"type":"GARBAGE_COLLECTOR","expectedFileCountPerContent":NaN}}',
        b'{"config":{"type":"GARBAGE_COLLECTOR","expectedFileCountPerContent":Infinity}}',
        b'{"config":{"type":"GARBAGE_COLLECTOR","expectedFileCountPerContent":1e400}}',
        b'{"config":{"type":"\xff"}}',
        b'{"config":{"type":"GARBAGE_COLLECTOR","what":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"config":' * 100_000,
        b"\xef\xbb\xbf{}",
        b"\x00",
        b"nul",
        b"null",
        b'"' + b"x" * 1_000_000 + b'"',
    ],
)
def test_what_is_hardly_json(filled: Api, content: bytes) -> None:
    for path in ("config/repository", f"trees/main@{Z}/history/commit", "trees?name=x&type=TAG"):
        answer = send(filled, path, content)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "BAD_REQUEST")
        assert answer.json()["message"] and len(answer.content) < 2000
    assert filled.get("config/repository") == {}


def test_texts_that_are_too_long_for_a_row(filled: Api) -> None:
    before, long = filled.head(), "x" * MAX_WORDS_BYTES
    for meta in ({"message": long}, {"message": "m", "authors": [long]}, {"message": "m", "properties": {"k": long}}):
        body = {"commitMeta": meta, "operations": [put("new")]}
        assert "commitMeta" in filled.post(f"trees/main@{before}/history/commit", body, 400)["message"]
    huge = {"type": "UDF", "metadataLocation": "x" * MAX_CONTENT_BYTES}
    assert "content" in filled.try_commit(put("new", huge), status=400)["message"]
    assert filled.head() == before
    filled.commit(put("new", {"type": "UDF", "metadataLocation": "x" * (MAX_CONTENT_BYTES - 1000)}))
    body = {"commitMeta": {"message": "x" * (MAX_WORDS_BYTES - 1000)}, "operations": [put("newer")]}
    filled.post(f"trees/main@{filled.head()}/history/commit", body)


def test_a_commit_has_an_end(filled: Api) -> None:
    operations = [{"type": "DELETE", "key": key(f"t{n}")} for n in range(100_001)]
    error = filled.try_commit(*operations, status=400)
    assert error["message"].startswith("operations: 100001")
    error = filled.try_commit(*operations[:-1], status=409)
    assert len(error["errorDetails"]["conflicts"]) == 100_000


@pytest.mark.parametrize("text", ["%00", "%ED%A0%80", "%FF", "x" * 3000, "-1", "1e9", "%F0%9F%A6%86", "a" * 501, "%0A"])
def test_strange_texts_in_addresses(filled: Api, text: str) -> None:
    for spot in (
        "trees/{}",
        "trees/{}/entries",
        "trees/main@{}/entries",
        "trees/main/contents/{}",
        "trees/main/diff/{}",
    ):
        assert filled.call("GET", spot.format(text)).status_code in (200, 400, 404)
    names = (
        "page-token",
        "max-records",
        "fetch",
        "filter",
        "key",
        "min-key",
        "prefix-key",
        "limit-hash",
        "type",
        "name",
    )
    for path in ("trees", "trees/main/entries", "trees/main/history", "trees/main/recent-changes", "reference-log"):
        for name in (*names, "scan-commits", "after", "newest-first", "name-prefix", "content"):
            answer = filled.call("GET", f"{path}?{name}={text}")
            assert answer.status_code in (200, 400, 404), (path, name, answer.text)
    for header in ("Nessie-Commit-Authors", "Nessie-Commit-Message", "Nessie-Client-Spec", "Accept-Encoding"):
        body = {"commitMeta": {"message": "m"}, "operations": [put("t")]}
        assert filled.post(f"trees/main@{Z}/history/commit", body, 409, headers={header: text})["status"] == 409
