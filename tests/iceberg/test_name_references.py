"""References that the names of tables and views choose, in paths and in bodies."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from tests.iceberg.bodies import VERSION
from tests.iceberg.helpers import SCHEMA, Json, create, error_of, kind_of, set_properties


@pytest.fixture
def branch(db: str, table: Json, new_branch: Callable[[], str]) -> str:
    """A branch with a slash in its name that has the table `t`."""
    return new_branch()


def at(db: str, name: str, kind: str = "tables") -> str:
    return f"{db}/{kind}/{quote(name, safe='')}"


def test_every_operation_on_a_table(http: httpx.Client, db: str, table: Json, namespace: str, branch: str) -> None:
    elsewhere = f"/v1/{quote(branch, safe='')}/namespaces/{namespace}"
    changed = http.post(at(db, f"t@{branch}"), json=set_properties(table, a="1")).json()
    assert http.get(f"{elsewhere}/tables/t").json() == changed
    create(http, db, f"new@{branch}")
    register = {"name": f"again@{branch}", "metadata-location": changed["metadata-location"]}
    assert http.post(f"{db}/register", json=register).status_code == 200
    names = {"source": {"namespace": [namespace], "name": f"new@{branch}"}}
    renamed = {**names, "destination": {"namespace": [namespace], "name": "newer"}}
    assert http.post("/v1/main/tables/rename", json=renamed).status_code == 204
    assert http.delete(at(db, f"again@{branch}")).status_code == 204
    assert [row["name"] for row in http.get(f"{elsewhere}/tables").json()["identifiers"]] == ["newer", "t"]
    assert [row["name"] for row in http.get(f"{db}/tables").json()["identifiers"]] == ["t"]
    assert http.get(f"{db}/tables/t").json() == table


def test_every_operation_on_a_view(http: httpx.Client, db: str, namespace: str, branch: str) -> None:
    view = {"name": f"v@{branch}", "schema": SCHEMA, "view-version": VERSION}
    created = http.post(f"{db}/views", json=view).json()
    path = at(db, f"v@{branch}", "views")
    assert http.get(path).json() == created
    changed = http.post(path, json={"updates": [{"action": "set-properties", "updates": {"a": "1"}}]}).json()
    assert changed["metadata"]["properties"]["a"] == "1"
    register = {"name": f"again@{branch}", "metadata-location": changed["metadata-location"]}
    assert http.post(f"{db}/register-view", json=register).status_code == 200
    source = {"namespace": [namespace], "name": f"v@{branch}"}
    renamed = {"source": source, "destination": {**source, "name": f"w@{branch}"}}
    assert http.post("/v1/main/views/rename", json=renamed).status_code == 204
    assert http.head(at(db, f"w@{branch}", "views")).status_code == 204
    assert http.delete(at(db, f"again@{branch}", "views")).status_code == 204
    assert http.get(f"{db}/views").json()["identifiers"] == []


def test_transactions(
    http: httpx.Client, nessie: NessieClient, db: str, table: Json, namespace: str, branch: str
) -> None:
    create(http, db, f"u@{branch}")
    other = http.get(at(db, f"u@{branch}")).json()

    def commit(*names: str) -> httpx.Response:
        tables = zip(names, (table, other), strict=False)
        changes = [
            {"identifier": {"namespace": [namespace], "name": name}, **set_properties(state, a="1")}
            for name, state in tables
        ]
        return http.post("/v1/main/transactions/commit", json={"table-changes": changes})

    head = nessie.get_reference("main")
    code, kind, message = error_of(commit("t", f"u@{branch}"))
    assert (code, kind) == (400, "BadRequestException") and "one branch" in message
    assert commit(f"t@{branch}", f"u@{branch}").status_code == 204
    assert nessie.get_reference("main") == head
    for name in "tu":
        assert http.get(at(db, f"{name}@{branch}")).json()["metadata"]["properties"]["a"] == "1"


def test_the_past(http: httpx.Client, nessie: NessieClient, db: str, table: Json, branch: str) -> None:
    before = nessie.get_reference(branch).hash
    newer = http.post(at(db, f"t@{branch}"), json=set_properties(table, a="1")).json()
    for name in (f"t@{branch}#{before}", f"t#{before}", "t@main#2999-01-01T00:00:00Z", "t#2999-01-01"):
        assert http.get(at(db, name)).json() == table
    assert http.get(at(db, f"t@{branch}#2999-01-01T00:00:00Z")).json() == newer
    at_a_commit = db.replace("/main/", f"/main@{before}/")
    assert http.get(at(at_a_commit, "t")).json() == table
    assert http.get(at(at_a_commit, "t#2999-01-01")).json() == table


def test_what_cannot_be_written(
    http: httpx.Client, nessie: NessieClient, db: str, table: Json, namespace: str, branch: str
) -> None:
    head = nessie.get_reference("main")
    tag = nessie.create_reference(ReferenceType.TAG, f"tag-{namespace}", head.hash).name
    for ref in (f"@{tag}", f"#{head.hash}", f"@main#{head.hash}", "#2999-01-01T00:00:00Z", f"@{branch}#2999-01-01"):
        identifier = {"namespace": [namespace], "name": f"t{ref}"}
        for path, body in (
            (at(db, f"t{ref}"), set_properties(table, a="1")),
            (f"{db}/tables", {"name": f"x{ref}", "schema": SCHEMA}),
            (f"{db}/views", {"name": f"x{ref}", "schema": SCHEMA, "view-version": VERSION}),
            (f"{db}/register", {"name": f"x{ref}", "metadata-location": table["metadata-location"]}),
            ("/v1/main/tables/rename", {"source": identifier, "destination": {**identifier, "name": "x"}}),
            ("/v1/main/transactions/commit", {"table-changes": [{"identifier": identifier, "updates": []}]}),
        ):
            code, kind, message = error_of(http.post(path, json=body))
            assert (code, kind) == (400, "BadRequestException"), path
            assert "read-only" in message
        assert kind_of(http.delete(at(db, f"t{ref}"))) == (400, "BadRequestException")
    assert nessie.get_reference("main") == head


def test_what_cannot_be_meant(http: httpx.Client, nessie: NessieClient, db: str, table: Json, namespace: str) -> None:
    head = nessie.get_reference("main").hash
    assert kind_of(http.get(at(db, "t@nowhere"))) == (400, "NoSuchReferenceException")
    assert kind_of(http.get(at(db, "t@nowhere", "views"))) == (400, "NoSuchReferenceException")
    for name in ("t@", "t#", "t@main#", "t@#2026-01-01", "t#yesterday", f"t@main@{head}#{head}"):
        assert kind_of(http.get(at(db, name))) == (400, "BadRequestException"), name
    detached = db.replace("/main/", f"/@{head}/")
    code, _, message = error_of(http.get(at(detached, "t#2999-01-01T00:00:00Z")))
    assert code == 400 and "needs a branch" in message
    names = {"source": {"namespace": [namespace], "name": "t"}}
    across = {**names, "destination": {"namespace": [namespace], "name": "u@other"}}
    code, _, message = error_of(http.post("/v1/main/tables/rename", json=across))
    assert code == 400 and message.startswith("destination.name")
