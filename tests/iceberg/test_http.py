"""The Iceberg REST API as bytes on the wire: configuration, error bodies, pages, references, commits of many tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceType
from tests.iceberg.helpers import SCHEMA, Json, create, error_of, kind_of, set_properties


class TestConfig:
    def test_default_branch(self, http: httpx.Client, base_uri: str, warehouse: str) -> None:
        config = http.get("/v1/config").json()
        assert config["defaults"]["prefix"] == "main"
        assert config["defaults"]["warehouse"] == warehouse
        assert config["overrides"]["uri"] == f"{base_uri}/iceberg/"
        assert config["overrides"]["nessie.is-nessie-catalog"] == "true"
        assert config["overrides"]["nessie.core-base-uri"] == f"{base_uri}/api/"

    def test_branch_with_slash(self, http: httpx.Client) -> None:
        assert http.get("/run%2Fx/v1/config").json()["defaults"]["prefix"] == "run%2Fx"
        assert http.get("/run%2Fx@/v1/config").json()["defaults"]["prefix"] == "run%2Fx%40"

    def test_every_endpoint_that_is_announced_exists(self, http: httpx.Client, db: str, table: Json) -> None:
        for endpoint in http.get("/v1/config").json()["endpoints"]:
            method, path = endpoint.split(" ")
            filled = path.format(prefix="main", namespace="nowhere", table="none", view="none")
            answer = http.request(method, filled, content=b"{" if method == "POST" else None)
            assert answer.status_code in (200, 204, 400, 404), endpoint
            if method != "HEAD" and answer.status_code >= 400:
                error_of(answer)  # ours, not the router's

    @pytest.mark.parametrize("name", ["config", "v1", "oauth", "namespaces", "transactions"])
    def test_words_of_the_protocol_name_references(self, http: httpx.Client, nessie: NessieClient, name: str) -> None:
        nessie.create_reference(ReferenceType.BRANCH, name, nessie.get_reference("main").hash)
        assert http.get(f"/{name}/v1/config").json()["defaults"]["prefix"] == name
        assert http.get(f"/v1/{name}/namespaces").status_code == 200
        assert http.get("/v1/config").json()["defaults"]["prefix"] == "main"

    def test_tokens_are_not_issued_here(self, http: httpx.Client) -> None:
        for path in ("/v1/oauth/tokens", "/main/v1/oauth/tokens"):
            answer = http.post(path, data={"grant_type": "client_credentials"})
            assert answer.status_code == 501
            assert answer.json()["error"] == "unsupported_grant_type"
            assert "oauth2-server-uri" in answer.json()["error_description"]

    def test_warehouse(self, http: httpx.Client, warehouse: str) -> None:
        for known in ("", "warehouse", warehouse, urlsplit(warehouse).path):
            assert http.get("/v1/config", params={"warehouse": known}).status_code == 200
        assert kind_of(http.get("/v1/config", params={"warehouse": "other"})) == (400, "BadRequestException")
        assert kind_of(http.get("/v1/main%7Cother/namespaces")) == (400, "BadRequestException")


class TestReferences:
    @pytest.mark.parametrize("prefix", ["main", "-", "main%7Cwarehouse", "%7Cwarehouse", "main@", "main%7C"])
    def test_prefixes_of_main(self, http: httpx.Client, db: str, namespace: str, prefix: str) -> None:
        assert http.get(f"/v1/{prefix}/namespaces/{namespace}").status_code == 200

    @pytest.mark.parametrize("form", ["/v1/{}", "/main/v1/{}", "/{}/v1/-"])
    def test_forms_of_a_branch(
        self, http: httpx.Client, new_branch: Callable[[], str], namespace: str, form: str
    ) -> None:
        branch = new_branch()
        for prefix in (quote(branch, safe=""), branch.replace("/", "%1F")):
            path = form.format(prefix)
            http.post(f"{path}/namespaces", json={"namespace": [namespace]})
            assert http.get(f"{path}/namespaces/{namespace}").status_code == 200
        assert http.get(f"/v1/main/namespaces/{namespace}").status_code == 404

    def test_in_the_name(self, http: httpx.Client, nessie: NessieClient, db: str, namespace: str) -> None:
        before = nessie.get_reference("main").hash
        create(http, db, "t")
        tag = nessie.create_reference(ReferenceType.TAG, f"tag-{namespace}", before).name
        elsewhere = f"/v1/{tag}/namespaces/{namespace}/tables"
        assert http.head(f"{elsewhere}/t").status_code == 404
        assert http.head(f"{elsewhere}/t@main").status_code == 204
        assert http.head(f"{db}/tables/t%23{before}").status_code == 404
        assert http.head(f"{db}/tables/t%232999-01-01T00:00:00Z").status_code == 204
        assert http.head(f"{db}/tables/t%232001-01-01T00:00:00Z").status_code == 404
        assert http.head(f"{elsewhere}/t@main%23{nessie.get_reference('main').hash}").status_code == 204

    def test_what_cannot_be(self, http: httpx.Client) -> None:
        assert kind_of(http.get("/v1/missing/namespaces")) == (400, "NoSuchReferenceException")
        assert kind_of(http.get("/v1/b..b/namespaces")) == (400, "BadRequestException")
        assert kind_of(http.get(f"/v1/main@{'0' * 64}/namespaces")) == (400, "NoSuchReferenceException")
        assert http.get("/v1/main/nothing").status_code == 404

    def test_writing_needs_a_branch(self, http: httpx.Client, nessie: NessieClient, namespace: str) -> None:
        head = nessie.get_reference("main").hash
        nessie.create_reference(ReferenceType.TAG, f"tag-{namespace}", head)
        for prefix in (f"tag-{namespace}", f"main@{head}", f"@{head}", "main~1"):
            answer = http.post(f"/v1/{prefix}/namespaces", json={"namespace": [namespace]})
            code, kind, message = error_of(answer)
            assert (code, kind) == (400, "BadRequestException")
            assert "read-only" in message
        assert nessie.get_reference("main").hash == head


class TestErrors:
    def test_not_found(self, http: httpx.Client, db: str) -> None:
        assert kind_of(http.get(f"{db}x")) == (404, "NoSuchNamespaceException")
        assert kind_of(http.delete(f"{db}x")) == (404, "NoSuchNamespaceException")
        assert kind_of(http.get(f"{db}x/tables")) == (404, "NoSuchNamespaceException")
        assert kind_of(http.get(f"{db}x/views")) == (404, "NoSuchNamespaceException")
        assert kind_of(http.get("/v1/main/namespaces", params={"parent": "nowhere"})) == (
            404,
            "NoSuchNamespaceException",
        )
        assert kind_of(http.get(f"{db}/tables/none")) == (404, "NoSuchTableException")
        assert kind_of(http.delete(f"{db}/tables/none")) == (404, "NoSuchTableException")
        assert kind_of(http.post(f"{db}/tables/none", json={})) == (404, "NoSuchTableException")
        assert kind_of(http.get(f"{db}/views/none")) == (404, "NoSuchViewException")
        assert kind_of(http.post(f"{db}/views/none", json={})) == (404, "NoSuchViewException")
        for path in (f"{db}x", f"{db}/tables/none", f"{db}/views/none"):
            assert http.head(path).status_code == 404

    def test_exists(self, http: httpx.Client, db: str, table: Json, namespace: str) -> None:
        taken = http.post("/v1/main/namespaces", json={"namespace": [namespace, "t"]})
        assert kind_of(taken) == (409, "AlreadyExistsException")
        assert kind_of(http.post(f"{db}/tables", json={"name": "t", "schema": SCHEMA})) == (
            409,
            "AlreadyExistsException",
        )
        assert kind_of(http.delete(db)) == (409, "NamespaceNotEmptyException")

    @pytest.mark.parametrize(
        ("path", "body", "part"),
        [
            ("/tables", b"{", "not valid JSON"),
            ("/tables", b"", "not valid JSON"),
            ("/tables", b"\xff", "not valid JSON"),
            ("/tables", b"[]", "request body"),
            ("/tables", b'{"name": "x"}', "schema"),
            ("/tables", b'{"name": 1, "schema": {}}', "name"),
            ("/tables", b'{"name": "", "schema": {"type": "struct", "fields": []}}', "empty"),
            ("/tables", b'{"name": "x", "schema": {"type": "struct", "fields": [{"id": 1}]}}', "fields[0]"),
            (
                "/tables",
                b'{"name": "x", "schema": {"fields": []}, "properties": {"format-version": "9"}}',
                "format-version",
            ),
            (
                "/tables",
                b'{"name": "x", "schema": {"fields": []}, "properties": {"format-version": "x"}}',
                "format-version",
            ),
            ("/tables", b'{"name": "x", "schema": {"fields": []}, "partition-spec": {"fields": [{}]}}', "fields[0]"),
            (
                "/tables",
                b'{"name": "x", "schema": {"fields": []}, "write-order": {"fields": [5]}}',
                "write-order.fields[0]",
            ),
            ("/tables", b'{"name":"x","schema":' + b'{"a":' * 5000 + b"1" + b"}" * 5001, "nested"),
            ("/views", b'{"name": "x", "schema": {"fields": []}, "view-version": {}}', "timestamp-ms"),
            ("/register", b'{"name": "x", "metadata-location": "file:///etc/passwd"}', "outside the warehouse"),
            ("/register-view", b'{"name": "x", "metadata-location": "file:///etc/passwd"}', "outside the warehouse"),
            ("/properties", b'{"updates": {"a": 1}}', "updates"),
            ("/properties", b'{"updates": {"location": "s3://b/x"}}', "properties.location"),
        ],
    )
    def test_malformed(self, http: httpx.Client, db: str, path: str, body: bytes, part: str) -> None:
        code, kind, message = error_of(http.post(db + path, content=body))
        assert (code, kind) == (400, "BadRequestException")
        assert part in message

    @pytest.mark.parametrize("name", [".", "..", "a\ue000b"])
    def test_names_that_no_path_can_hold(
        self, http: httpx.Client, db: str, table: Json, namespace: str, name: str
    ) -> None:
        """A client resolves the dots of `…/tables/..` before it sends it, and would drop the namespace."""
        source = {"namespace": [namespace], "name": "t"}
        for path, body in (
            (f"{db}/tables", {"name": name, "schema": SCHEMA}),
            ("/v1/main/namespaces", {"namespace": [name]}),
            ("/v1/main/tables/rename", {"source": source, "destination": {**source, "name": name}}),
        ):
            code, kind, message = error_of(http.post(path, json=body))
            assert (code, kind) == (400, "BadRequestException")
            assert "cannot be used in a path" in message

    @pytest.mark.parametrize(
        ("requirements", "updates", "part"),
        [
            ([], [{"action": "do-magic"}], "updates[0]"),
            ([], [{}], "updates[0]"),
            ([{"type": "assert-luck"}], [], "requirements[0]"),
            ([], [{"action": "add-spec", "spec": {"fields": [5]}}], "updates[0]"),
            ([], [{"action": "set-current-schema", "schema-id": 7}], "7"),
            ([], [{"action": "set-current-schema", "schema-id": -1}], "last added"),
            ([], [{"action": "set-default-spec", "spec-id": 7}], "7"),
            ([], [{"action": "upgrade-format-version", "format-version": 4}], "format-version: 4"),
            ([], [{"action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000000"}], "UUID"),
            ([], [{"action": "set-location", "location": "file:///etc"}], "outside the warehouse"),
            ([], [{"action": "set-properties", "updates": {"gc.enabled": "true"}}], "gc.enabled"),
            ([], [{"action": "remove-properties", "removals": ["gc.enabled"]}], "gc.enabled"),
            ([], [{"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": 5}], "snapshot 5"),
        ],
    )
    def test_senseless_commits(
        self, http: httpx.Client, db: str, table: Json, requirements: list[Json], updates: list[Json], part: str
    ) -> None:
        answer = http.post(f"{db}/tables/t", json={"requirements": requirements, "updates": updates})
        code, kind, message = error_of(answer)
        assert (code, kind) == (400, "BadRequestException")
        assert part in message
        assert http.get(f"{db}/tables/t").json() == table

    @pytest.mark.parametrize(
        "requirement",
        [
            {"type": "assert-create"},
            {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000000"},
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5},
            {"type": "assert-current-schema-id", "current-schema-id": 5},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 5},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 5},
            {"type": "assert-default-spec-id", "default-spec-id": 5},
            {"type": "assert-default-sort-order-id", "default-sort-order-id": 5},
        ],
    )
    def test_stale_requirements(self, http: httpx.Client, db: str, table: Json, requirement: Json) -> None:
        body = {"requirements": [requirement], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        assert kind_of(http.post(f"{db}/tables/t", json=body)) == (409, "CommitFailedException")
        assert http.get(f"{db}/tables/t").json() == table

    def test_properties_both_set_and_removed(self, http: httpx.Client, db: str) -> None:
        answer = http.post(f"{db}/properties", json={"updates": {"a": "1"}, "removals": ["a"]})
        assert kind_of(answer) == (422, "UnprocessableEntityException")

    def test_lost_metadata(self, http: httpx.Client, db: str, table: Json) -> None:
        """A metadata file that is gone is a server error that names it, not a missing table."""
        original = Path(urlsplit(table["metadata-location"]).path)
        foreign = original.with_name("00007-x.metadata.json")
        register = {"name": "copy", "metadata-location": foreign.as_uri()}
        for damaged in ('{"format-version": 2}', '{"format-version": 2, "properties": null}'):
            foreign.write_text(damaged)
            assert kind_of(http.post(f"{db}/register", json=register)) == (400, "BadRequestException")
        foreign.write_bytes(original.read_bytes())
        assert http.post(f"{db}/register", json=register).json()["metadata"] == table["metadata"]
        foreign.unlink()
        code, kind, message = error_of(http.get(f"{db}/tables/copy"))
        assert (code, kind) == (500, "ServiceFailureException")
        assert foreign.as_uri() in message


class TestPages:
    @pytest.mark.parametrize("kind", ["namespaces", "tables"])
    def test_pages_are_one_state(self, http: httpx.Client, db: str, namespace: str, kind: str) -> None:
        names = [f"n{i}" for i in range(7)]
        for name in names:
            self._create(http, db, namespace, kind, name)
        path, params = (f"{db}/tables", {}) if kind == "tables" else ("/v1/main/namespaces", {"parent": namespace})
        seen, token = [], ""
        for page in range(4):
            answer = http.get(path, params={**params, "pageSize": "2", "pageToken": token}).json()
            rows = answer["identifiers"] if kind == "tables" else answer["namespaces"]
            seen += [row["name"] if kind == "tables" else row[-1] for row in rows]
            token = answer.get("next-page-token", "")
            assert bool(token) == (page < 3)
            if page == 1:
                self._create(http, db, namespace, kind, "n6b")
        assert seen == names
        everything = http.get(path, params=params).json()
        assert len(everything["identifiers" if kind == "tables" else "namespaces"]) == 8
        assert "next-page-token" not in everything

    def _create(self, http: httpx.Client, db: str, namespace: str, kind: str, name: str) -> None:
        if kind == "tables":
            create(http, db, name)
        else:
            assert http.post("/v1/main/namespaces", json={"namespace": [namespace, name]}).status_code == 200

    def test_what_is_deeper_is_not_listed(self, http: httpx.Client, db: str, namespace: str) -> None:
        for inner in ("a", "a!", "b"):
            http.post("/v1/main/namespaces", json={"namespace": [namespace, inner]})
            create(http, f"{db}%1F{inner}", "deep")
        create(http, db, "a.t")
        listed = http.get("/v1/main/namespaces", params={"parent": namespace}).json()
        assert listed == {"namespaces": [[namespace, "a"], [namespace, "a!"], [namespace, "b"]]}
        assert http.get(f"{db}/tables").json()["identifiers"] == [{"namespace": [namespace], "name": "a.t"}]

    @pytest.mark.parametrize("params", [{"pageSize": "0"}, {"pageSize": "x"}, {"pageToken": "forged"}])
    def test_bad_pages(self, http: httpx.Client, db: str, params: dict[str, str]) -> None:
        assert kind_of(http.get(f"{db}/tables", params=params)) == (400, "BadRequestException")


class TestTables:
    def test_stage_create_leaves_an_empty_folder_alone(self, http: httpx.Client, nessie: NessieClient, db: str) -> None:
        head = nessie.get_reference("main").hash
        staged = create(http, db, "s", **{"stage-create": True})
        assert "metadata-location" not in staged
        location = Path(urlsplit(staged["metadata"]["location"]).path)
        assert list(location.rglob("*")) == [location / "metadata"]
        assert nessie.get_reference("main").hash == head

    def test_commit_without_changes_is_no_commit(
        self, http: httpx.Client, nessie: NessieClient, db: str, table: Json
    ) -> None:
        head = nessie.get_reference("main").hash
        for updates in ([], [{"action": "remove-properties", "removals": ["never"]}]):
            assert http.post(f"{db}/tables/t", json={"updates": updates}).json() == table
        assert nessie.get_reference("main").hash == head

    def test_snapshots_of_refs_only(self, http: httpx.Client, db: str, table: Json) -> None:
        for number in (1, 2):
            snapshot = {
                "snapshot-id": number,
                "sequence-number": number,
                "timestamp-ms": 1_700_000_000_000 + number,
                "manifest-list": f"{table['metadata']['location']}/metadata/snap-{number}.avro",
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
            to_main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
            updates = [{"action": "add-snapshot", "snapshot": snapshot}, to_main]
            assert http.post(f"{db}/tables/t", json={"updates": updates}).status_code == 200
        everything = http.get(f"{db}/tables/t").json()["metadata"]["snapshots"]
        referenced = http.get(f"{db}/tables/t", params={"snapshots": "refs"}).json()["metadata"]["snapshots"]
        assert [row["snapshot-id"] for row in everything] == [1, 2]
        assert [row["snapshot-id"] for row in referenced] == [2]
        assert kind_of(http.get(f"{db}/tables/t", params={"snapshots": "some"})) == (400, "BadRequestException")

    def test_refused_commit_leaves_no_file(self, http: httpx.Client, db: str, table: Json) -> None:
        create(http, db, "u")
        folder = Path(urlsplit(table["metadata-location"]).path).parent
        before = sorted(folder.iterdir())
        changes = [
            {"identifier": {"namespace": [db.rpartition("/")[2]], "name": name}, **change}
            for name, change in (("t", set_properties(table, a="1")), ("u", set_properties(table, a="1")))
        ]
        answer = http.post("/v1/main/transactions/commit", json={"table-changes": changes})
        assert kind_of(answer) == (409, "CommitFailedException")
        assert sorted(folder.iterdir()) == before

    def test_drop_keeps_files(self, http: httpx.Client, db: str, table: Json) -> None:
        assert http.delete(f"{db}/tables/t", params={"purgeRequested": "true"}).status_code == 204
        assert http.head(f"{db}/tables/t").status_code == 404
        assert Path(urlsplit(table["metadata-location"]).path).exists()

    def test_register_makes_a_foreign_table_safe(self, http: httpx.Client, db: str, table: Json) -> None:
        original = Path(urlsplit(table["metadata-location"]).path)
        foreign = original.with_name("v7.metadata.json")
        foreign.write_bytes(original.read_bytes().replace(b'"gc.enabled":"false"', b'"gc.enabled":"true"'))
        body = {"name": "foreign", "metadata-location": foreign.as_uri()}
        adopted = http.post(f"{db}/register", json=body).json()
        assert adopted["metadata"]["properties"]["gc.enabled"] == "false"
        assert adopted["metadata"]["metadata-log"][-1]["metadata-file"] == foreign.as_uri()
        assert http.get(f"{db}/tables/foreign").json() == adopted
        assert kind_of(http.post(f"{db}/register", json=body)) == (409, "AlreadyExistsException")
        over = http.post(f"{db}/register", json={**body, "overwrite": True}).json()
        assert over["metadata-location"] != adopted["metadata-location"]

    def test_compressed_metadata(self, http: httpx.Client, db: str) -> None:
        created = create(http, db, "z", properties={"write.metadata.compression-codec": "gzip"})
        path = Path(urlsplit(created["metadata-location"]).path)
        assert path.name.endswith(".gz.metadata.json")
        assert path.read_bytes().startswith(b"\x1f\x8b")
        assert http.get(f"{db}/tables/z").json() == created

    @pytest.mark.parametrize(
        "body", [b'{"namespace":["\xff"]}', b"{" * 100_000, b'{"namespace":' + b"[" * 100_000, b"x"]
    )
    def test_what_is_hardly_json(self, http: httpx.Client, body: bytes) -> None:
        answer = http.post("/v1/main/namespaces", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400 and answer.json()["error"]["message"]
