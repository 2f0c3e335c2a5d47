"""Commits of many tables at once: one commit for all of them, or nothing."""

from __future__ import annotations

import httpx
import pytest

from nessie_ops.client import NessieClient
from tests.iceberg.helpers import SCHEMA, Json, create, kind_of, set_properties


class TestTransactions:
    @pytest.fixture
    def two(self, http: httpx.Client, db: str) -> tuple[Json, Json]:
        return create(http, db, "a"), create(http, db, "b")

    def change(self, namespace: str, name: str, table: Json, **properties: str) -> Json:
        return {"identifier": {"namespace": [namespace], "name": name}, **set_properties(table, **properties)}

    def test_one_commit_for_all(
        self, http: httpx.Client, nessie: NessieClient, db: str, namespace: str, two: tuple[Json, Json]
    ) -> None:
        head = nessie.get_reference("main").hash
        changes = [self.change(namespace, name, table, x="1") for name, table in zip("ab", two, strict=True)]
        headers = {
            "Nessie-Commit-Message": "both",
            "Nessie-Commit-Authors": "Ada",
            "Nessie-Commit-Property-Run": "7",
        }
        answer = http.post("/v1/main/transactions/commit", json={"table-changes": changes}, headers=headers)
        assert (answer.status_code, answer.content) == (204, b"")
        for name in "ab":
            assert http.get(f"{db}/tables/{name}").json()["metadata"]["properties"]["x"] == "1"
        newest, before = nessie.list_log(nessie.get_reference("main").hash, limit=2)
        assert before.commit_meta.hash == head
        assert newest.commit_meta.message == "both"
        assert newest.commit_meta.authors == ("Ada",)
        assert newest.commit_meta.all_properties == {"run": ("7",)}

    def test_creates_and_changes_together(
        self, http: httpx.Client, db: str, namespace: str, two: tuple[Json, Json]
    ) -> None:
        new = {
            "identifier": {"namespace": [namespace], "name": "new"},
            "requirements": [{"type": "assert-create"}],
            "updates": [
                {"action": "add-schema", "schema": SCHEMA},
                {"action": "set-current-schema", "schema-id": -1},
                {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "name": "p", "transform": "identity"}]}},
                {"action": "set-default-spec", "spec-id": -1},
                {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
                {"action": "set-default-sort-order", "sort-order-id": -1},
            ],
        }
        changes = [new, self.change(namespace, "a", two[0], x="1")]
        assert http.post("/v1/main/transactions/commit", json={"table-changes": changes}).status_code == 204
        created = http.get(f"{db}/tables/new").json()["metadata"]
        assert created["format-version"] == 2
        assert created["partition-specs"][0]["fields"][0]["field-id"] == 1000
        assert created["location"].rpartition("/")[2].startswith("new_")
        again = http.post("/v1/main/transactions/commit", json={"table-changes": [new]})
        assert kind_of(again) == (409, "CommitFailedException")

    def test_all_or_none(
        self, http: httpx.Client, nessie: NessieClient, db: str, namespace: str, two: tuple[Json, Json]
    ) -> None:
        head = nessie.get_reference("main").hash
        good = self.change(namespace, "a", two[0], x="1")
        for bad, expected in (
            (self.change(namespace, "b", two[0], x="1"), (409, "CommitFailedException")),  # the other's UUID
            (self.change(namespace, "c", two[0], x="1"), (404, "NoSuchTableException")),
            (good, (400, "BadRequestException")),
            ({"updates": []}, (400, "BadRequestException")),
        ):
            answer = http.post("/v1/main/transactions/commit", json={"table-changes": [good, bad]})
            assert kind_of(answer) == expected
        assert nessie.get_reference("main").hash == head
