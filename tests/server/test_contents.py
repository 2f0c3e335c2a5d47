"""Entries, contents and differences over HTTP."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tests.server.helpers import UNKNOWN, Api, Z, delete, namespace, put, table

KEYS = [["B"], ["a"], ["a", "b"], ["a", "b", "c"], ["a!"], ["a.b"], ["z"]]


def put_path(elements: list[str], content: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "PUT", "key": {"elements": elements}, "content": content or table()}


@pytest.fixture
def filled(api: Api) -> Api:
    spaces = {("a",), ("a", "b")}
    api.commit(*(put_path(k, namespace(*k) if tuple(k) in spaces else table()) for k in reversed(KEYS)))
    return api


def names(answer: dict[str, Any]) -> list[list[str]]:
    return [row["name"]["elements"] for row in answer["entries"]]


def test_entries_are_in_the_order_of_paths(filled: Api) -> None:
    answer = filled.get("trees/main/entries")
    assert names(answer) == KEYS
    assert answer["effectiveReference"] == {"type": "BRANCH", "name": "main", "hash": filled.head()}
    assert {row["content"] for row in answer["entries"]} == {None}
    assert answer["entries"][0]["type"] == "ICEBERG_TABLE" and answer["entries"][1]["type"] == "NAMESPACE"
    whole = filled.get("trees/main/entries", content="true")["entries"]
    assert [row["content"]["id"] for row in whole] == [row["contentId"] for row in answer["entries"]]


@pytest.mark.parametrize(
    ("params", "found"),
    [
        ({"min-key": "a"}, KEYS[1:]),
        ({"max-key": "a"}, KEYS[:2]),
        ({"min-key": "a", "max-key": "a!"}, KEYS[1:5]),
        ({"prefix-key": "a"}, KEYS[1:4]),
        ({"prefix-key": "a.b"}, KEYS[2:4]),
        ({"prefix-key": ".a*.b"}, KEYS[5:6]),
        ({"prefix-key": "nope"}, []),
        ({"key": ["z", "a", "nope"]}, [["a"], ["z"]]),
        ({"key": ["z", "a", "a.b"], "prefix-key": "a"}, [["a"], ["a", "b"]]),
        ({"key": ["z", "a"], "min-key": "b"}, [["z"]]),
        ({"key": "z", "max-key": "b"}, []),
        ({"min-key": "z", "max-key": "a"}, []),
    ],
)
def test_ranges_of_entries_and_differences(filled: Api, params: dict[str, Any], found: list[list[str]]) -> None:
    assert names(filled.get("trees/main/entries", **params)) == found
    diffs = filled.get(f"trees/@{Z}/diff/main", **params)["diffs"]
    assert [row["key"]["elements"] for row in diffs] == found


def test_a_prefix_and_a_range_contradict(filled: Api) -> None:
    for path in ("trees/main/entries", "trees/main/diff/main"):
        assert "prefix-key" in filled.get(path, 400, **{"prefix-key": "a", "min-key": "a"})["message"]


@pytest.mark.parametrize(
    "extra",
    [{}, {"prefix-key": "a"}, {"min-key": "a"}, {"key": ["z", "a", "B", "a!"]}, {"key": ["z", "A1", "A2", "A3", "A4"]}],
)
def test_pages_show_one_state_while_the_branch_moves(filled: Api, extra: dict[str, Any]) -> None:
    for path, rows in (("trees/main/entries", "entries"), (f"trees/@{Z}/diff/main", "diffs")):
        whole = filled.get(path, **extra)[rows]
        page = filled.get(path, **extra, **{"max-records": 1})
        found, hash = page[rows], filled.head()
        filled.commit(put(f"aa_{rows}"), put(f"c_{rows}"))
        while page["hasMore"]:
            page = filled.get(path, **extra, **{"max-records": 2, "page-token": page["token"]})
            found += page[rows]
        assert found == whole
        effective = page.get("effectiveReference") or page["effectiveToReference"]
        assert effective == {"type": "BRANCH", "name": "main", "hash": hash}


def test_a_token_of_another_listing_is_refused(filled: Api) -> None:
    token = filled.get("trees/main/entries", **{"max-records": 1})["token"]
    for path in ("trees/main/diff/main", "trees/main/history", "trees"):
        assert filled.get(path, 400, **{"page-token": token})["message"].startswith("page-token")
    for bad in ("x", "%%%", "AAAA", "é", token[:-3], "W10", "bnVsbA"):
        assert filled.get("trees/main/entries", 400, **{"page-token": bad})["errorCode"] == "BAD_REQUEST"


@pytest.mark.parametrize("path", ["trees/main/entries", "trees/main/history", f"trees/@{Z}/diff/main"])
def test_a_token_that_names_no_commit_is_refused(filled: Api, path: str) -> None:
    filled.commit(put("more"))
    token = filled.get(path, **{"max-records": 1})["token"]
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    for commit, status in (("z" * 64, 400), (UNKNOWN, 404)):
        forged = base64.urlsafe_b64encode(re.sub('"[0-9a-f]{64}"', f'"{commit}"', raw).encode()).decode()
        filled.get(path, status, **{"page-token": forged})


@pytest.mark.parametrize(
    ("path", "elements"),
    [
        ("a.b", ["a", "b"]),
        (".a.b", ["a", "b"]),
        ("a.b.", ["a", "b"]),
        (".a*.b", ["a.b"]),
        ("a%1Db", ["a.b"]),
        ("a%00b", ["a.b"]),
        ("s%2Fl%5C%25", ["s/l\\%"]),
        (".s*{l*}*[", ["s/l\\%"]),
        (".star**", ["star*"]),
        ("star*", ["star*"]),
        ("p+q", ["p+q"]),
        ("p%2Bq", ["p+q"]),
        ("at@x", ["at@x"]),
        (".*.", ["."]),
        ("%C3%A9%20%F0%9F%A6%86", ["é 🦆"]),
    ],
)
def test_keys_in_paths(api: Api, path: str, elements: list[str]) -> None:
    everything = [["a", "b"], ["a.b"], ["s/l\\%"], ["star*"], ["p+q"], ["at@x"], ["."], ["é 🦆"]]
    api.commit(put("a", namespace("a")), *(put_path(key, table(n)) for n, key in enumerate(everything)))
    assert api.get(f"trees/main/contents/{path}")["content"]["snapshotId"] == everything.index(elements)


@pytest.mark.parametrize("path", ["a..b", ".a*q", ".a*", "b...c", "a%01", "%FF", "a%EE%80%80b", "a/b"])
def test_malformed_keys_are_unknown_paths(api: Api, path: str) -> None:
    answer = api.http.send(api.http.build_request("GET", f"/api/v2/trees/main/contents/{path}"))
    assert (answer.status_code, answer.content) == (404, b"")


def test_one_content_or_its_key_in_the_error(filled: Api) -> None:
    answer = filled.get("trees/main/contents/B", **{"with-doc": "true", "for-write": "true"})
    assert answer["content"]["snapshotId"] == 1 and answer["effectiveReference"]["hash"] == filled.head()
    error = filled.get("trees/main/contents/.x*.y", 404)
    assert error["errorCode"] == "CONTENT_NOT_FOUND"
    assert error["errorDetails"] == {"type": "CONTENT_KEY", "contentKey": {"elements": ["x.y"]}}


def test_many_contents_without_the_missing_ones(filled: Api) -> None:
    asked = {"requestedKeys": [{"elements": ["z"]}, {"elements": ["nope"]}, {"elements": ["a"]}]}
    posted = filled.post("trees/main/contents", asked)
    assert [row["key"]["elements"] for row in posted["contents"]] == [["z"], ["a"]]
    assert filled.get("trees/main/contents", key=["z", "nope", "a"]) == posted
    for body in ({"requestedKeys": []}, {}, {"requestedKeys": [{"elements": [""]}]}):
        assert filled.post("trees/main/contents", body, 400)["errorCode"] == "BAD_REQUEST"
    assert filled.get("trees/main/contents", 400)["message"].startswith("key")
    assert filled.get(f"trees/@{UNKNOWN}/contents", 404, key="a")["errorCode"] == "REFERENCE_NOT_FOUND"


def test_a_diff_is_two_way_and_by_value(api: Api) -> None:
    ids = {name: api.add_table(name) for name in ("same", "changed", "dropped", "recreated")}
    api.branch("x")
    api.commit(put("changed", table(2, ids["changed"])), delete("dropped"), put("added"), ref="x")
    api.commit(delete("recreated"), put("recreated", table(3)), ref="x")
    api.add_table("on_main")
    answer = api.get("trees/main/diff/x")
    sides = {
        row["key"]["elements"][0]: tuple(side and side["snapshotId"] for side in (row["from"], row["to"]))
        for row in answer["diffs"]
    }
    assert sides == {
        "added": (None, 1),
        "changed": (1, 2),
        "dropped": (1, None),
        "on_main": (1, None),
        "recreated": (1, 3),
    }
    assert answer["effectiveFromReference"]["name"] == "main" and answer["effectiveToReference"]["name"] == "x"
    assert api.get("trees/main/diff/main")["diffs"] == []
    whole = api.get(f"trees/@{Z}/diff/@{api.head('x')}")
    assert [row["from"] for row in whole["diffs"]] == [None] * 4
    assert whole["effectiveFromReference"] == {"type": "DETACHED", "hash": Z}


def test_a_raw_at_in_a_key_is_no_reference(api: Api) -> None:
    api.commit(put_path(["k@v"]))
    assert api.get("trees/main/contents/k@v")["content"]
