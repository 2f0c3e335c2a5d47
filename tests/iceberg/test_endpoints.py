"""What clients are told of the server and of tables: addresses, entity tags, what is offered and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from nessie_ops.client import NessieClient
from tests.iceberg.bodies import SCAN, SNAPSHOT
from tests.iceberg.helpers import Json, error_of, kind_of, set_properties

COMMIT: Json = {
    "report-type": "commit-report",
    "table-name": "db.t",
    "snapshot-id": 1,
    "sequence-number": 1,
    "operation": "append",
    "metrics": {"total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 1}},
}


class TestAddress:
    @pytest.mark.parametrize(
        ("headers", "address"),
        [
            ({"Host": "catalog.example:8080"}, "http://catalog.example:8080/"),
            ({"Host": "catalog.example"}, "http://catalog.example/"),
            ({"Host": "catalog.example:80"}, "http://catalog.example/"),
            ({"Host": "[::1]:7"}, "http://[::1]:7/"),
            ({"X-Forwarded-Host": "lake.example", "X-Forwarded-Proto": "https"}, "https://lake.example/"),
            ({"X-Forwarded-Host": "lake.example, inner", "X-Forwarded-Proto": "https, http"}, "https://lake.example/"),
            ({"X-Forwarded-Host": "lake.example:9", "X-Forwarded-Port": "8443"}, "http://lake.example:8443/"),
            (
                {"Host": "h", "X-Forwarded-Proto": "https", "X-Forwarded-Port": "443", "X-Forwarded-Prefix": "/a/b/"},
                "https://h/a/b/",
            ),
        ],
    )
    def test_behind_a_proxy(self, http: httpx.Client, headers: dict[str, str], address: str) -> None:
        overrides = http.get("/v1/config", headers=headers).json()["overrides"]
        assert overrides["uri"] == f"{address}iceberg/"
        assert overrides["nessie.core-base-uri"] == f"{address}api/"

    @pytest.mark.parametrize(
        "headers",
        [
            {"Host": "a:99999999"},
            {"Host": "a:65536"},
            {"Host": "a b"},
            {"Host": "a/b"},
            {"Host": "[::1"},
            {"Host": "user@host"},
            {"X-Forwarded-Host": "a:x"},
            {"X-Forwarded-Proto": "ftp"},
            {"X-Forwarded-Port": "70000"},
            {"X-Forwarded-Port": "x"},
            {"X-Forwarded-Prefix": "//evil.example"},
            {"X-Forwarded-Prefix": "/a?b"},
        ],
    )
    def test_malformed(self, http: httpx.Client, headers: dict[str, str]) -> None:
        code, kind, message = error_of(http.get("/v1/config", headers=headers))
        assert (code, kind) == (400, "BadRequestException")
        assert next(iter(headers)).lower() in message.lower()


class TestEntityTags:
    def test_unchanged_tables_are_not_sent_again(self, http: httpx.Client, db: str, table: Json) -> None:
        path = f"{db}/tables/t"
        first = http.get(path)
        tag = first.headers["etag"]
        for known in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
            again = http.get(path, headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert http.get(path, headers={"If-None-Match": '"other"'}).json() == first.json()
        changed = http.post(path, json=set_properties(table, a="1"))
        newer = http.get(path, headers={"If-None-Match": tag})
        assert newer.status_code == 200
        assert newer.headers["etag"] == changed.headers["etag"] != tag

    def test_of_creation_and_of_both_forms(self, http: httpx.Client, db: str) -> None:
        created = http.post(f"{db}/tables", json={"name": "t", "schema": {"type": "struct", "fields": []}})
        everything = http.get(f"{db}/tables/t", params={"snapshots": "all"}).headers["etag"]
        referenced = http.get(f"{db}/tables/t", params={"snapshots": "refs"}).headers["etag"]
        assert created.headers["etag"] == everything != referenced
        other = http.get(f"{db}/tables/t", params={"snapshots": "refs"}, headers={"If-None-Match": everything})
        assert other.status_code == 200
        staged = http.post(
            f"{db}/tables", json={"name": "s", "schema": {"type": "struct", "fields": []}, "stage-create": True}
        )
        assert "etag" not in staged.headers

    def test_none_for_a_file_that_may_be_written_anew(self, http: httpx.Client, db: str, table: Json) -> None:
        """As other catalogs do with the files of a table that is dropped and created again."""
        place = Path(table["metadata-location"].removeprefix("file://")).with_name("v1.metadata.json")
        place.write_text(json.dumps(table["metadata"]))
        body = {"name": "other", "metadata-location": place.as_uri()}
        assert "etag" not in http.post(f"{db}/register", json=body).headers
        changed = {**table["metadata"], "properties": {**table["metadata"]["properties"], "a": "1"}}
        place.write_text(json.dumps(changed))
        answer = http.get(f"{db}/tables/other", headers={"If-None-Match": "*"})
        assert (answer.json()["metadata"], "etag" in answer.headers) == (changed, False)

    def test_equal_on_branches_that_have_the_same_table(
        self, http: httpx.Client, db: str, table: Json, namespace: str, new_branch: Callable[[], str]
    ) -> None:
        elsewhere = f"/v1/{new_branch().replace('/', '%2F')}/namespaces/{namespace}/tables/t"
        tag = http.get(f"{db}/tables/t").headers["etag"]
        assert http.get(elsewhere, headers={"If-None-Match": tag}).status_code == 304
        http.post(f"{db}/tables/t", json=set_properties(table, a="1"))
        assert http.get(elsewhere, headers={"If-None-Match": tag}).status_code == 304
        http.delete(f"{db}/tables/t")
        gone = http.get(f"{db}/tables/t", headers={"If-None-Match": tag})
        assert kind_of(gone) == (404, "NoSuchTableException")


class TestSnapshots:
    def test_referenced_ones_alone(self, http: httpx.Client, db: str, table: Json) -> None:
        """Nothing but the other snapshots is missing: not the logs, nor what this server has no name for."""
        updates: list[Json] = []
        for number in range(1, 7):
            parent = {"parent-snapshot-id": number - 1} if number > 1 else {}
            snapshot = {**SNAPSHOT, "snapshot-id": number, "sequence-number": number, **parent}
            snapshot["manifest-list"] = f"{table['metadata']['location']}/metadata/snap-{number}.avro"
            snapshot["timestamp-ms"] = int(SNAPSHOT["timestamp-ms"]) + number
            if number == 1:
                del snapshot["parent-snapshot-id"]
            updates = [{"action": "add-snapshot", "snapshot": snapshot}]
            updates += [{"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}]
            if number == 3:
                updates += [{"action": "set-snapshot-ref", "ref-name": "kept", "type": "tag", "snapshot-id": 3}]
            assert http.post(f"{db}/tables/t", json={"updates": updates}).status_code == 200
        everything = http.get(f"{db}/tables/t").json()
        for _ in range(2):  # as made, and as remembered
            referenced = http.get(f"{db}/tables/t", params={"snapshots": "REFS"}).json()
            assert [row["snapshot-id"] for row in referenced["metadata"].pop("snapshots")] == [3, 6]
            rest = {**everything, "metadata": {**everything["metadata"]}}
            assert len(rest["metadata"].pop("snapshots")) == 6
            assert referenced == rest
        assert [row["snapshot-id"] for row in everything["metadata"]["snapshot-log"]] == [1, 2, 3, 4, 5, 6]


class TestOffer:
    def test_what_is_announced_is_there(self, http: httpx.Client, db: str, table: Json, namespace: str) -> None:
        """Each endpoint understands that it is asked for, if with too little: it names what is missing."""
        endpoints = http.get("/v1/config").json()["endpoints"]
        assert len(set(endpoints)) == len(endpoints)
        places = {"prefix": "main", "namespace": namespace, "table": "t", "view": "none"}
        nowhere = dict.fromkeys(places, "none") | {"prefix": "main"}
        for method, path in (endpoint.split(" ") for endpoint in endpoints):
            answer = http.request(method, path.format(**(nowhere if method == "DELETE" else places)))
            assert answer.status_code in (200, 204, 400, 404), (method, path)
            if answer.status_code >= 400 and method != "HEAD":
                kind = kind_of(answer)[1]
                assert kind.startswith(("NoSuch", "BadRequest")), (method, path)

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("POST", "tables/t/plan"),
            ("GET", "tables/t/plan/1"),
            ("DELETE", "tables/t/plan/1"),
            ("POST", "tables/t/tasks"),
            ("GET", "functions"),
            ("GET", "functions/f"),
        ],
    )
    def test_what_is_not_there(self, http: httpx.Client, db: str, method: str, path: str) -> None:
        assert kind_of(http.request(method, f"{db}/{path}")) == (501, "UnsupportedOperationException")
        assert not [e for e in http.get("/v1/config").json()["endpoints"] if "plan" in e or "functions" in e]


class TestWhatIsAsked:
    @pytest.mark.parametrize("params", ["snapshots=some", "snapshots=", "snapshots=all&snapshots=refs"])
    def test_unknown_snapshots(self, http: httpx.Client, db: str, table: Json, params: str) -> None:
        assert kind_of(http.get(f"{db}/tables/t?{params}")) == (400, "BadRequestException")

    def test_unknown_purge(self, http: httpx.Client, db: str, table: Json) -> None:
        code, kind, message = error_of(http.delete(f"{db}/tables/t?purgeRequested=perhaps"))
        assert (code, kind) == (400, "BadRequestException")
        assert "purgeRequested" in message
        assert http.head(f"{db}/tables/t").status_code == 204

    def test_delegation(self, http: httpx.Client, db: str, table: Json) -> None:
        header = "X-Iceberg-Access-Delegation"
        for known in ("vended-credentials", "remote-signing", "vended-credentials,remote-signing", ""):
            assert http.get(f"{db}/tables/t", headers={header: known}).status_code == 200
        refused = http.get(f"{db}/tables/t", headers={header: "vended-credentials,telepathy"})
        code, kind, message = error_of(refused)
        assert (code, kind) == (400, "BadRequestException")
        assert "telepathy" in message

    def test_credentials(self, http: httpx.Client, db: str, table: Json) -> None:
        assert http.get(f"{db}/tables/t/credentials").json() == {"storage-credentials": []}
        assert kind_of(http.get(f"{db}/tables/none/credentials")) == (404, "NoSuchTableException")
        assert kind_of(http.get(f"{db}/tables/t/credentials?planId=1")) == (400, "BadRequestException")

    def test_views_are_not_registered_over_others(self, http: httpx.Client, db: str) -> None:
        body = {"name": "v", "metadata-location": "file:///x", "overwrite": True}
        code, _, message = error_of(http.post(f"{db}/register-view", json=body))
        assert code == 400 and message.startswith("overwrite")


class TestMetrics:
    @pytest.mark.parametrize("report", [SCAN, {**SCAN, "filter": True}, COMMIT, {**COMMIT, "metadata": {"a": "b"}}])
    def test_are_taken(self, http: httpx.Client, nessie: NessieClient, db: str, table: Json, report: Json) -> None:
        head = nessie.get_reference("main")
        assert http.post(f"{db}/tables/t/metrics", json=report).status_code == 204
        assert nessie.get_reference("main") == head
        assert kind_of(http.post(f"{db}/tables/none/metrics", json=report)) == (404, "NoSuchTableException")

    @pytest.mark.parametrize(
        ("change", "part"),
        [
            ({"report-type": "other"}, "report-type"),
            ({"snapshot-id": "1"}, "snapshot-id"),
            ({"metrics": []}, "metrics"),
            ({"metadata": {"a": 1}}, "metadata"),
        ],
    )
    def test_are_checked(self, http: httpx.Client, db: str, table: Json, change: dict[str, Any], part: str) -> None:
        for report in (SCAN, COMMIT):
            code, kind, message = error_of(http.post(f"{db}/tables/t/metrics", json={**report, **change}))
            assert (code, kind) == (400, "BadRequestException")
            assert part in message
        assert kind_of(http.post(f"{db}/tables/t/metrics", json={})) == (400, "BadRequestException")
