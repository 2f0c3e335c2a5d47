"""`Idempotency-Key`: what is sent again with its key is answered as the first time, and done once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from nessie_ops.errors import BadRequest
from nessie_ops.server.iceberg_config import show_duration
from nessie_ops.server.settings import Settings
from tests.iceberg.helpers import SCHEMA, new_key, set_properties
from tests.server.helpers import Api, key, put, running_server, table

Json = dict[str, Any]
Call = tuple[str, str, Json | None]
_numbers = itertools.count(1)
UNLIKE = {"date", "transfer-encoding"}  # headers that an answer has anyhow, or never


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with running_server(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse") as uri:
        client = Api(uri)
        yield client
        client.http.close()


def moves(api: Api) -> list[Json]:
    return list(api.get("reference-log")["moves"])


def fill(api: Api) -> None:
    """A namespace with a table and a view on main, an empty one, and `side` with a commit of its own."""
    ice = "/iceberg/v1/main/namespaces"
    for path, body in (
        (ice, {"namespace": ["db"]}),
        (ice, {"namespace": ["empty"]}),
        (f"{ice}/db/tables", {"name": "t", "schema": SCHEMA}),
        (f"{ice}/db/views", VIEW),
    ):
        answer = api.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
    api.branch("side")
    api.commit(put("x", table(1)), ref="side")


def fork(api: Api) -> str:
    """A suffix for references of one's own: `b` and `old` at main, `side`, a tag."""
    number = next(_numbers)
    for name, at in (("b", "main"), ("old", "main"), ("side", "side")):
        api.branch(f"{name}{number}", api.head(at))
    api.branch(f"tag{number}", kind="TAG")
    return str(number)


VIEW: Json = {
    "name": "v",
    "schema": SCHEMA | {"schema-id": 0},
    "view-version": {
        "version-id": 1,
        "timestamp-ms": 1,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["db"],
    },
    "properties": {},
}


def calls(api: Api, n: str) -> dict[str, Call]:
    """Every kind of request that writes, at the references with the suffix `n`."""
    return nessie_calls(api, n) | iceberg_calls(api, f"/iceberg/v1/b{n}/")


def nessie_calls(api: Api, n: str) -> dict[str, Call]:
    main, side, old = api.head(), api.head("side"), api.head("main")
    branch = {"type": "BRANCH", "name": "side", "hash": side}
    body = {"commitMeta": {"message": "m"}, "operations": [put("y", table(2))]}
    merge, transplant = {"fromRefName": "side", "fromHash": side}, {"fromRefName": "side", "hashesToTransplant": [side]}
    v2, v1 = "/api/v2/", "/api/v1/"
    config = {"type": "GARBAGE_COLLECTOR", "defaultCutoffPolicy": "PT1H"}
    return {
        "commit": ("POST", f"{v2}trees/b{n}@{main}/history/commit", body),
        "merge": ("POST", f"{v2}trees/b{n}@{main}/history/merge", merge),
        "dry merge": ("POST", f"{v2}trees/b{n}@{main}/history/merge", merge | {"isDryRun": True}),
        "transplant": ("POST", f"{v2}trees/b{n}@{main}/history/transplant", transplant),
        "revert": ("POST", f"{v2}trees/side{n}@{side}/history/revert", {"commitHash": side}),
        "revert keys": (
            "POST",
            f"{v2}trees/side{n}@{side}/history/revert",
            {"keys": [key("x")], "sourceRef": "main", "allowDeletes": True},
        ),
        "create": ("POST", f"{v2}trees?name=new{n}&type=BRANCH", branch),
        "assign": ("PUT", f"{v2}trees/old{n}@{old}", branch),
        "delete": ("DELETE", f"{v2}trees/old{n}@{old}", None),
        "properties": ("PUT", f"{v2}trees/old{n}@{old}/properties", {"updates": {"a": "b"}}),
        "config": ("POST", f"{v2}config/repository", {"config": config}),
        "v1 commit": ("POST", f"{v1}trees/branch/b{n}/commit?expectedHash={main}", body),
        "v1 merge": ("POST", f"{v1}trees/branch/b{n}/merge?expectedHash={main}", merge),
        "v1 transplant": ("POST", f"{v1}trees/branch/b{n}/transplant?expectedHash={main}", transplant),
        "v1 create": ("POST", f"{v1}trees/tree", {"type": "BRANCH", "name": f"new{n}", "hash": side}),
        "v1 assign": ("PUT", f"{v1}trees/branch/old{n}?expectedHash={old}", branch),
        "v1 assign tag": ("PUT", f"{v1}trees/tag/tag{n}?expectedHash={old}", branch),
        "v1 delete": ("DELETE", f"{v1}trees/branch/old{n}?expectedHash={old}", None),
        "v1 delete tag": ("DELETE", f"{v1}trees/tag/tag{n}?expectedHash={old}", None),
        "v1 namespace": ("PUT", f"{v1}namespaces/namespace/b{n}/ns", {"properties": {"a": "b"}}),
        "v1 drop namespace": ("DELETE", f"{v1}namespaces/namespace/b{n}/empty", None),
        "v1 update namespace": ("POST", f"{v1}namespaces/namespace/b{n}/db", {"propertyUpdates": {"a": "b"}}),
    }


def iceberg_calls(api: Api, ice: str) -> dict[str, Call]:
    loaded = api.http.get("/iceberg/v1/main/namespaces/db/tables/t").json()
    view = api.http.get("/iceberg/v1/main/namespaces/db/views/v").json()
    change = set_properties(loaded, a="1")
    names = {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": ["db"], "name": "u"}}
    view_names = {"source": {"namespace": ["db"], "name": "v"}, "destination": {"namespace": ["db"], "name": "w"}}
    return {
        "create namespace": ("POST", f"{ice}namespaces", {"namespace": ["ns"], "properties": {"a": "b"}}),
        "update namespace": ("POST", f"{ice}namespaces/db/properties", {"updates": {"a": "b"}, "removals": ["c"]}),
        "drop namespace": ("DELETE", f"{ice}namespaces/empty", None),
        "create table": ("POST", f"{ice}namespaces/db/tables", {"name": "new", "schema": SCHEMA}),
        "stage table": ("POST", f"{ice}namespaces/db/tables", {"name": "n", "schema": SCHEMA, "stage-create": True}),
        "commit table": ("POST", f"{ice}namespaces/db/tables/t", change),
        "check table": ("POST", f"{ice}namespaces/db/tables/t", change | {"updates": []}),
        "drop table": ("DELETE", f"{ice}namespaces/db/tables/t?purgeRequested=true", None),
        "rename table": ("POST", f"{ice}tables/rename", names),
        "register table": (
            "POST",
            f"{ice}namespaces/db/register",
            {"name": "r", "metadata-location": loaded["metadata-location"]},
        ),
        "transaction": (
            "POST",
            f"{ice}transactions/commit",
            {"table-changes": [change | {"identifier": names["source"]}]},
        ),
        "create view": ("POST", f"{ice}namespaces/db/views", VIEW | {"name": "new"}),
        "commit view": (
            "POST",
            f"{ice}namespaces/db/views/v",
            {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]},
        ),
        "drop view": ("DELETE", f"{ice}namespaces/db/views/v", None),
        "rename view": ("POST", f"{ice}views/rename", view_names),
        "register view": (
            "POST",
            f"{ice}namespaces/db/register-view",
            {"name": "r", "metadata-location": view["metadata-location"]},
        ),
    }


def send(api: Api, call: Call, headers: dict[str, str] | None = None) -> httpx.Response:
    method, path, body = call
    return api.http.request(method, path, json=body, headers=headers)


def told(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    return answer.status_code, answer.content, {k: v for k, v in answer.headers.items() if k not in UNLIKE}


WRITELESS = {"dry merge", "stage table", "check table"}


def shape(answer: httpx.Response) -> tuple[int, Any, dict[str, str]]:
    """What two answers to like requests have in common."""
    headers = {k: v for k, v in answer.headers.items() if k not in UNLIKE | {"content-length", "etag"}}
    headers |= {"etag": "any"} if "etag" in answer.headers else {}
    fields = sorted(answer.json()) if answer.content else None
    return answer.status_code, fields, headers


def test_every_write_is_done_once_and_answered_alike(api: Api, tmp_path: Path) -> None:
    fill(api)
    names = list(calls(api, "0"))
    assert len(names) == 38
    for name in names:
        check_one(api, name, tmp_path / "warehouse")


def files_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_one(api: Api, name: str, warehouse: Path) -> None:
    call, header = calls(api, fork(api))[name], new_key()
    before = moves(api)
    first = send(api, call, header)
    assert first.status_code in (200, 204), (name, first.text)
    after, files = moves(api), files_in(warehouse)
    assert (after == before) is (name in WRITELESS | {"config"}), name
    for _ in range(2):
        assert told(send(api, call, header)) == told(first), name
    assert moves(api) == after and files_in(warehouse) == files, name
    method, path, body = call
    other = send(api, (method, path, {**(body or {}), "other": 1}), header)
    error = other.json()
    assert other.status_code == 422, name
    assert "Idempotency-Key" in (error["error"] if "/iceberg" in path else error)["message"]
    assert error["error"]["type"] == "UnprocessableEntityException" if "/iceberg" in path else error["status"] == 422
    assert moves(api) == after


def test_an_answer_with_a_key_is_like_one_without(api: Api) -> None:
    fill(api)
    for name in calls(api, "0"):
        keyed, plain = (
            shape(send(api, calls(api, fork(api))[name], headers)) for headers in (new_key(), dict[str, str]())
        )
        assert keyed == plain, name


def test_a_refusal_is_remembered_and_a_failure_is_not(api: Api) -> None:
    head, header = api.head(), new_key()
    stale = ("PUT", f"/api/v2/trees/gone@{head}", {"type": "BRANCH", "name": "main", "hash": head})
    first = send(api, stale, header)
    assert first.status_code == 404
    api.branch("gone")
    assert told(send(api, stale, header)) == told(first), "one key, one decision"
    assert send(api, stale, new_key()).status_code == 200


def test_tables_and_branches_that_are_called_like_reads(api: Api) -> None:
    ice = "/iceberg/v1/main/namespaces"
    api.http.post(ice, json={"namespace": ["tables"]})
    loaded = api.http.post(f"{ice}/tables/tables", json={"name": "metrics", "schema": SCHEMA}).json()
    assert api.http.post(f"{ice}/tables/tables", json={"name": "sign", "schema": SCHEMA}).is_success
    head = api.branch("contents")
    for call in (
        ("POST", f"{ice}/tables/tables/metrics", set_properties(loaded, a="1")),
        ("DELETE", f"{ice}/tables/tables/metrics", None),
        ("POST", f"{ice}/tables/tables/sign", {"requirements": [], "updates": []}),
        ("DELETE", f"/api/v2/trees/contents@{head}", None),
    ):
        header = new_key()
        first = send(api, call, header)
        assert first.is_success
        assert told(send(api, call, header)) == told(first)


@pytest.mark.parametrize("value", ["", "a b", "\u00e9".encode(), "x" * 256])
def test_a_malformed_key(api: Api, value: str | bytes) -> None:
    for path, body in (("/api/v2/trees?name=n&type=BRANCH", {}), ("/iceberg/v1/main/namespaces", {"namespace": ["n"]})):
        answer = api.http.post(path, json=body, headers={"Idempotency-Key": value})
        assert answer.status_code == 400 and "Idempotency-Key: must be " in answer.text
    assert len(moves(api)) == 1


@pytest.mark.parametrize("value", ["1", "create-branch/2026-01-31", "550E8400-e29b-41d4-a716-446655440000"])
def test_any_word_is_a_key_of_nessies_api_and_any_uuid_one_of_icebergs(api: Api, value: str) -> None:
    header = {"Idempotency-Key": value}
    source = api.http.get("/api/v2/trees/main").json()["reference"]
    first, second = (api.http.post("/api/v2/trees?name=n&type=BRANCH", json=source, headers=header) for _ in range(2))
    assert first.status_code == second.status_code == 200
    assert told(first) == told(second)
    answer = api.http.post("/iceberg/v1/main/namespaces", json={"namespace": ["n"]}, headers=header)
    assert answer.status_code == (422 if "-446655440000" in value else 400)


def test_more_that_cannot_be_meant(api: Api) -> None:
    header = new_key()
    twice = api.http.post(
        "/iceberg/v1/main/namespaces", json={"namespace": ["n"]}, headers=[*header.items(), *new_key().items()]
    )
    assert twice.status_code == 400
    for body, packed in ((b"{", None), (b"no gzip", "gzip")):
        headers = header | ({"Content-Encoding": packed} if packed else {})
        assert api.http.post("/api/v2/trees?name=n&type=TAG", content=body, headers=headers).status_code == 400
    hook = {"name": "h", "url": "http://127.0.0.1:1/"}
    assert api.http.post("/api/v2/subscribers", json=hook, headers=new_key()).status_code == 400


def test_reads_take_no_notice_of_a_key(api: Api) -> None:
    header = new_key()
    for _ in range(2):
        assert api.call("GET", "trees", headers=header).status_code == 200
        assert api.call("POST", "trees/main/contents", json={"requestedKeys": [key("a")]}, headers=header).is_success
    assert api.http.post("/iceberg/v1/main/namespaces", json={"namespace": ["n"]}, headers=header).is_success


def test_the_configuration_says_how_long_keys_live(api: Api) -> None:
    assert api.http.get("/iceberg/v1/config").json()["idempotency-key-lifetime"] == "PT30M"
    set_to = {"NESSIE_OPS_IDEMPOTENCY_KEY_LIFETIME": "PT90S", "NESSIE_OPS_HOME": "/nowhere"}
    found = Settings.from_env(store="sqlite://", warehouse="file:///w", env=set_to)
    assert (found.key_lifetime_s, show_duration(found.key_lifetime_s)) == (90, "PT90S")
    for wrong in ("30", "PT0S", "-PT1S", "P8D"):
        with pytest.raises(BadRequest, match=r"LIFETIME: '.*' is not a duration"):
            Settings.from_env(store="s", warehouse="w", env=set_to | {"NESSIE_OPS_IDEMPOTENCY_KEY_LIFETIME": wrong})
