"""A small history with fixed ids and times, and a description of it that pins every id."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from nessie_ops.model import (
    NO_ANCESTOR,
    UDF,
    ContentKey,
    Delete,
    DeltaLakeTable,
    IcebergTable,
    IcebergView,
    Merge,
    Namespace,
    NewCommit,
    Put,
    ReferenceType,
    with_id,
)
from nessie_ops.store import Store
from nessie_ops.store.tables import FORMAT
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.objects import find_commit

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "format-1.json"  # ids are the same in all formats
DATABASES = [FOLDER / f"format-{number}.db" for number in range(1, FORMAT + 1)]
KEY = ContentKey.of


def table(n: int) -> IcebergTable:
    return IcebergTable(metadata_location=f"s3://w/t{n}.json", snapshot_id=n, schema_id=1, spec_id=2, sort_order_id=3)


def make(url: str) -> VersionStore:
    """A history with every type of content, a branch, a tag, a merge, and an index of several levels."""
    ids = (str(UUID(int=n)) for n in itertools.count(1))
    times = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n) for n in itertools.count())
    versions = VersionStore(Store.open(url), clock=lambda: next(times), new_id=lambda: next(ids))
    contents = [
        Put(KEY("ns"), Namespace(elements=("ns",), properties={"owner": "ann"})),
        Put(KEY("ns", "view"), IcebergView(metadata_location="s3://w/v.json", version_id=1, schema_id=1)),
        Put(KEY("ns", "udf"), UDF(sql_text="1", dialect="x")),
        Put(KEY("ns", "delta"), DeltaLakeTable(metadata_location_history=("a",), checkpoint_location_history=())),
        *(Put(KEY("ns", f"täble {n}"), table(n)) for n in range(500)),
    ]
    author = NewCommit(
        message="fill", committer="svc", authors=("ann", "bob"), properties={"b": ("2",), "a": ("1", "0")}
    )
    first = versions.commit("main", NO_ANCESTOR, author, contents).target_branch.hash
    versions.create_reference(ReferenceType.BRANCH, "run/1", first, properties={"run": "1"})
    versions.create_reference(ReferenceType.TAG, "v1", first)
    key = KEY("ns", "täble 7")
    id = str(versions.get_contents(first, [key])[key].id)
    operations = [Put(key, with_id(table(1000), id)), Delete(KEY("ns", "udf"))]
    second = versions.commit("run/1", first, NewCommit(message="change"), operations).target_branch.hash
    versions.merge("main", first, Merge(from_ref="run/1", from_hash=second, meta=NewCommit(message="")))
    return versions


def describe(versions: VersionStore) -> dict[str, Any]:
    """References, commits and index roots of the history."""
    head = versions.get_reference("main").hash
    with versions._store.read() as tx:
        roots = {e.commit_meta.hash: find_commit(tx, e.commit_meta.hash) for e in versions.list_log(head)}
    described = {
        "references": versions.list_references(),
        "log": versions.list_log(head, with_operations=True)[:1],
        "roots": {hash: commit.root.hex() for hash, commit in roots.items() if commit},
        "moves": versions.list_moves(),
        "entries": len(versions.list_entries(head)),
    }
    plain: dict[str, Any] = json.loads(msgspec.json.encode(described))
    for entry in plain["log"]:
        entry["commitMeta"].setdefault("allProperties", {})  # answers leave it out when it is empty
    return plain


if __name__ == "__main__":
    DATABASES[-1].unlink(missing_ok=True)
    made = make(f"sqlite:///{DATABASES[-1]}")
    assert describe(made) == json.loads(EXPECTED.read_text()), "ids may never change"
    made.close()
