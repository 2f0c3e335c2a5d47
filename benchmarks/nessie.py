"""The requests of the Nessie REST API v2 that the benchmark sends, and a repository filled with tables.

Each call checks that the server did what was asked: a fast error is no result.
"""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field
from typing import Any

from benchmarks.load import Answer, Connection, request

BATCH = 500  # tables in one commit while filling
PER_NAMESPACE = 100
_versions = itertools.count(1)
_HASH = re.compile(rb'"hash"\s*:\s*"([0-9a-f]+)"')


class WrongAnswer(Exception):
    """The server answered something else than what was asked for."""


@dataclass
class Table:
    """A table as a writer knows it."""

    number: int
    id: str = ""

    @property
    def elements(self) -> list[str]:
        return [f"db{self.number // PER_NAMESPACE:05}", f"table_{self.number:07}"]

    def put(self) -> dict[str, Any]:
        """The operation that writes a version which was never written before, on no branch."""
        version = next(_versions)
        folder = f"s3://warehouse/{self.elements[0]}/{self.elements[1]}_0b9f6b1e/metadata"
        content: dict[str, Any] = {
            "type": "ICEBERG_TABLE",
            "metadataLocation": f"{folder}/{version:05}-0f4f4cf7-6a1e-4a5e-9d55-{self.number:012}.metadata.json",
            "snapshotId": version,
            "schemaId": 0,
            "specId": 0,
            "sortOrderId": 0,
        }
        if self.id:
            content["id"] = self.id
        return {"type": "PUT", "key": {"elements": self.elements}, "content": content}


@dataclass
class Filled:
    """A branch with tables: what later branches start from."""

    branch: str
    hash: str = ""
    ids: list[str] = field(default_factory=list)

    def table(self, number: int) -> Table:
        number %= len(self.ids)
        return Table(number, self.ids[number])


def expect(answer: Answer, *statuses: int) -> Answer:
    if answer.status not in (statuses or (200,)):
        raise WrongAnswer(f"{answer.status} {answer.body[:500]!r}")
    return answer


def hash_of(body: bytes) -> str:
    """The first hash in an answer: the new head of a commit, the head of a reference."""
    found = _HASH.search(body)
    if found is None:
        raise WrongAnswer(f"no hash in {body[:500]!r}")
    return found[1].decode()


def commit_request(branch: str, expected: str, operations: list[dict[str, Any]]) -> bytes:
    body = json.dumps({"commitMeta": {"message": "benchmark"}, "operations": operations}, separators=(",", ":"))
    return request("POST", f"/api/v2/trees/{branch}@{expected}/history/commit", body.encode())


def branch_request(name: str, at: str, source: str = "main") -> bytes:
    body = json.dumps({"type": "BRANCH", "name": source, "hash": at})
    return request("POST", f"/api/v2/trees?name={name}&type=BRANCH", body.encode())


def merge_request(target: str, expected: str, source: str, at: str) -> bytes:
    body = json.dumps({"fromRefName": source, "fromHash": at, "message": "benchmark"})
    return request("POST", f"/api/v2/trees/{target}@{expected}/history/merge", body.encode())


async def get(connection: Connection, path: str) -> bytes:
    return expect(await connection.call(request("GET", f"/api/v2/{path}"))).body


async def create_branch(connection: Connection, name: str, at: str) -> None:
    expect(await connection.call(branch_request(name, at)))


async def commit(connection: Connection, branch: str, expected: str, operations: list[dict[str, Any]]) -> bytes:
    """Commit; the answer's body."""
    return expect(await connection.call(commit_request(branch, expected, operations))).body


async def fill(connection: Connection, branch: str, tables: int) -> Filled:
    """A new branch from the root of the repository, with this many tables and their namespaces."""
    root = hash_of(await get(connection, "trees/main"))
    await create_branch(connection, branch, root)
    filled = Filled(branch, root)
    for start in range(0, tables, BATCH):
        made = [Table(number) for number in range(start, min(start + BATCH, tables))]
        names = sorted({table.elements[0] for table in made if table.number % PER_NAMESPACE == 0})
        spaces = [
            {"type": "PUT", "key": {"elements": [name]}, "content": {"type": "NAMESPACE", "elements": [name]}}
            for name in names
        ]
        body = await commit(connection, branch, filled.hash, spaces + [table.put() for table in made])
        filled.hash = hash_of(body)
        added = {tuple(one["key"]["elements"]): one["contentId"] for one in json.loads(body)["addedContents"]}
        filled.ids += [added[tuple(table.elements)] for table in made]
    return filled
