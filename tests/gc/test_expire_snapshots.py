"""Snapshots that no kept commit names go from the metadata at the heads of branches, and then their files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.catalog.tables import Tables
from nessie_ops.errors import BadRequest
from nessie_ops.gc import expire
from nessie_ops.model import Isolation, NewCatalogTransaction, ReferenceType
from nessie_ops.transactions import Transactions
from tests.gc.commands import Commands

SCHEMA = pa.schema([("id", pa.int64())])
NOW = ["--grace-period", "PT0S", "--force"]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NessieOpsCatalog]:
    monkeypatch.setenv("NESSIE_OPS_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("NESSIE_OPS_WAREHOUSE", f"{tmp_path}/warehouse")
    uri = f"sqlite:///{tmp_path}/catalog.db"
    with NessieOpsCatalog("lake", uri=uri, warehouse=f"{tmp_path}/warehouse") as catalog:
        catalog.create_namespace("db")
        yield catalog


@pytest.fixture
def gc(lake: NessieOpsCatalog, tmp_path: Path) -> Commands:
    return Commands("--store", f"sqlite:///{tmp_path}/catalog.db")


def append(table: Table, *ids: int) -> int:
    """Append a row by each of these commits; the last snapshot."""
    for id in ids:
        table.append(pa.table({"id": [id]}, schema=SCHEMA))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


def make(lake: NessieOpsCatalog, name: str, *ids: int, **properties: str) -> Table:
    table = lake.create_table(f"db.{name}", SCHEMA, properties=properties)
    append(table, *ids)
    return table


def ids(table: Table, snapshot: int | None = None) -> list[int]:
    return sorted(table.scan(snapshot_id=snapshot).to_arrow()["id"].to_pylist())


def snapshots(lake: NessieOpsCatalog, name: str) -> list[int]:
    return [each.snapshot_id for each in lake.load_table(f"db.{name}").metadata.snapshots]


def fork(lake: NessieOpsCatalog, kind: ReferenceType, name: str) -> NessieOpsCatalog:
    lake.version_store.create_reference(kind, name, lake.version_store.get_reference("main").hash)
    return lake.on(name)


def lists(tmp_path: Path) -> set[str]:
    return {path.name for path in (tmp_path / "warehouse").rglob("snap-*.avro")}


def list_name(table: Table, snapshot: int) -> str:
    found = table.snapshot_by_id(snapshot)
    assert found is not None
    return found.manifest_list.rpartition("/")[2]


def test_only_what_is_needed_is_listed_and_there(lake: NessieOpsCatalog, gc: Commands, tmp_path: Path) -> None:
    table = make(lake, "t", 1, 2)
    tagged = append(table)
    table.manage_snapshots().create_tag(tagged, "release").commit()
    last = append(table, 3, 4)
    before = lists(tmp_path)
    head = lake.version_store.get_reference("main").hash
    dry = gc.json("gc", "-c", "1", "--expire-snapshots", "--dry-run", *NOW)
    assert lake.version_store.get_reference("main").hash == head
    assert dry["report"]["shrunk"] == [
        {"branch": "main", "table": "db.t", "snapshots": 2, "partitionSpecs": 0, "schemas": 0}
    ]
    assert lists(tmp_path) == before
    done = gc.json("gc", "-c", "1", "--expire-snapshots", *NOW)
    assert done["report"]["shrunk"] == dry["report"]["shrunk"]
    assert {row["location"] for row in _files(done)} == {row["location"] for row in _files(dry)}
    assert {row["reason"]["key"] for row in _files(done)} == {"db.t"}
    assert snapshots(lake, "t") == [tagged, last]
    now = lake.load_table("db.t")
    assert (ids(now), ids(now, tagged)) == ([1, 2, 3, 4], [1, 2])
    assert lists(tmp_path) == {list_name(now, tagged), list_name(now, last)}
    message = lake.version_store.list_log(lake.version_store.get_reference("main").hash, limit=1)[0].commit_meta.message
    assert message == "expire 2 snapshots of 1 tables\n\ndb.t: 2 snapshots"
    again = gc.json("gc", "-c", "1", "--expire-snapshots", *NOW)
    assert (again["report"]["shrunk"], again["report"]["states"]) == ([], {})


def _files(printed: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(printed["reports"]["json"]).read_text())["files"]
    return found


def test_other_references_keep_what_they_need(lake: NessieOpsCatalog, gc: Commands, tmp_path: Path) -> None:
    """A branch its snapshot, also for time travel on main; a tag, which cannot be rewritten, all that it lists."""
    table = make(lake, "t", 1, 2)
    work = fork(lake, ReferenceType.BRANCH, "work")
    needed = append(table)
    last = append(table, 3, 4)
    other = make(lake, "u", 1, 2)
    release = fork(lake, ReferenceType.TAG, "release")
    old = [each.snapshot_id for each in other.metadata.snapshots]
    append(other, 3)
    gc.on("gc", "-c", "1", "--expire-snapshots", *NOW)
    assert snapshots(lake, "t") == [needed, last]
    assert snapshots(work, "t") == [needed]
    assert ids(work.load_table("db.t")) == ids(lake.load_table("db.t"), needed) == [1, 2]
    assert [ids(release.load_table("db.u"), snapshot) for snapshot in old] == [[1], [1, 2]]
    assert snapshots(lake, "u") == [old[-1], append(lake.load_table("db.u"))]


def test_commits_within_the_cutoff_can_be_read(lake: NessieOpsCatalog, gc: Commands) -> None:
    table = make(lake, "t", 1, 2, 3, 4)
    every = snapshots(lake, "t")
    head = lake.version_store.get_reference("main").hash
    commits = [entry.commit_meta.hash for entry in lake.version_store.list_log(head, limit=2)]
    gc.on("gc", "-c", "2", "--expire-snapshots", *NOW)
    assert snapshots(lake, "t") == every[2:]
    assert ids(table) == [1, 2, 3, 4]
    assert [ids(lake.on(f"main@{commit}").load_table("db.t")) for commit in commits] == [[1, 2, 3, 4], [1, 2, 3]]


def test_properties_and_branches_of_the_table_retain_more(lake: NessieOpsCatalog, gc: Commands) -> None:
    make(lake, "counted", 1, 2, 3, 4, **{"history.expire.min-snapshots-to-keep": "3"})
    make(lake, "aged", 1, 2, 3, **{"history.expire.max-snapshot-age-ms": "86400000"})
    make(lake, "wrong", 1, 2, **{"history.expire.min-snapshots-to-keep": "many"})
    own = make(lake, "own", 1, 2, 3)
    first = own.metadata.snapshots[0].snapshot_id
    own.manage_snapshots().create_branch(own.metadata.snapshots[1].snapshot_id, "b", min_snapshots_to_keep=2).commit()
    result = gc.on("gc", "-c", "1", "--expire-snapshots", *NOW, code=1)
    assert "metadata of db.wrong on main stays" in result.stderr
    assert [len(snapshots(lake, name)) for name in ("counted", "aged", "wrong", "own")] == [3, 3, 2, 3]
    assert ids(lake.load_table("db.own"), first) == [1]


def test_specs_and_schemas_that_nothing_uses(lake: NessieOpsCatalog, gc: Commands) -> None:
    table = make(lake, "t", 1)
    for column in ("a", "b"):
        with table.update_schema() as schema:
            schema.add_column(column, StringType())
    with table.update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "by_id")
    table.append(pa.table({"id": [2], "a": ["x"], "b": ["y"]}))
    with table.update_spec() as spec:
        spec.remove_field("by_id")
    table.overwrite(pa.table({"id": [2], "a": ["x"], "b": ["z"]}), EqualTo("id", 2))
    done = gc.json("gc", "-c", "1", "--expire-snapshots", *NOW)
    now = lake.load_table("db.t")
    assert sorted(now.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    manifests = now.current_snapshot().manifests(now.io)  # type: ignore[union-attr]
    used = {manifest.partition_spec_id for manifest in manifests} | {now.metadata.default_spec_id}
    assert {spec.spec_id for spec in now.metadata.partition_specs} == used
    assert len(now.metadata.schemas) == 1
    assert done["report"]["shrunk"][0]["schemas"] == 2
    with now.update_schema() as schema:
        schema.add_column("c", StringType())
    append(lake.load_table("db.t"), 7)


@pytest.mark.parametrize("on", ["", "care"])
def test_a_writer_in_between_wins(
    lake: NessieOpsCatalog, gc: Commands, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    table, other = make(lake, "t", 1, 2, 3), make(lake, "u", 1, 2)
    kept = [each.snapshot_id for each in table.metadata.snapshots]
    commit, race = Tables.commit, [4]

    def racing(self: Tables, *args: Any, **options: Any) -> Any:
        while race:
            lake.load_table("db.t").append(pa.table({"id": [race.pop()]}, schema=SCHEMA))
        return commit(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "commit", racing)
        words = ["--expire-on", on] if on else []
        result = gc.on("gc", "-c", "1", "--expire-snapshots", *words, *NOW)
    assert "metadata of db.t on main stays: somebody else changed it" in result.stderr
    assert len(snapshots(lake, "u")) == 1
    assert snapshots(lake, "t")[:3] == kept
    now = lake.load_table("db.t")
    assert [ids(now, snapshot) for snapshot in kept] == [[1], [1, 2], [1, 2, 3]]
    assert ids(now) == [1, 2, 3, 4]
    assert ids(lake.load_table("db.u")) == ids(other) == [1, 2]
    assert [each.name for each in lake.version_store.list_references()] == ["main"]


def test_files_can_be_deleted_later_and_asked_about(lake: NessieOpsCatalog, gc: Commands, tmp_path: Path) -> None:
    table = make(lake, "t", 1, 2, 3)
    gone, _, last = (list_name(table, id) for id in snapshots(lake, "t"))
    path = next((tmp_path / "warehouse").rglob(gone))
    done = gc.json("gc", "-c", "1", "--expire-snapshots", "--defer-deletes", *NOW)
    assert path.exists()
    id = done["liveSet"]["id"]
    assert gc.json("why", str(path), "-l", id)["fate"] == "dead"
    assert gc.json("why", str(path.with_name(last)), "-l", id)["fate"] == "live"
    append(lake.load_table("db.t"), 4)
    gc.on("deferred-deletes", "-l", id)
    assert gone not in lists(tmp_path)
    assert last in lists(tmp_path)
    assert ids(lake.load_table("db.t")) == [1, 2, 3, 4]


def test_a_branch_made_on_an_old_commit_meanwhile(
    lake: NessieOpsCatalog, gc: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the rewriting, before anything is deleted: the branch shows metadata that lists all snapshots."""
    table = make(lake, "t", 1, 2, 3)
    every = [each.snapshot_id for each in table.metadata.snapshots]
    head = lake.version_store.get_reference("main").hash
    expand = expire.expand_live

    def fork_old(*given: Any) -> Any:
        found = expand(*given)
        lake.version_store.create_reference(ReferenceType.BRANCH, "work", head)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(expire, "expand_live", fork_old)
        gc.on("gc", "-c", "1", "--expire-snapshots", *NOW)
    assert snapshots(lake, "t") == every[-1:]
    assert [ids(lake.on("work").load_table("db.t"), snapshot) for snapshot in every] == [[1], [1, 2], [1, 2, 3]]


def test_a_branch_made_on_an_old_commit_before_deferred_deletion(lake: NessieOpsCatalog, gc: Commands) -> None:
    table = make(lake, "t", 1, 2, 3)
    every = [each.snapshot_id for each in table.metadata.snapshots]
    head = lake.version_store.get_reference("main").hash
    id = gc.json("gc", "-c", "1", "--expire-snapshots", "--defer-deletes", *NOW)["liveSet"]["id"]
    lake.version_store.create_reference(ReferenceType.BRANCH, "work", head)
    gc.on("deferred-deletes", "-l", id)
    assert [ids(lake.on("work").load_table("db.t"), snapshot) for snapshot in every] == [[1], [1, 2], [1, 2, 3]]


@pytest.mark.parametrize("is_deferred", [False, True])
def test_an_open_transaction_keeps_all_snapshots_and_is_not_written_to(
    lake: NessieOpsCatalog, gc: Commands, is_deferred: bool
) -> None:
    """What was rewritten on its branch would be a write of its own, and in conflict with what is rewritten on main."""
    transactions = Transactions(lake.version_store)
    every = [each.snapshot_id for each in make(lake, "t", 1, 2, 3).metadata.snapshots]
    make(lake, "u", 1)
    idle, busy = (
        transactions.begin_transaction(NewCatalogTransaction(isolation=Isolation.REPEATED_READ)) for _ in "12"
    )
    append(lake.on(busy.branch).load_table("db.u"), 2)
    heads = [lake.version_store.get_reference(each.branch).hash for each in (idle, busy)]
    options = ["-c", "1", "--expire-snapshots", *NOW]
    if is_deferred:
        gc.on("deferred-deletes", "-l", gc.json("gc", *options, "--defer-deletes")["liveSet"]["id"])
    else:
        gc.on("gc", *options)
    assert snapshots(lake, "t") == every[-1:]
    assert [lake.version_store.get_reference(each.branch).hash for each in (idle, busy)] == heads
    for each in (idle, busy):
        seen = lake.on(each.branch).load_table("db.t")
        assert [ids(seen, snapshot) for snapshot in every] == [[1], [1, 2], [1, 2, 3]]
    transactions.commit_transaction(busy.id)
    assert (ids(lake.load_table("db.u")), snapshots(lake, "t")) == ([1, 2], every[-1:])


def test_a_tag_made_on_an_old_commit_before_a_resume(
    lake: NessieOpsCatalog, gc: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sweep that failed had recorded is not deleted by the one that goes on."""
    table = make(lake, "t", 1, 2, 3)
    every = [each.snapshot_id for each in table.metadata.snapshots]
    head = lake.version_store.get_reference("main").hash

    def fail(*given: Any, **options: Any) -> Any:
        raise BadRequest("stopped")

    id = gc.json("mark-live", "-c", "1")["id"]
    with monkeypatch.context() as patch:
        patch.setattr(expire, "Deletion", fail)
        gc.on("sweep", "-l", id, "--expire-snapshots", *NOW, code=1)
    assert snapshots(lake, "t") == every[-1:]
    lake.version_store.create_reference(ReferenceType.TAG, "release", head)
    done = gc.json("sweep", "-l", id, "--expire-snapshots", *NOW)
    assert done["report"]["states"].keys() <= {"kept", "deleted"}
    assert done["report"]["states"]["kept"]["files"] > 0
    assert [ids(lake.on("release").load_table("db.t"), snapshot) for snapshot in every] == [[1], [1, 2], [1, 2, 3]]


def test_an_older_version_that_cannot_be_read(lake: NessieOpsCatalog, gc: Commands, tmp_path: Path) -> None:
    """It names no snapshot, so its metadata would have to tell: its table is left alone, the others are not."""
    empty = lake.create_table("db.t", SCHEMA)
    append(lake.load_table("db.t"), 1, 2)
    make(lake, "u", 1, 2)
    Path(empty.metadata_location.removeprefix("file://")).write_text("damaged")
    result = gc.on("gc", "-c", "NONE", "--expire-snapshots", *NOW, code=1)
    assert "metadata of db.t on main stays: an older version that is kept cannot be read" in result.stderr
    assert len(snapshots(lake, "t")) == 2
    assert ids(lake.load_table("db.u")) == [1, 2]


def test_options_that_do_not_fit(lake: NessieOpsCatalog, gc: Commands) -> None:
    assert "own store" in Commands().run("gc", "-u", "http://127.0.0.1:1", "--expire-snapshots", code=2).output
    assert "--expire-snapshots" in gc.on("gc", "--expire-on", "care", code=2).output
    make(lake, "t", 1, 2)
    fork(lake, ReferenceType.BRANCH, "care")
    result = gc.on("gc", "-c", "1", "--expire-snapshots", "--expire-on", "care", *NOW, code=1)
    assert "metadata of db.t on main stays" in result.stderr
    assert lake.version_store.get_reference("care")
    assert len(snapshots(lake, "t")) == 2
