"""The catalog of PyIceberg over the store: how it is opened, shared and closed, and what it adds."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
)
from pyiceberg.table import Table

from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.model import Merge, NewCommit, ReferenceType

ROOT = Path(__file__).parents[2]
LOST_DISK = sqlite3.OperationalError("disk I/O error")
LOCATION = "nessie_ops.catalog.pyiceberg.NessieOpsCatalog"
SCHEMA = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    return {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{tmp_path}/warehouse"}


@pytest.fixture
def catalog(properties: dict[str, str]) -> Iterator[NessieOpsCatalog]:
    with NessieOpsCatalog("lake", **properties) as catalog:
        catalog.create_namespace("db")
        yield catalog


@pytest.fixture
def table(catalog: NessieOpsCatalog) -> Table:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(1))
    return table


def messages(catalog: NessieOpsCatalog, limit: int = 1) -> list[str | None]:
    head = catalog.version_store.resolve(catalog.ref).hash
    return [entry.commit_meta.message for entry in catalog.version_store.list_log(head, limit=limit)]


def create_reference(catalog: NessieOpsCatalog, kind: ReferenceType, name: str) -> None:
    head = catalog.version_store.resolve("main").hash
    catalog.version_store.create_reference(kind, name, head)


def test_opened_by_its_name(properties: dict[str, str], table: Table) -> None:
    with load_catalog("again", **{"py-catalog-impl": LOCATION}, **properties) as opened:
        assert isinstance(opened, NessieOpsCatalog)
        assert (opened.name, opened.ref) == ("again", "main")
        assert ids(opened.load_table("db.t")) == [1]
        assert not opened.supports_server_side_planning()


def test_the_environment_and_the_home_are_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], table: Table
) -> None:
    monkeypatch.setenv("NESSIE_OPS_HOME", f"{tmp_path}/home")
    with NessieOpsCatalog("lake") as at_home:
        at_home.create_namespace("own")
        assert at_home.create_table("own.t", SCHEMA).location().startswith(f"file://{tmp_path}/home/warehouse/own/t_")
    assert (tmp_path / "home" / "catalog.db").exists()
    monkeypatch.setenv("NESSIE_OPS_STORE", properties["uri"])
    monkeypatch.setenv("NESSIE_OPS_WAREHOUSE", properties["warehouse"])
    with NessieOpsCatalog("lake") as named:
        assert ids(named.load_table("db.t")) == [1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"uri": "http://127.0.0.1:19120/iceberg"}, "type=rest"),
        ({"uri": "nonsense"}, "SQLAlchemy URL"),
        ({"uri": "oracle://host/db"}, "not supported"),
        ({"warehouse": "relative/folder"}, "warehouse"),
        ({"ref": "main@nonsense"}, "ref"),
    ],
)
def test_wrong_properties_are_named(properties: dict[str, str], wrong: dict[str, str], message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        NessieOpsCatalog("lake", **{**properties, **wrong})


def test_a_closed_catalog_says_so(properties: dict[str, str], catalog: NessieOpsCatalog, table: Table) -> None:
    """Catalogs of one store share it: it closes with the last of them."""
    other = NessieOpsCatalog("other", **properties)
    at_main = other.on("main")
    assert other.version_store is catalog.version_store
    at_main.close()
    assert ids(other.load_table("db.t")) == [1]
    other.close()
    other.close()
    for closed in (other, at_main):
        with pytest.raises(BadRequestError, match="closed"):
            closed.load_table("db.t")
        with pytest.raises(BadRequestError, match="closed"):
            _ = closed.version_store
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_refused_catalog_holds_no_store(properties: dict[str, str]) -> None:
    with pytest.raises(BadRequestError):
        NessieOpsCatalog("lake", **{**properties, "ref": "main@nonsense"})
    with NessieOpsCatalog("lake", **properties) as first:
        store = first.version_store
    with NessieOpsCatalog("lake", **properties) as second:
        assert second.version_store is not store


def test_another_reference(catalog: NessieOpsCatalog, table: Table) -> None:
    create_reference(catalog, ReferenceType.BRANCH, "run/7")
    create_reference(catalog, ReferenceType.TAG, "v1")
    branch, tag = catalog.on("run/7"), catalog.on("v1")
    branch.load_table("db.t").append(rows(2))
    assert (branch.ref, branch.properties["ref"], branch.name) == ("run/7", "run/7", "lake")
    assert ids(catalog.load_table("db.t")) == ids(tag.load_table("db.t")) == [1]
    assert ids(branch.load_table("db.t")) == ids(catalog.load_table("db.t@run/7")) == [1, 2]
    store = catalog.version_store
    head = store.resolve("run/7").hash
    store.merge("main", None, Merge(from_ref="run/7", from_hash=head, meta=NewCommit(message="publish")))
    assert ids(table.refresh()) == [1, 2]
    assert ids(catalog.on(f"run/7@{head}").load_table("db.t")) == [1, 2]


def test_names_choose_the_branch_of_a_write(catalog: NessieOpsCatalog, table: Table) -> None:
    create_reference(catalog, ReferenceType.BRANCH, "run/7")
    there = catalog.create_table("db.u@run/7", SCHEMA)
    with pytest.raises(BadRequestError, match="one commit changes one branch"):
        catalog.commit_tables([table.transaction(), there.transaction()])
    change = there.transaction()
    change.append(rows(2))
    catalog.commit_tables([change])
    with pytest.raises(BadRequestError, match="one commit changes one branch"):
        catalog.rename_table("db.u@run/7", "db.v@main")
    assert ids(catalog.rename_table("db.u@run/7", "db.v@run/7")) == [2]
    assert catalog.on("run/7").list_tables("db") == [("db", "t"), ("db", "v")]
    assert catalog.list_tables("db") == [("db", "t")]


def test_what_cannot_be_written_says_so(catalog: NessieOpsCatalog, table: Table) -> None:
    create_reference(catalog, ReferenceType.TAG, "v1")
    commit = catalog.version_store.resolve("main").hash
    for ref, why in (("v1", "is a tag"), (f"main@{commit}", "names a commit"), (f"@{commit}", "names a commit")):
        elsewhere = catalog.on(ref)
        assert ids(elsewhere.load_table("db.t")) == [1]
        for write in (
            lambda at: at.load_table("db.t").append(rows(2)),
            lambda at: at.create_namespace("more"),
            lambda at: at.drop_table("db.t"),
            lambda at: at.rename_table("db.t", "db.u"),
            lambda at: at.create_table("db.u", SCHEMA),
        ):
            with pytest.raises(BadRequestError, match=why):
                write(elsewhere)
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_missing_reference_is_no_missing_table(catalog: NessieOpsCatalog, table: Table) -> None:
    nowhere = catalog.on("nowhere")
    for read in (nowhere.load_table, nowhere.table_exists):
        with pytest.raises(BadRequestError, match="nowhere"):
            read("db.t")


def test_tables_in_one_commit(catalog: NessieOpsCatalog, table: Table) -> None:
    other = catalog.create_table("db.u", SCHEMA)
    staged = catalog.create_table_transaction("db.new", SCHEMA)
    changes = [table.transaction(), other.transaction(), staged]
    changes[0].append(rows(2))
    changes[1].append(rows(3))
    changes[1].set_properties({"team": "ops"})
    changes[2].append(rows(4))
    catalog.commit_tables(changes)
    assert len([text for text in messages(catalog, 9) if text and "db.u" in text and "db.new" in text]) == 1
    assert (ids(table), ids(other)) == ([1, 2], [3])
    assert ids(catalog.load_table("db.new")) == [4]
    assert other.properties["team"] == "ops"
    table.append(rows(5))
    assert ids(catalog.load_table("db.t")) == [1, 2, 5]


def test_one_outdated_table_stops_them_all(catalog: NessieOpsCatalog, table: Table) -> None:
    other = catalog.create_table("db.u", SCHEMA)
    changes = [other.transaction(), table.transaction()]
    for change in changes:
        change.append(rows(2))
    catalog.load_table("db.t").append(rows(3))
    before = messages(catalog)
    with pytest.raises(CommitFailedException, match=r"db\.t"):
        catalog.commit_tables(changes)
    assert messages(catalog) == before
    assert ids(catalog.load_table("db.u")) == []
    assert ids(catalog.load_table("db.t")) == [1, 3]


def test_tables_are_committed_where_they_were_loaded(catalog: NessieOpsCatalog, table: Table, tmp_path: Path) -> None:
    """Whoever's `commit_tables` is called, a transaction changes the branch that its table is on."""
    create_reference(catalog, ReferenceType.BRANCH, "run/7")
    there = catalog.on("run/7").load_table("db.t")
    change = there.transaction()
    change.append(rows(2))
    with pytest.raises(BadRequestError, match=r"transactions: .* names main, run/7"):
        catalog.commit_tables([table.transaction(), change])
    catalog.commit_tables([change])
    assert (ids(catalog.load_table("db.t")), ids(catalog.load_table("db.t@run/7"))) == ([1], [1, 2])
    with (
        NessieOpsCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=f"{tmp_path}/other") as other,
        pytest.raises(BadRequestError, match=r"transactions: db\.t is a table of another catalog"),
    ):
        other.commit_tables([table.transaction()])


def test_a_renamed_table_is_the_answer_on_its_own_branch(catalog: NessieOpsCatalog, table: Table) -> None:
    create_reference(catalog, ReferenceType.BRANCH, "run/7")
    renamed = catalog.rename_table("db.t@run/7", "db.u")
    renamed.append(rows(2))
    assert ids(catalog.load_table("db.u@run/7")) == [1, 2]
    assert not catalog.table_exists("db.u")


def test_a_table_twice_is_refused(catalog: NessieOpsCatalog, table: Table) -> None:
    with pytest.raises(BadRequestError, match="only once"):
        catalog.commit_tables([table.transaction(), table.transaction()])


def test_purge_leaves_the_files_and_says_so(
    catalog: NessieOpsCatalog, table: Table, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = sorted((tmp_path / "warehouse").rglob("*"))
    catalog.purge_table("db.t")
    assert sorted((tmp_path / "warehouse").rglob("*")) == before
    assert "left its files" in caplog.text
    assert not catalog.table_exists("db.t")


def test_old_metadata_files_stay(catalog: NessieOpsCatalog, table: Table) -> None:
    """Whatever the properties say: PyIceberg deletes on its own what a table calls outdated."""
    first = table.metadata.metadata_log[0].metadata_file
    table.metadata.properties["write.metadata.delete-after-commit.enabled"] = "true"
    after = table.metadata.model_copy(update={"metadata_log": []})
    catalog._delete_old_metadata(table.io, table.metadata, after)
    assert Path(first.removeprefix("file://")).exists()


def test_properties_reach_the_file_io(properties: dict[str, str], table: Table) -> None:
    with NessieOpsCatalog("lake", **properties, **{"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}) as catalog:
        loaded = catalog.load_table("db.t")
        assert type(loaded.io).__name__ == "FsspecFileIO"
        assert ids(loaded) == [1]


@pytest.mark.parametrize("applied", [True, False])
def test_an_unknown_outcome(catalog: NessieOpsCatalog, table: Table, applied: bool) -> None:
    """PyIceberg then keeps the files it wrote, so the table is whole when the commit happened after all."""

    def fail(connection: Any, statement: str) -> None:
        if statement == "COMMIT":
            if applied:
                connection.execute("COMMIT")
            raise LOST_DISK

    dialect = catalog.version_store._store.dialect
    dialect.on_statement = fail
    with pytest.raises(CommitStateUnknownException):
        table.append(rows(2))
    dialect.on_statement = None
    assert ids(catalog.load_table("db.t")) == ([1, 2] if applied else [1])


def test_what_was_not_applied_is_not_unknown(catalog: NessieOpsCatalog, table: Table) -> None:
    def fail(_connection: Any, statement: str) -> None:
        if statement.startswith("INSERT"):
            raise LOST_DISK

    dialect = catalog.version_store._store.dialect
    dialect.on_statement = fail
    with pytest.raises(ServiceUnavailableError):
        table.append(rows(2))
    dialect.on_statement = None
    assert ids(catalog.load_table("db.t")) == [1]


def test_a_lost_metadata_file(properties: dict[str, str], catalog: NessieOpsCatalog, table: Table) -> None:
    Path(table.metadata_location.removeprefix("file://")).unlink()
    with NessieOpsCatalog("fresh", **properties) as fresh:
        with pytest.raises(ServerError, match="does not exist"):
            fresh.load_table("db.t")
        with pytest.raises(NoSuchTableError):
            fresh.load_table("db.other")


def test_the_documented_script_and_asset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESSIE_OPS_HOME", f"{tmp_path}/home")
    text = (ROOT / "docs" / "iceberg.md").read_text().partition("## PyIceberg without a server")[2]
    script, asset = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[:2]
    found: dict[str, Any] = {}
    for example in (script, asset):
        exec(compile(example, "iceberg.md", "exec", dont_inherit=True), found)
    with NessieOpsCatalog("lake") as catalog:
        assert dg.materialize([found["orders"]]).success
        assert ids(catalog.load_table("shop.orders")) == [1, 2, 3]
        assert [reference.name for reference in catalog.version_store.list_references()] == ["main"]
        catalog.load_table("shop.orders").append(rows(-1))
        assert not dg.materialize([found["orders"]], raise_on_error=False).success
        assert ids(catalog.load_table("shop.orders")) == [-1, 1, 2, 3]
        assert len(catalog.version_store.list_references()) == 2


def test_many_threads(catalog: NessieOpsCatalog) -> None:
    def write(number: int) -> None:
        at = catalog.on("main")
        at.create_table(f"db.t{number}", SCHEMA).append(rows(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(16)))
    assert [ids(catalog.load_table(f"db.t{number}")) for number in range(16)] == [[n] for n in range(16)]


def test_another_process_that_forks(properties: dict[str, str], catalog: NessieOpsCatalog, table: Table) -> None:
    """What another process and its child write is there at once; they load no server."""
    subprocess.run([sys.executable, "-c", FORKING, repr(properties)], cwd=ROOT, check=True)
    assert ids(table.refresh()) == [1, 2]
    assert catalog.list_namespaces() == [("db",), ("of_child",), ("of_parent",)]
    assert catalog.list_tables("of_child") == [("of_child", "t")]


FORKING = """
import ast, os, sys, pyarrow
from nessie_ops.catalog import sharing
from nessie_ops.catalog.pyiceberg import NessieOpsCatalog

properties = ast.literal_eval(sys.argv[1])
with NessieOpsCatalog("lake", **properties) as catalog:
    table = catalog.load_table("db.t")
    table.append(pyarrow.table({"id": [2]}))
    sharing._lock.acquire()  # as if another thread were just opening a store
    child = os.fork()
    if child == 0:
        catalog.create_namespace("of_child")
        with NessieOpsCatalog("again", **properties) as again:
            again.create_table("of_child.t", table.schema())
        os._exit(0)
    sharing._lock.release()
    catalog.create_namespace("of_parent")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert not {"litestar", "uvicorn", "typer", "nessie_ops.server"} & set(sys.modules)
"""
