"""`nessie-ops why` names the commit and the run that brought a snapshot, a file or rows: in process and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
import typer
from click.testing import Result
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType
from typer.testing import CliRunner

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.catalog.pyiceberg_requests import to_change
from nessie_ops.catalog.runwork import find_run
from nessie_ops.cli import build_app
from nessie_ops.cli.months import make_run
from nessie_ops.errors import MetadataUnavailable
from nessie_ops.model import QUARANTINED, CommitHash, ContentKey, Merge, NewCommit, Put, ReferenceType
from nessie_ops.store import Store
from nessie_ops.versioning import VersionStore
from tests.server.helpers import running_server
from tests.versioning.helpers import key, namespace

SCHEMA = Schema(
    NestedField(1, "month", IntegerType(), required=False), NestedField(2, "name", StringType(), required=False)
)
BY_MONTH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))


def rows(month: int, *names: str) -> pa.Table:
    return pa.table({"month": pa.array([month] * len(names), pa.int32()), "name": pa.array(names, pa.string())})


class Lake:
    """A store with a table that two runs loaded, of which the first made two snapshots on its branch."""

    def __init__(self, folder: Path) -> None:
        self.store, self.warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
        self.commits: list[str] = []
        self.snapshots: list[int] = []
        with NessieOpsCatalog("lake", uri=self.store, warehouse=self.warehouse) as catalog:
            catalog.create_namespace("gold")
            catalog.create_table("gold.t", SCHEMA, partition_spec=BY_MONTH)
            self.run(catalog, "r1", rows(1, "a"), rows(2, "b", "c"))
            self.run(catalog, "r2", rows(3, "d"))
            self.newest = self.run(catalog, "r3", rows(4, "e"))

    def run(
        self,
        catalog: NessieOpsCatalog,
        run_id: str,
        *appended: pa.Table,
        table: str = "gold.t",
        runs: tuple[str, ...] = (),
    ) -> CommitHash:
        versions = catalog.version_store
        base = versions.get_reference("main").hash
        versions.create_reference(ReferenceType.BRANCH, f"run/{run_id}", base)
        for data in appended:
            branch = catalog.on(f"run/{run_id}").load_table(table)
            branch.append(data)
            self.snapshots.append(branch.refresh().metadata.current_snapshot_id or 0)
        head = versions.get_reference(f"run/{run_id}").hash
        meta = NewCommit(
            message=f"Load {run_id}",
            properties={"nessie_ops.run_id": runs or (run_id,), "nessie_ops.checks": ("gold.t:keys_unique passed",)},
        )
        merged = versions.merge("main", base, Merge(from_ref=f"run/{run_id}", from_hash=head, meta=meta))
        assert merged.resultant_target_hash
        self.commits.append(str(merged.resultant_target_hash))
        return merged.resultant_target_hash


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(tmp_path_factory.mktemp("why"))


@pytest.fixture(params=["store", "server"])
def where(request: pytest.FixtureRequest, lake: Lake) -> Iterator[list[str]]:
    if request.param == "store":
        yield ["--store", lake.store, "--warehouse", lake.warehouse]
        return
    with running_server(lake.store, lake.warehouse) as base_uri:
        yield ["--uri", base_uri]


def ask(where: list[str], *arguments: str, table: str = "gold.t") -> list[dict[str, Any]]:
    result = CliRunner().invoke(build_app(lambda **options: None), ["why", table, *arguments, *where, "--json"])
    assert result.exit_code == 0, result.output + str(result.exception)
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def run_of(origin: dict[str, Any]) -> str:
    found: str = origin["commit"]["allProperties"]["nessie_ops.run_id"][0]
    return found


def test_the_newest(lake: Lake, where: list[str]) -> None:
    [found] = ask(where)
    assert (found["snapshotId"], found["commit"]["hash"], run_of(found)) == (lake.snapshots[-1], lake.newest, "r3")
    assert found["summary"]["added-records"] == "1" and found["summary"]["total-records"] == "5"
    [before] = ask(where, "--ref", "main~1")
    assert run_of(before) == "r2"


def test_a_snapshot_that_was_made_on_a_branch(lake: Lake, where: list[str]) -> None:
    found = [ask(where, "--snapshot", str(id))[0] for id in lake.snapshots]
    assert [run_of(row) for row in found] == ["r1", "r1", "r2", "r3"]
    assert [row["commit"]["hash"] for row in found] == [lake.commits[0], *lake.commits]
    assert ask(where, "--snapshot", "7")[0]["commit"] is None


def test_rows_and_files(lake: Lake, where: list[str]) -> None:
    found = ask(where, "--row", "name = 'c' or month = 3")
    assert [run_of(row) for row in found] == ["r2", "r1"]
    assert [row["snapshotId"] for row in found] == [lake.snapshots[2], lake.snapshots[1]]
    [file] = found[1]["files"]
    assert ask(where, "--file", file.rpartition("/")[2]) == [found[1]]
    assert ask(where, "--row", "name = 'nobody'") == []


def show(where: list[str], run_id: str, *options: str) -> Result:
    app = typer.Typer()
    app.add_typer(make_run(lambda **options: 0), name="run")
    app.command("other")(lambda: None)
    return CliRunner().invoke(app, ["run", "show", run_id, *where, *options])


def test_what_a_run_wrote(lake: Lake, where: list[str]) -> None:
    found = json.loads(show(where, "r1", "--json").stdout)
    assert (found["state"], found["branch"], found["commit"]["hash"]) == ("published", "run/r1", lake.commits[0])
    [row] = found["written"]
    assert (row["key"], row["change"], row["snapshot_after"]) == ("gold.t", "changed", lake.snapshots[1])
    assert (row["added"]["rows"], row["removed"]["rows"]) == (3, 0), "of both its snapshots"
    assert "gold.t" in show(where, "r2").stdout
    missing = show(where, "nobody")
    assert missing.exit_code == 1 and "has published nothing" in str(missing.exception)


def test_a_change_is_merged_for_all_its_runs() -> None:
    versions = VersionStore(Store.open("sqlite://"))
    said = {"nessie_ops.run_id": ("r7", "r8"), "nessie_ops.branch": ("ci/pr-1",)}
    put = Put(key("gold"), namespace("gold"))
    at = versions.commit("main", versions.get_reference("main").hash, NewCommit(message="m", properties=said), [put])
    found = [find_run(versions, "main", run_id, lambda at, key: pytest.fail("no table")) for run_id in ("r7", "r8")]
    versions.close()
    assert [(row.state, row.branch, row.ends_at) for row in found] == [
        ("published", "ci/pr-1", at.target_branch.hash)
    ] * 2
    assert [row.key for row in found[0].written] == ["gold"]


def test_a_run_that_has_not_published(lake: Lake, where: list[str]) -> None:
    with NessieOpsCatalog("lake", uri=lake.store, warehouse=lake.warehouse) as catalog:
        versions = catalog.version_store
        base = versions.get_reference("main").hash
        versions.create_reference(ReferenceType.BRANCH, "run/bad", base, properties={"base_hash": base})
        try:
            catalog.on("run/bad").load_table("gold.t").delete("month = 2")
            versions.update_properties("run/bad", {QUARANTINED: "checks failed"})
            found = json.loads(show(where, "bad", "--json").stdout)
        finally:
            versions.delete_reference("run/bad", None)
    assert (found["state"], found["reason"], found["read_at"]) == ("quarantined", "checks failed", base)
    assert [row["removed"]["rows"] for row in found["written"]] == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--file", "nowhere.parquet"], "file: no data"),
        (["--row", "colour = 'red'"], "row: "),
        (["--row", "((("], "row: "),
        (["--row", "month = 'May'"], "row: 'month = 'May'' cannot be read"),
        (["--row", "month = 1", "--file", "x"], "give one of"),
    ],
)
def test_what_cannot_be_answered(where: list[str], arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(build_app(lambda **options: None), ["why", "gold.t", *arguments, *where])
    assert result.exit_code == 1 and message in str(result.exception)


def test_files_that_cannot_be_read_are_not_the_predicates_fault(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    words = ["why", "gold.t", "--row", "month = 3", "--store", lake.store, "--warehouse", lake.warehouse]

    def fail() -> str:
        result = CliRunner().invoke(build_app(lambda **options: None), words)
        assert isinstance(result.exception, MetadataUnavailable)
        return result.exception.message

    [file] = ask(words[4:], *words[2:4])[0]["files"]
    Path(file.removeprefix("file://")).unlink()
    assert fail().startswith("files of 'gold.t' cannot be read: FileNotFoundError: ")
    for path in tmp_path.rglob("snap-*.avro"):
        path.write_bytes(b"damaged")
    assert fail().startswith("files of 'gold.t' cannot be read: ")


def test_people_read_it(lake: Lake) -> None:
    options = ["--store", lake.store, "--warehouse", lake.warehouse]
    result = CliRunner().invoke(build_app(lambda **options: None), ["why", "gold.t", *options])
    assert result.exit_code == 0
    words = [line.split() for line in result.stdout.splitlines()]
    assert ["run", "r3"] in words and ["commit", lake.newest] in words
    assert ["checks", "gold.t:keys_unique", "passed"] in words
    missing = CliRunner().invoke(build_app(lambda **options: None), ["why", "gold.other", *options])
    assert missing.exit_code == 1 and "is no table" in str(missing.exception)


class Odd(Lake):
    """The same, and after that: a table with two names, one that is gone, a rewritten one, and a run that is undone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        with NessieOpsCatalog("lake", uri=self.store, warehouse=self.warehouse) as catalog:
            versions = catalog.version_store
            catalog.create_table("gold.gone", SCHEMA)
            catalog.drop_table("gold.gone")
            self.dropped = versions.get_reference("main").hash
            catalog.load_table("gold.t").append(rows(9, "foreign"))  # by a client that says nothing of runs
            self.foreign = versions.get_reference("main").hash
            self._rewrite(catalog)
            self.rewritten = versions.get_reference("main").hash
            catalog.rename_table("gold.t", "gold.renamed")
            self.change = self.run(catalog, "both", rows(5, "x"), rows(6, "y"), table="gold.renamed", runs=("c1", "c2"))
            undone = self.run(catalog, "r4", rows(7, "z"), table="gold.renamed")
            meta = NewCommit(message="Revert", properties={"nessie_ops.reverted_commit": (undone,)})
            self.revert = str(versions.revert("main", None, undone, meta=meta).resultant_target_hash)

    def _rewrite(self, catalog: NessieOpsCatalog) -> None:
        """What a compaction does: another file with the same rows, by a snapshot that says `replace`."""
        table = catalog.load_table("gold.t")
        transaction = table.transaction()
        kept = [task.file for task in table.scan(row_filter="month = 2").plan_files()]
        data = table.scan(row_filter="month = 2").to_arrow()
        with transaction.update_snapshot().overwrite() as overwrite:
            for file in kept:
                overwrite.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, data, table.io, uuid4()):
                overwrite.append_data_file(file)
        change = to_change(ContentKey.of("gold", "t"), transaction._requirements, transaction._updates)
        for update in change.updates:
            if update["action"] == "add-snapshot":
                update["snapshot"]["summary"]["operation"] = "replace"
        catalog._opened.tables.commit("main", [change])


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Odd:
    return Odd(tmp_path_factory.mktemp("odd"))


@pytest.fixture(params=["store", "server"])
def there(request: pytest.FixtureRequest, odd: Odd) -> Iterator[list[str]]:
    if request.param == "store":
        yield ["--store", odd.store, "--warehouse", odd.warehouse]
        return
    with running_server(odd.store, odd.warehouse) as base_uri:
        yield ["--uri", base_uri]


def test_odd_cases(odd: Odd, there: list[str]) -> None:
    newest, oldest = ask(there, "--row", "month = 2", table="gold.renamed")
    assert (newest["summary"]["operation"], newest["commit"]["hash"]) == ("replace", odd.rewritten)
    assert run_of(oldest) == "r1", "rows of a rewritten file are followed to the run that wrote them, by the old name"
    [foreign] = ask(there, "--row", "name = 'foreign'", table="gold.renamed")
    assert foreign["commit"]["hash"] == odd.foreign
    assert "nessie_ops.run_id" not in foreign["commit"].get("allProperties", {})
    assert ask(there, "--row", "name = 'z'", table="gold.renamed") == [], "its run was undone"

    gone = CliRunner().invoke(build_app(lambda **options: None), ["why", "gold.gone", *there])
    assert gone.exit_code == 1 and f"commit {odd.dropped} deleted it; ask with --ref @" in str(gone.exception)
    found = json.loads(show(there, "r4", "--json").stdout)
    assert (found["state"], found["reason"]) == ("reverted", f"commit {odd.revert} undid it")
    assert [(row["key"], row["added"]["rows"]) for row in found["written"]] == [("gold.renamed", 1)]


@pytest.mark.parametrize("run_id", ["c1", "c2"])
def test_runs_whose_work_one_commit_published_are_named_together(odd: Odd, there: list[str], run_id: str) -> None:
    found = json.loads(show(there, run_id, "--json").stdout)
    assert (found["run_id"], found["state"], found["commit"]["hash"]) == (run_id, "published", odd.change)
    assert found["together"] == ["c1", "c2"]
    assert [(row["key"], row["added"]["rows"]) for row in found["written"]] == [("gold.renamed", 2)], "of both"
    assert "written by 2 runs together: c1, c2" in show(there, run_id).stdout
