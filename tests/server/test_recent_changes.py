"""Recent changes of a reference: its former heads, and whether they and the log can be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from nessie_ops.model import CommitHash, ReferenceMove, ReferenceType
from nessie_ops.server.recent import MAX_RECENT_HEADS, list_former_heads
from nessie_ops.versioning import VersionStore, tree
from nessie_ops.versioning.codec import digest_of
from nessie_ops.versioning.objects import StoredNodes, find_commit
from tests.server.helpers import Api, Z, running_server
from tests.versioning.helpers import update

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def recent(api: Api, ref: str = "main", **params: Any) -> Any:
    return api.get(f"trees/{ref}/recent-changes", **params)


def test_former_heads_newest_first(api: Api) -> None:
    heads = [Z]
    for n in range(3):
        api.add_table(f"t{n}")
        heads.append(api.head())
    api.call("PUT", f"trees/main@{heads[3]}", json={"hash": heads[1]})
    api.call("PUT", "trees/main/properties", json={"updates": {"a": "b"}})
    changes = recent(api, **{"scan-commits": 10})
    assert changes["reference"]["hash"] == changes["current"]["commitHash"] == heads[1]
    assert [row["commitHash"] for row in changes["previous"]] == [heads[3], heads[2], heads[1], heads[0]]
    assert changes["previous"][0]["meta"]["message"] == "m" and changes["previous"][-1]["meta"] is None
    assert {row["commitConsistency"] for row in changes["previous"]} == {"COMMIT_CONSISTENT"}
    assert changes["commitLogConsistency"] == "COMMIT_CONSISTENT"
    for params in ({}, {"scan-commits": 0}, {"scan-commits": -1}):
        assert recent(api, **params)["commitLogConsistency"] == "NOT_CHECKED"
    assert api.get(f"trees/main@{heads[1]}/recent-changes", 400)["errorCode"] == "BAD_REQUEST"
    assert api.get("trees/nope/recent-changes", 404)["errorCode"] == "REFERENCE_NOT_FOUND"


def test_another_reference_of_the_same_name_is_another_one(api: Api) -> None:
    api.add_table("t")
    first = api.branch("x")
    api.add_table("old", "x")
    api.call("DELETE", f"trees/x@{api.head('x')}")
    api.branch("x")
    api.add_table("new", "x")
    assert [row["commitHash"] for row in recent(api, "x")["previous"]] == [first]


def moves(*ages_s: int) -> list[ReferenceMove]:
    """Moves that many seconds before now, from the commits 0, 1, ..."""
    kind = ReferenceType.BRANCH
    return [
        ReferenceMove(-n, "x", kind, "COMMITTED", CommitHash(str(n)), CommitHash("z"), NOW - timedelta(seconds=age))
        for n, age in enumerate(ages_s)
    ]


def test_heads_left_long_before_the_last_move_are_not_recent() -> None:
    assert list_former_heads(moves(86400, 86400 + 300, 86400 + 301)) == ["0", "1"]
    assert list_former_heads([]) == []
    assert len(list_former_heads(moves(*range(30)))) == MAX_RECENT_HEADS


@pytest.mark.parametrize(
    ("table", "consistency"),
    [
        ("content", "COMMIT_CONTENT_INCONSISTENT"),
        ("node", "COMMIT_INCONSISTENT"),
        ("commit", "COMMIT_INCONSISTENT"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, table: str, consistency: str) -> None:
    store = f"sqlite:///{tmp_path}/catalog.db"
    with closing(VersionStore.open(store)) as versions:
        heads = [update(versions, "t", n) for n in range(4)]
        with versions.store.read() as tx:
            found = find_commit(tx, heads[1])
            assert found
            digest = digest_of(tree.get_many(StoredNodes(tx), found.root, [b"t"])[b"t"])
    id = {"content": digest, "node": found.root, "commit": found.id}[table]
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as database:
        deleted = database.execute(f'DELETE FROM "{table}" WHERE id = ?', (id,))
        assert deleted.rowcount == 1
        database.commit()
    with running_server(store) as uri, closing(httpx.Client(base_url=f"{uri}/api/v2/trees/main", timeout=60)) as http:
        near, far = (
            http.get("recent-changes", params={"scan-commits": str(scan)}).raise_for_status().json() for scan in (2, 3)
        )
    assert near["commitLogConsistency"] == "COMMIT_CONSISTENT"
    assert far["commitLogConsistency"] == consistency
    rows = {row["commitHash"]: (row["commitConsistency"], row["meta"] is None) for row in far["previous"]}
    assert rows[heads[1]] == (consistency, table == "commit")
    assert rows[heads[2]] == rows[heads[0]] == ("COMMIT_CONSISTENT", False)
    assert far["current"]["commitConsistency"] == "COMMIT_CONSISTENT"
