"""CEL filters over HTTP: what they see, that they are refused when wrong, and that pages stay true."""

from __future__ import annotations

from typing import Any

import pytest

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey, ContentType, Entry
from nessie_ops.server.filter_variables import ENTRIES
from nessie_ops.server.filters import SCAN_S, Filter, chunks, select
from tests.server.helpers import Api, Z, delete, namespace, put, view

LISTINGS = ("trees", "trees/main/entries", "trees/main/history", "trees/main/diff/main")


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [row["name"] for row in rows]


def keys(rows: list[dict[str, Any]], field: str = "name") -> list[str]:
    return [".".join(row[field]["elements"]) for row in rows]


def pages(api: Api, path: str, rows: str, **params: Any) -> list[list[dict[str, Any]]]:
    """Every page of a listing."""
    found, token = [], ""
    while True:
        page = api.get(path, **params, **({"page-token": token} if token else {}))
        found.append(page[rows])
        assert page["hasMore"] == (page["token"] is not None)
        token = page["token"]
        if not token:
            return found


@pytest.mark.parametrize("path", LISTINGS)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a ==", "Failed to parse"),
        ("nope == 1", "'nope' does not exist"),
        ("false && nope", "'nope' does not exist"),
        ("'a'.lowerAscii() == 'a'", "'lowerAscii' does not exist"),
        ("1", "must be true or false"),
        ("size('a') > 'b'", "cannot be evaluated"),
        ("'a'.matches('[')", "cannot be evaluated"),
        ("a.b{c: 1} == 1", "cannot be evaluated"),
        ("[1].exists(x, [1].exists(y, [1].exists(z, x == z)))", "nested"),
        ("[1].map(x, [x].map(y, y)) == []", "nested"),
        ("[1].map(x, x).map(x, x).map(x, x) == []", "at most 2"),
        (" || ".join(["[1].exists(x, x == 2)"] * 9), "9 macros"),
        ("true" + " " * 2000, "2004 characters"),
        ("(" * 900 + "true" + ")" * 900, "Failed to parse"),
    ],
)
def test_a_wrong_filter_is_refused_on_an_empty_listing_too(api: Api, path: str, text: str, reason: str) -> None:
    error = api.get(path, 400, filter=text)
    assert error["errorCode"] == "BAD_REQUEST"
    assert error["message"].startswith("filter: ")
    assert reason in error["message"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("trees", "metadata.numCommitsAhead > 0"),
        ("trees", "false && ref.type == 'BRANCH'"),
        ("trees", "ref.metadata.commitMetaOfHEAD.nope == 'x'"),
        ("trees/main/entries", "has(entry.type)"),
        ("trees/main/entries", "entry.keyElements.exists(e, e.nope == 'x')"),
        ("trees/main/history", "commit.message == 'x' && operations[0].content.nope == 'x'"),
        ("trees/main/history", "operations.exists(op, op.content.nope == 'x')"),
        ("trees/main/history", "commit.commitTime > '2026-01-01T00:00:00Z'"),
        ("trees/main/history", "operations.exists(a, operations.exists(b, a.key == b.key))"),
        ("trees/main/diff/main", "key.contentType == 'NAMESPACE'"),
    ],
)
def test_unknown_fields_and_wrong_types_are_refused_before_a_row_is_read(api: Api, path: str, text: str) -> None:
    assert api.get(path, 400, filter=text)["message"].startswith("filter: ")


def test_entries(api: Api) -> None:
    api.commit(put("a", namespace("a")), put("b", namespace("b")))
    dotted = {"type": "PUT", "key": {"elements": ["a", "x.y"]}, "content": view()}
    api.commit(put("a.t"), put("b.t"), put("t"), dotted)
    cases = {
        "entry.contentType == 'ICEBERG_TABLE' && size(entry.keyElements) == 2": ["a.t", "b.t"],
        "entry.encodedKey.startsWith('a')": ["a", "a.t", "a.x.y"],
        "entry.namespace.startsWith('a')": ["a.t", "a.x.y"],
        "entry.contentType in ['NAMESPACE', 'ICEBERG_VIEW']": ["a", "a.x.y", "b"],
        "entry.key == 'a.x.y'": ["a.x.y"],
        "entry.encodedKey == 'a.x\\u001dy'": ["a.x.y"],
        "entry.namespaceElements == [] && entry.name.matches('^[ab]$')": ["a", "b"],
        "entry.keyElements.all(e, e == 't')": ["t"],
        "false": [],
    }
    for text, expected in cases.items():
        assert keys(api.get("trees/main/entries", filter=text)["entries"]) == expected, text


def test_filters_apply_to_asked_keys_and_ranges(api: Api) -> None:
    api.commit(*(put(name) for name in "abcd"))
    wanted = {"filter": "entry.name != 'b'"}
    assert keys(api.get("trees/main/entries", key=["a", "b", "d"], **wanted)["entries"]) == ["a", "d"]
    assert keys(api.get("trees/main/entries", **{"min-key": "b"}, **wanted)["entries"]) == ["c", "d"]
    diff = api.get(f"trees/@{Z}/diff/main", filter="key.key in ['a', 'c']")
    assert keys(diff["diffs"], "key") == ["a", "c"]


def test_a_filter_comes_before_counting(api: Api) -> None:
    api.commit(*(put(f"t{n:04}") for n in range(1200)))
    text = "entry.name.endsWith('7')"
    found = pages(api, "trees/main/entries", "entries", filter=text, **{"max-records": 50})
    assert [len(page) for page in found] == [50, 50, 20]
    assert [key for page in found for key in keys(page)] == [f"t{n:04}" for n in range(7, 1200, 10)]
    found = pages(api, f"trees/@{Z}/diff/main", "diffs", filter="key.name.endsWith('7')", **{"max-records": 60})
    assert [len(page) for page in found] == [60, 60]


def test_history(api: Api) -> None:
    api.commit(put("a"))
    api.commit(put("b"), put("v", view()))
    api.commit(delete("a"))
    log = "trees/main/history"

    def written(text: str, fetch: str = "ALL") -> int:
        return len(api.get(log, filter=text, fetch=fetch)["logEntries"])

    assert written("operations.exists(op, op.type == 'DELETE')") == 1
    assert written("operations.exists(op, op.type == 'PUT' && op.content.type == 'ICEBERG_VIEW')") == 1
    assert written("operations.exists(op, op.key == 'a')") == 2
    assert written("operations.exists(op, op.key == 'a')", "MINIMAL") == 0
    assert written("operations.filter(op, op.type == 'PUT').size() == 2") == 1
    assert written("timestamp(commit.commitTime) <= timestamp('2020-01-01T00:00:00Z')") == 0
    assert written("commit.author == '' && commit.authors == [''] && size(commit.allSignedOffBy) == 0") == 3
    assert written("size(commit.parentCommitHashes) == 1 && !has(commit.properties.x)") == 3


def test_limit_hash_stops_the_log_even_when_the_filter_rejects_it(api: Api) -> None:
    hashes = [api.commit(put(f"t{n}"))["targetBranch"]["hash"] for n in range(6)]
    text = f"commit.hash != '{hashes[3]}'"
    found = pages(api, "trees/main/history", "logEntries", filter=text, **{"limit-hash": hashes[3], "max-records": 1})
    assert [row["commitMeta"]["hash"] for page in found for row in page] == [hashes[5], hashes[4]]


def test_history_pages(api: Api) -> None:
    for n in range(12):
        api.commit(put(f"t{n}"))
    text = "operations.exists(op, op.name.endsWith('0') || op.name.endsWith('5'))"
    found = pages(api, "trees/main/history", "logEntries", filter=text, fetch="ALL", **{"max-records": 2})
    written = [[keys(row["operations"], "key") for row in page] for page in found]
    assert written == [[["t10"], ["t5"]], [["t0"]]]


def test_references(api: Api) -> None:
    api.add_table("t")
    for name in ("x1", "x2", "y"):
        api.branch(name)
    api.branch("v1", kind="TAG")
    api.add_table("u", "x1")

    def found(text: str, fetch: str = "ALL") -> list[str]:
        return names(api.get("trees", filter=text, fetch=fetch)["references"])

    assert found("ref.name.startsWith('x')", "MINIMAL") == ["x1", "x2"]
    assert found("refType == 'TAG'", "MINIMAL") == ["v1"]
    assert found("refMeta.numCommitsAhead != null && refMeta.numCommitsAhead > 0") == ["x1"]
    assert found("commit.message == 'm' && refMeta.numTotalCommits == 2") == ["x1"]
    assert found("ref.metadata.commitMetaOfHEAD.message == 'm'", "MINIMAL") == []
    listed = pages(api, "trees", "references", filter="ref.name != 'x1'", **{"max-records": 2})
    assert [names(page) for page in listed] == [["main", "x2"], ["y", "v1"]]


def test_an_error_on_a_row_refuses_the_request(api: Api) -> None:
    api.add_table("t")
    api.branch("x")
    null = api.get("trees", 400, filter="refMeta.numCommitsAhead > 0", fetch="ALL")
    assert "!= null" in null["message"]
    missing = api.get("trees/main/history", 400, filter="commit.properties['k'] == 'v'")
    assert "'k'" in missing["message"]
    assert api.get("trees/main/history", filter="'k' in commit.properties")["logEntries"] == []


def test_the_client_filters(base_uri: str, api: Api) -> None:
    for n in range(3):
        api.add_table(f"t{n}")
    api.branch("x")
    with NessieClient(base_uri) as client:
        head = client.get_reference("main").hash
        assert [ref.name for ref in client.list_references(filter="refMeta.numTotalCommits == 3")] == ["main", "x"]
        assert [str(entry.name) for entry in client.list_entries(head, filter="entry.name != 't1'")] == ["t0", "t2"]
        log = client.list_log(head, filter="operations.exists(op, op.name == 't1')", with_operations=True)
        assert [entry.commit_meta.hash for entry in log] == [client.resolve("main~1").hash]
        first = client.resolve("main~2").hash
        assert [str(row.key) for row in client.diff(first, head, filter="key.name != 't1'")] == ["t2"]
        with pytest.raises(BadRequest, match="nope"):
            client.list_entries(head, filter="nope")


def entry(n: int) -> Entry:
    return Entry(ContentType.UDF, ContentKey((f"k{n:03}",)), "id")  # type: ignore[arg-type]


def test_a_scan_is_bounded_by_rows_and_by_time() -> None:
    rows = [entry(n) for n in range(100)]
    wanted = Filter("entry.name == 'k099'", ENTRIES)
    assert select(rows, wanted, 10, scan=30) == ([], rows[30])
    assert select(rows, wanted, 10, scan=100) == ([rows[99]], None)
    clock = iter([0.0, *(0.1 * n for n in range(100))])
    page, following = select(rows, wanted, 10, clock=lambda: next(clock))
    assert (page, following) == ([], rows[int(SCAN_S * 10) + 2])


def test_chunks_join() -> None:
    def load(first: int, count: int) -> list[int]:
        return list(range(first, min(first + count, 10)))

    for size in (1, 3, 5, 10, 11):
        assert list(chunks(load(0, size), lambda last, count: load(last + 1, count), size)) == list(range(10))
