"""Requests and answers of the Iceberg REST API, for tests that speak it in raw HTTP."""

from __future__ import annotations

import itertools
from typing import Any

import httpx

Json = dict[str, Any]
_numbers = itertools.count(1)
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


def create(http: httpx.Client, db: str, name: str, **fields: Any) -> Json:
    answer = http.post(f"{db}/tables", json={"name": name, "schema": SCHEMA, **fields})
    assert answer.status_code == 200, answer.text
    created: Json = answer.json()
    return created


def new_key() -> dict[str, str]:
    """A header that no request has had."""
    return {"Idempotency-Key": f"017f22e2-79b0-7cc3-98c4-{next(_numbers):012x}"}


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()["error"]
    assert body.keys() == {"message", "type", "code"}
    assert body["code"] == answer.status_code
    return body["code"], body["type"], body["message"]


def kind_of(answer: httpx.Response) -> tuple[int, str]:
    return error_of(answer)[:2]


def set_properties(table: Json, **properties: str) -> Json:
    return {
        "requirements": [{"type": "assert-table-uuid", "uuid": table["metadata"]["table-uuid"]}],
        "updates": [{"action": "set-properties", "updates": properties}],
    }
