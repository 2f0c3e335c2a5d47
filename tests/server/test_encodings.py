"""Bodies packed with gzip, in both directions."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from nessie_ops.server.encodings import MIN_PACKED_BYTES, accepts_gzip
from tests.server.helpers import Api, Z, key, put

PATH = f"trees/main@{Z}/history/commit"


def commit(api: Api, body: bytes, encoding: str = "gzip") -> Any:
    return api.call("POST", PATH, content=body, headers={"Content-Encoding": encoding})


def make_body(count: int) -> bytes:
    return json.dumps({"commitMeta": {"message": "m"}, "operations": [put(f"t{n:05}") for n in range(count)]}).encode()


@pytest.mark.parametrize("count", [1, 5000])
def test_a_packed_request_is_read(api: Api, count: int) -> None:
    for encoding in ("gzip", "GZIP", "x-gzip"):
        answer = commit(api, gzip.compress(make_body(count)), encoding)
        assert answer.status_code in (200, 409), answer.text
    assert len(api.get("trees/main/entries")["entries"]) == count
    posted = gzip.compress(json.dumps({"requestedKeys": [key("t00000")]}).encode())
    found = api.call("POST", "trees/main/contents", content=posted, headers={"Content-Encoding": "gzip"})
    assert len(found.json()["contents"]) == 1


def test_a_packed_request_in_pieces(api: Api) -> None:
    packed = gzip.compress(make_body(100))
    pieces = (packed[start : start + 7] for start in range(0, len(packed), 7))
    answer = api.call("POST", PATH, content=pieces, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 200, answer.text


def test_no_body_is_empty_in_every_encoding(api: Api) -> None:
    answer = commit(api, b"")
    assert answer.status_code == 400 and "operations" in answer.json()["message"]
    assert api.call("GET", "config", headers={"Content-Encoding": "gzip"}).status_code == 200


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (make_body(1), "gzip", 400),
        (gzip.compress(make_body(1))[:-3], "gzip", 400),
        (gzip.compress(make_body(1))[:5], "gzip", 400),
        (gzip.compress(make_body(1)) + b"x", "gzip", 400),
        (gzip.compress(make_body(1)) * 2, "gzip", 400),
        (zlib.compress(make_body(1)), "gzip", 400),
        (zlib.compress(make_body(1)), "deflate", 415),
        (make_body(1), "br", 415),
        (gzip.compress(b"{"), "gzip", 400),
        (gzip.compress(bytes(65 << 20)), "gzip", 413),
    ],
    ids=[
        "plain",
        "cut at its end",
        "cut in its head",
        "followed by more",
        "two members",
        "zlib",
        "deflate",
        "br",
        "not JSON inside",
        "too large inside",
    ],
)
def test_what_cannot_be_unpacked_is_refused(api: Api, body: bytes, encoding: str, status: int) -> None:
    answer = commit(api, body, encoding)
    assert answer.status_code == status, answer.text
    assert answer.json()["status"] == status and answer.json()["message"]
    assert api.head() == Z
    assert commit(api, make_body(1), "identity").status_code == 200


def test_answers_are_packed_when_that_is_asked_for_and_pays(api: Api) -> None:
    api.commit(*(put(f"t{n:04}") for n in range(3000)))

    def get(path: str, encoding: str) -> tuple[str, int, Any]:
        with api.http.stream("GET", f"/api/v2/{path}", headers={"Accept-Encoding": encoding}) as answer:
            size = int(answer.headers["content-length"])
            answer.read()
            assert answer.headers["content-type"] == "application/json;charset=UTF-8"
            return answer.headers.get("content-encoding", ""), size, answer.json()

    for path in ("trees/main/entries", "trees/main/entries?max-records=100"):
        packed, plain = get(path, "gzip;q=1.0, deflate;q=0.9"), get(path, "identity")
        assert (packed[0], plain[0]) == ("gzip", "") and packed[2] == plain[2]
        assert packed[1] < plain[1] / 2 and plain[1] > MIN_PACKED_BYTES
    assert get("trees/main", "gzip")[0] == ""
    missing = api.call("GET", "trees/main/contents/a..b", headers={"Accept-Encoding": "gzip"})
    assert (missing.status_code, missing.content) == (404, b"")


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5".lower(), True),
        ("br, x-gzip", True),
        ("gzip ; q=1.0", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000, identity", False),
        ("identity", False),
        ("*", False),
        ("gzipped", False),
        ("", False),
    ],
)
def test_the_wish_for_gzip(header: str, accepted: bool) -> None:
    assert accepts_gzip(header.encode()) is accepted
