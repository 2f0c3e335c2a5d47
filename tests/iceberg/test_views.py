"""View metadata: versions, schemas and history, by updates and over HTTP."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from nessie_ops.catalog.viewmetadata import apply_view_updates, check_view_requirements, new_view
from nessie_ops.errors import BadRequest, CommitFailed
from tests.iceberg.helpers import kind_of
from tests.iceberg.sites import Site

Json = dict[str, Any]
UUID_1 = "00000000-0000-4000-8000-000000000001"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
WIDER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"id": 2, "name": "x", "required": False, "type": "long"}]}  # type: ignore[misc]
USE = {"action": "set-current-view-version", "view-version-id": -1}


def version(sql: str, *, number: int = 1, schema_id: int = 0, at: int = 1000, dialects: str = "spark") -> Json:
    return {
        "version-id": number,
        "schema-id": schema_id,
        "timestamp-ms": at,
        "summary": {"engine-name": "spark"},
        "default-namespace": ["db"],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect in dialects.split(",")],
    }


def add(sql: str, **extra: Any) -> Json:
    return {"action": "add-view-version", "view-version": version(sql, **extra)}


def new(**properties: str) -> Json:
    return new_view("file:///wh/db/v", UUID_1, SCHEMA, version("SELECT 1"), properties)


def after(view: Json, *updates: Json) -> Json:
    return apply_view_updates(view, updates, now_ms=5000)


def test_new() -> None:
    view = new(team="ops")
    assert (view["view-uuid"], view["format-version"], view["current-version-id"]) == (UUID_1, 1, 1)
    assert view["version-log"] == [{"timestamp-ms": 1000, "version-id": 1}]
    assert [s["schema-id"] for s in view["schemas"]] == [0]
    assert view["properties"] == {"team": "ops"}


def test_replace() -> None:
    view = new()
    before = str(view)
    add_schema = {"action": "add-schema", "schema": WIDER}
    replaced = after(view, add_schema, add("SELECT 2", number=2, schema_id=-1, at=2000), USE)
    assert str(view) == before
    assert replaced["current-version-id"] == 2
    assert [v["schema-id"] for v in replaced["versions"]] == [0, 1]
    assert [entry["timestamp-ms"] for entry in replaced["version-log"]] == [1000, 2000]


def test_ids_are_given_by_the_catalog() -> None:
    """Two clients may both propose version 2; the second gets 3."""
    view = after(new(), add("SELECT 2", number=2), USE)
    set_it = {"action": "set-current-view-version", "view-version-id": 2}
    view = after(view, add("SELECT 3", number=2), set_it)
    assert view["current-version-id"] == 3
    assert [v["representations"][0]["sql"] for v in view["versions"]] == ["SELECT 1", "SELECT 2", "SELECT 3"]


def test_a_schema_is_named_by_its_proposed_id() -> None:
    add_schema = {"action": "add-schema", "schema": {**WIDER, "schema-id": 0}}
    view = after(new(), add_schema, add("SELECT 2", schema_id=0), USE)
    assert [v["schema-id"] for v in view["versions"]] == [0, 1]


def test_nulls_are_left_out() -> None:
    """As absent fields: readers take them for values of a wrong type."""
    given = {**version("SELECT 2"), "summary": None, "default-catalog": None}
    view = after(new(), {"action": "add-view-version", "view-version": given}, USE)
    assert (view["versions"][1]["summary"], "default-catalog" in view["versions"][1]) == ({}, False)


def test_the_same_is_stored_once() -> None:
    view = after(new(), add("SELECT 2"), USE)
    add_schema = {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 8}}
    back = after(view, add_schema, add("SELECT 1", schema_id=-1, number=3, at=9000), USE)
    assert len(back["versions"]) == 2
    assert len(back["schemas"]) == 1
    assert back["current-version-id"] == 1
    assert [entry["version-id"] for entry in back["version-log"]] == [1, 2, 1]
    assert after(back, add("SELECT 1", number=9), USE) == back


def test_history_is_bounded_and_keeps_the_current_version() -> None:
    view = new(**{"version.history.num-entries": "2"})
    for number in range(2, 6):
        view = after(view, add(f"SELECT {number}"), USE)
    assert [v["version-id"] for v in view["versions"]] == [4, 5]
    assert [entry["version-id"] for entry in view["version-log"]] == [4, 5]
    one = {"action": "set-properties", "updates": {"version.history.num-entries": "1"}}
    view = after(view, {"action": "set-current-view-version", "view-version-id": 4}, one)
    assert [v["version-id"] for v in view["versions"]] == [4]


def test_properties_location_and_dialects() -> None:
    view = after(
        new(a="1"),
        {"action": "set-properties", "updates": {"b": "2"}},
        {"action": "remove-properties", "removals": ["a", "never"]},
        {"action": "set-location", "location": "file:///wh/db/w/"},
        add("SELECT 2", dialects="spark,trino"),
        USE,
    )
    assert (view["properties"], view["location"]) == ({"b": "2"}, "file:///wh/db/w")
    with pytest.raises(BadRequest, match="trino"):
        after(view, add("SELECT 3"), USE)
    allowed = {"action": "set-properties", "updates": {"replace.drop-dialect.allowed": "true"}}
    assert after(view, allowed, add("SELECT 3"), USE)["current-version-id"] == 3


def test_requirements() -> None:
    check_view_requirements(new(), [{"type": "assert-view-uuid", "uuid": UUID_1.upper()}], "db.v")
    with pytest.raises(CommitFailed, match=r"View db\.v"):
        check_view_requirements(new(), [{"type": "assert-view-uuid", "uuid": UUID_1[:-1] + "2"}], "db.v")
    with pytest.raises(BadRequest, match=r"requirements\[0\]"):
        check_view_requirements(new(), [{"type": "assert-create"}], "db.v")
    with pytest.raises(BadRequest, match=r"requirements\[0\]\.uuid"):
        check_view_requirements(new(), [{"type": "assert-view-uuid", "uuid": "x"}], "db.v")


@pytest.mark.parametrize(
    ("update", "part"),
    [
        ({"action": "magic"}, r"updates\[0\]\.action"),
        ({"action": "assign-uuid", "uuid": UUID_1[:-1] + "2"}, "cannot be changed"),
        ({"action": "assign-uuid", "uuid": 5}, "not a UUID"),
        ({"action": "upgrade-format-version", "format-version": 2}, "format-version"),
        ({"action": "add-schema"}, "schema"),
        ({"action": "set-location", "location": 1}, "location"),
        ({"action": "set-properties", "updates": {"a": 1}}, "updates"),
        ({"action": "remove-properties", "removals": "a"}, "removals"),
        ({"action": "remove-properties", "removals": [[]]}, "removals"),
        ({"action": "add-view-version", "view-version": 1}, "view-version"),
        ({"action": "add-view-version", "view-version": {**version("x"), "schema-id": 9}}, "no schema 9"),
        ({"action": "add-view-version", "view-version": {**version("x"), "representations": []}}, "representations"),
        ({"action": "add-view-version", "view-version": {**version("x"), "timestamp-ms": "1"}}, "timestamp-ms"),
        (add("SELECT 1", dialects="spark,SPARK"), "twice"),
        (add(""), "sql"),
        ({"action": "set-current-view-version", "view-version-id": 9}, "no version 9"),
        ({"action": "set-current-view-version", "view-version-id": True}, "integer"),
        ({"action": "set-properties", "updates": {"version.history.num-entries": "0"}}, "num-entries"),
        ({"action": "add-view-version", "view-version": {**version("x"), "summary": 5}}, r"view-version\.summary"),
        ({"action": "add-view-version", "view-version": {**version("x"), "summary": {"a": 1}}}, "summary"),
        ({"action": "add-view-version", "view-version": {**version("x"), "default-namespace": [1]}}, "namespace"),
        ({"action": "add-view-version", "view-version": {**version("x"), "default-catalog": 5}}, "default-catalog"),
        ({"action": "add-view-version", "view-version": {**version("x"), "timestamp-ms": -1}}, "timestamp-ms"),
        ({"action": "add-view-version", "view-version": {**version("x"), "version-id": 2**40}}, "version-id"),
    ],
)
def test_senseless_updates(update: Json, part: str) -> None:
    with pytest.raises(BadRequest, match=part):
        after(new(), update)


def test_over_http(http: httpx.Client, namespace: str) -> None:
    db = f"/v1/main/namespaces/{namespace}"
    http.post("/v1/main/namespaces", json={"namespace": [namespace]})
    body = {"name": "v", "schema": SCHEMA, "view-version": version("SELECT 1"), "properties": {"a": "1"}}
    created = http.post(f"{db}/views", json=body).json()
    assert created == http.get(f"{db}/views/v").json()
    assert http.head(f"{db}/views/v").status_code == 204
    assert http.post(f"{db}/views", json=body).status_code == 409
    assert http.post(f"{db}/tables", json={"name": "v", "schema": SCHEMA}).status_code == 409
    commit = {"requirements": [{"type": "assert-view-uuid", "uuid": created["metadata"]["view-uuid"]}]}
    replaced = http.post(f"{db}/views/v", json={**commit, "updates": [add("SELECT 2"), USE]}).json()
    assert replaced["metadata"]["current-version-id"] == 2
    assert replaced["metadata-location"].rpartition("/")[2].startswith("00001-")
    same = http.post(f"{db}/views/v", json={**commit, "updates": [USE | {"view-version-id": 2}]}).json()
    assert same == replaced
    moved = {"source": {"namespace": [namespace], "name": "v"}, "destination": {"namespace": [namespace], "name": "w"}}
    assert http.post("/v1/main/tables/rename", json=moved).status_code == 404
    assert http.post("/v1/main/views/rename", json=moved).status_code == 204
    assert http.get(f"{db}/views").json() == {"identifiers": [{"namespace": [namespace], "name": "w"}]}
    assert http.get(f"{db}/tables").json() == {"identifiers": []}
    assert http.delete(f"{db}/views/w").status_code == 204
    location = replaced["metadata-location"]
    again = http.post(f"{db}/register-view", json={"name": "v", "metadata-location": location})
    assert again.json() == replaced
    outside = {"action": "set-location", "location": "file:///etc"}
    assert http.post(f"{db}/views/v", json={"updates": [outside]}).status_code == 400
    table_file = http.post(f"{db}/tables", json={"name": "t", "schema": SCHEMA}).json()["metadata-location"]
    wrong = http.post(f"{db}/register-view", json={"name": "x", "metadata-location": table_file})
    assert wrong.status_code == 400


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        (("format-version",), 99),
        (("view-uuid",), "abc"),
        (("version-log", 0), {"version-id": 1}),
        (("schemas", 0, "fields"), 5),
        (("schemas", 0, "fields", 0, "type"), "nonsense"),
        (("versions", 0, "schema-id"), 77),
        (("versions", 0, "summary"), 5),
        (("versions", 0, "default-namespace"), None),
        (("versions", 0, "representations"), []),
        (("versions", 0, "representations", 0), {"type": "sql", "dialect": "spark"}),
    ],
)
def test_what_readers_cannot_read_is_not_registered(site: Site, part: tuple[str | int, ...], wrong: object) -> None:
    place = Path(site.view["metadata-location"].removeprefix("file://")).with_name(f"{uuid4()}.metadata.json")
    metadata = copy.deepcopy(site.view["metadata"])
    holder: Any = metadata
    for step in part[:-1]:
        holder = holder[step]
    holder[part[-1]] = wrong
    place.write_text(json.dumps(metadata))
    body = {"name": "registered", "metadata-location": place.as_uri()}
    answer = site.http.post("/namespaces/db/register-view", json=body)
    assert kind_of(answer) == (400, "BadRequestException")
    assert "metadata" in answer.json()["error"]["message"]
    assert site.http.head("/namespaces/db/views/registered").status_code == 404
