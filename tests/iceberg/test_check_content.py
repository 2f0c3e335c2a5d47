"""`nessie-ops check content` on a small lake: finds nothing in a sound one, and says what any loss damages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import fsspec
import msgspec
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion
from typer.testing import CliRunner, Result

from nessie_ops.catalog import audit
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.presence import (
    ASKED_FIRST,
    ASKED_SHARE,
    MAX_LISTED,
    FileFault,
    TablePresence,
    WarehouseFiles,
    list_sizes,
)
from nessie_ops.cli import build_app
from nessie_ops.model import UDF, ContentKey, IcebergTable, IcebergView, NewCommit, Put, ReferenceType
from nessie_ops.server.embedded import ensure_embedded
from nessie_ops.versioning import VersionStore
from tests.iceberg.helpers import Json

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False))


class Lake(NamedTuple):
    """`main` has db.t (two snapshots), db.kept and the view db.v; `dev` has a third snapshot of db.t; v1 tags main."""

    store: str
    warehouse: Path
    files: dict[str, Path]  # by what they are

    def check(self, *words: str) -> Result:
        options = ["--store", self.store, "--warehouse", self.warehouse.as_uri()]
        return CliRunner().invoke(build_app(lambda **_: None), ["check", "content", *options, *words])

    def findings(self, *words: str) -> list[tuple[str, str, str, list[str]]]:
        """Fault, kind, table and references of each finding; the exit code says whether there are any."""
        result = self.check("--json", *words)
        found = json.loads(result.stdout)["findings"]
        assert result.exit_code == bool([finding for finding in found if finding["fault"] != "outside"])
        return [(item["fault"], item["kind"], item["table"], item["references"]) for item in found]

    def summary(self) -> Json:
        found: Json = json.loads(self.check("--json").stdout)["summary"]
        return found


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("content")
    store, warehouse = f"sqlite:///{folder}/catalog.db", folder / "warehouse"
    warehouse.mkdir()
    base = ensure_embedded(store, warehouse.as_uri())
    main, dev = (RestCatalog("test", uri=f"{base}/iceberg/{quote(ref)}") for ref in ("main", "dev"))
    main.create_namespace("db")
    table, kept = (main.create_table(f"db.{name}", SCHEMA) for name in ("t", "kept"))
    for target in (table, table, kept):
        target.append(pa.table({"id": [1]}))
    sql: list[ViewRepresentation] = [
        ViewRepresentation(root=SQLViewRepresentation(type="sql", sql="SELECT 1", dialect="spark"))
    ]
    version = ViewVersion(
        version_id=1, schema_id=0, timestamp_ms=1, summary={}, representations=sql, default_namespace=["db"]
    )
    main.create_view(("db", "v"), SCHEMA, version)
    with closing(VersionStore.open(store)) as versions:
        head = versions.get_reference("main").hash
        versions.commit("main", head, NewCommit(message="a function"), [Put(ContentKey(("f",)), UDF(sql_text="1"))])
        head = versions.get_reference("main").hash
        versions.create_reference(ReferenceType.BRANCH, "dev", head)
        versions.create_reference(ReferenceType.TAG, "v1", head)
        view = versions.get_contents(head, [ContentKey(("db", "v"))])[ContentKey(("db", "v"))]
        assert isinstance(view, IcebergView)
    ours = dev.load_table("db.t")
    ours.append(pa.table({"id": [2]}))
    return Lake(
        store, warehouse, {**find_files(table, "main"), **find_files(ours, "dev"), "view": path(view.metadata_location)}
    )


def find_files(table: Table, ref: str) -> dict[str, Path]:
    """The newest of each kind, and the first data file, which all references share."""
    snapshots = [table.snapshot_by_id(entry.snapshot_id) for entry in table.history()]
    oldest, newest = snapshots[0], snapshots[-1]
    assert oldest and newest
    manifest, entries = {}, {}
    for name, snapshot in (("oldest", oldest), ("newest", newest)):
        manifest[name] = next(m for m in snapshot.manifests(table.io) if m.added_snapshot_id == snapshot.snapshot_id)
        entries[name] = manifest[name].fetch_manifest_entry(table.io)
    return {
        f"{ref} metadata": path(table.metadata_location),
        f"{ref} list": path(newest.manifest_list),
        f"{ref} manifest": path(manifest["newest"].manifest_path),
        f"{ref} data": path(entries["newest"][0].data_file.file_path),
        "first list": path(oldest.manifest_list),
        "first manifest": path(manifest["oldest"].manifest_path),
        "first data": path(entries["oldest"][0].data_file.file_path),
    }


def path(location: str) -> Path:
    return Path(location.removeprefix("file://"))


@contextmanager
def changed(file: Path, change: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """The file with other bytes, or gone; put back at the end."""
    before = file.read_bytes()
    if change:
        file.write_bytes(change(before))
    else:
        file.unlink()
    try:
        yield
    finally:
        file.write_bytes(before)


def test_a_sound_lake(lake: Lake) -> None:
    assert lake.findings() == []
    summary = lake.summary()
    assert summary["files"] == {"metadata": 4, "manifest list": 4, "manifest": 4, "data file": 4}
    assert (summary["references"], summary["commits"], summary["tables"], summary["views"]) == (3, 2, 3, 1)
    assert summary["skipped"] == {"NAMESPACE": 1, "UDF": 1}
    result = lake.check()
    assert result.stdout == "nothing is missing\n"
    assert "looked at 16 files" in result.stderr


ALL, MAIN = ["dev", "main", "v1"], ["main", "v1"]


@pytest.mark.parametrize(
    ("file", "kind", "references"),
    [
        ("main metadata", "metadata", MAIN),
        ("dev metadata", "metadata", ["dev"]),
        ("main list", "manifest list", ALL),
        ("first list", "manifest list", ALL),
        ("dev list", "manifest list", ["dev"]),
        ("first manifest", "manifest", ALL),
        ("dev manifest", "manifest", ["dev"]),
        ("first data", "data file", ALL),
        ("dev data", "data file", ["dev"]),
        ("view", "metadata", ALL),
    ],
)
def test_what_is_missing_or_damaged(lake: Lake, file: str, kind: str, references: list[str]) -> None:
    table = "db.v" if file == "view" else "db.t"
    with changed(lake.files[file], None):
        assert lake.findings() == [("missing", kind, table, references)]
        lines = lake.check().stdout.splitlines()
        assert lines[0].startswith(f"{table} ({', '.join(references)}): missing {kind} file://{lake.files[file]} ")
        assert lines[1:] == ["1 missing"]
    for change in (lambda data: data[: len(data) // 2], lambda data: b""):
        with changed(lake.files[file], change):
            assert lake.findings() == [("damaged", kind, table, references)]
    assert lake.findings() == []


@pytest.mark.parametrize("text", ["{}", "[]", '{"format-version": 2, "location": "x", "snapshots": [1]}', "\ud800"])
def test_json_that_is_no_table(lake: Lake, text: str) -> None:
    with changed(lake.files["dev metadata"], lambda _: text.encode("utf-8", "surrogatepass")):
        assert lake.findings() == [("damaged", "metadata", "db.t", ["dev"])]


@pytest.mark.parametrize("text", ["{}", "[]", '{"format-version": 1}', "\ud800", "[" * 100_000])
def test_json_that_is_no_view(lake: Lake, text: str) -> None:
    with changed(lake.files["view"], lambda _: text.encode("utf-8", "surrogatepass")):
        assert lake.findings() == [("damaged", "metadata", "db.v", ALL)]


def test_a_folder_is_no_file(lake: Lake) -> None:
    for name, kind in (("dev data", "data file"), ("dev manifest", "manifest"), ("view", "metadata")):
        file = lake.files[name]
        with changed(file, None):
            file.mkdir()
            assert [finding[:2] for finding in lake.findings()] == [("missing", kind)]
            file.rmdir()


def test_some_references(lake: Lake) -> None:
    with changed(lake.files["dev data"], None):
        assert lake.findings("--ref", "main", "--ref", "v1") == []
        assert lake.findings("--ref", "dev", "--ref", "main") == [("missing", "data file", "db.t", ["dev"])]
    result = lake.check("--ref", "nowhere")
    assert result.exit_code == 1
    assert "nowhere" in str(result.exception)


def test_more_than_can_be_told(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MAX_PROBLEMS", 1)
    with changed(lake.files["first data"], None), changed(lake.files["dev data"], None):
        assert len(lake.findings()) == 1
        assert lake.summary()["unlisted"] == 1
        assert "… and 1 more files" in lake.check().stdout


@pytest.fixture
def tables(tmp_path: Path) -> Callable[..., Lake]:
    """A function that makes a catalog whose `main` has tables with the given metadata files, byte for byte."""

    def build(**metadata: bytes | str) -> Lake:
        made = Lake(f"sqlite:///{tmp_path}/catalog.db", tmp_path / "warehouse", {})
        made.warehouse.mkdir()
        puts = []
        for name, content in metadata.items():
            location = content if isinstance(content, str) else f"file://{made.warehouse}/{name}.metadata.json"
            if isinstance(content, bytes):
                path(location).write_bytes(content)
            table = IcebergTable(metadata_location=location, snapshot_id=-1, schema_id=0, spec_id=0, sort_order_id=0)
            puts.append(Put(ContentKey((name,)), table))
        with closing(VersionStore.open(made.store)) as versions:
            versions.commit("main", versions.get_reference("main").hash, NewCommit(message="tables"), puts)
        return made

    return build


def metadata_of(warehouse: str, **fields: Any) -> bytes:
    return msgspec.json.encode({"format-version": 2, "location": f"file://{warehouse}/t", **fields})


def test_statistics_and_manifests_in_the_metadata(lake: Lake, tables: Callable[..., Lake], tmp_path: Path) -> None:
    """What PyIceberg writes neither: statistics, and version 1's snapshots that name their manifests."""
    warehouse = tmp_path / "warehouse"
    old = {"format-version": 1, "snapshots": [{"snapshot-id": 1, "manifests": [f"file:{warehouse}/m.avro"]}]}
    made = tables(
        old=metadata_of(str(warehouse), **old),
        stats=metadata_of(
            str(warehouse),
            statistics=[{"statistics-path": f"{warehouse}/a.puffin", "file-size-in-bytes": 3}],
            **{"partition-statistics": [{"statistics-path": f"file://{warehouse}//p#1%2F.parquet"}]},
        ),
    )
    (warehouse / "a.puffin").write_bytes(b"abc")
    (warehouse / "p#1%2F.parquet").write_bytes(b"")
    (warehouse / "m.avro").write_bytes(lake.files["first manifest"].read_bytes())
    assert made.findings() == [("outside", "data file", "old", ["main"])]
    (warehouse / "a.puffin").write_bytes(b"ab")
    (warehouse / "p#1%2F.parquet").unlink()
    (warehouse / "m.avro").unlink()
    assert made.findings() == [
        ("missing", "manifest", "old", ["main"]),
        ("damaged", "statistics", "stats", ["main"]),
        ("missing", "partition statistics", "stats", ["main"]),
    ]


def test_nothing_outside_is_looked_at(tables: Callable[..., Lake], tmp_path: Path) -> None:
    outside = ["/etc/hostname", "http://127.0.0.1:9/x", f"file://{tmp_path}/warehouse/../secret", "x", "s3://b/k"]
    outside.append(f"file://{tmp_path}/warehouse2/x")
    statistics = [{"statistics-path": location} for location in outside]
    chained = {"statistics-path": f"file://{tmp_path}/warehouse/a::http://127.0.0.1:9/x"}
    made = tables(
        elsewhere=f"file://{tmp_path}/secret",
        names=metadata_of(str(tmp_path / "warehouse"), statistics=[*statistics, chained]),
    )
    (tmp_path / "secret").write_bytes(b"{}")
    assert made.findings() == [
        ("outside", "metadata", "elsewhere", ["main"]),
        ("missing", "statistics", "names", ["main"]),
        *[("outside", "statistics", "names", ["main"])] * len(outside),
    ]
    allowed = made.findings(
        "--allowed-location", f"{tmp_path}/warehouse2", "--allowed-location", f"{tmp_path}/secret/x"
    )
    assert allowed[1:3] == [("missing", "statistics", "names", ["main"])] * 2
    assert [fault for fault, *_ in allowed].count("outside") == len(outside)


def test_another_name_of_the_same_table(lake: Lake) -> None:
    """A table that one branch renamed is told under both names."""
    with closing(VersionStore.open(lake.store)) as versions:
        head = versions.get_reference("main").hash
        table = versions.get_contents(head, [ContentKey(("db", "kept"))])[ContentKey(("db", "kept"))]
        versions.create_reference(ReferenceType.BRANCH, "renamed", head)
        twin = msgspec.structs.replace(table, id=msgspec.UNSET)
        versions.commit("renamed", head, NewCommit(message="twin"), [Put(ContentKey(("db", "twin")), twin)])
        assert isinstance(table, IcebergTable)
        with changed(path(table.metadata_location), None):
            assert lake.findings() == [
                ("missing", "metadata", "db.kept", ["dev", "main", "renamed", "v1"]),
                ("missing", "metadata", "db.twin", ["renamed"]),
            ]
        versions.delete_reference("renamed", None)


@pytest.fixture
def bucket() -> tuple[WarehouseFiles, list[str]]:
    """A warehouse on a file system that fsspec reaches without a disk, and the files of its table `t`, of 3 bytes."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    files = [f"memory://presence/wh/t/data/p={n}/f.parquet" for n in range(ASKED_FIRST + 5)]
    for file in files:
        fs.pipe_file(file, b"abc")
    return WarehouseFiles(Warehouse("memory://presence/wh")), files


def test_a_table_of_an_object_store_is_listed(bucket: tuple[WarehouseFiles, list[str]]) -> None:
    """Names are asked for at first, then looked up in a list."""
    (warehouse, files), fs = bucket, fsspec.filesystem("memory")
    presence = TablePresence(warehouse, "memory://presence/wh/t", expected=0)
    for file in files:
        presence.check(file, 3)
    fs.rm_file(files[0])
    presence.check(files[0], 3)  # from the list, so that nothing was asked
    late, elsewhere = "memory://presence/wh/t/data/late.parquet", "memory://presence/wh/other/x"
    for file in (late, elsewhere):
        with pytest.raises(FileFault, match="does not exist"):
            presence.check(file, 4)
        fs.pipe_file(file, b"abcd")
        presence.check(file, 4)
    with pytest.raises(FileFault, match="has 3 bytes instead of 4"):
        presence.check(files[-1], 4)
    assert list_sizes(warehouse.locate("memory://presence/wh/t/data/p=1")) == {"/presence/wh/t/data/p=1/f.parquet": 3}


@pytest.mark.parametrize("expected", [(ASKED_FIRST + 6) * ASKED_SHARE, MAX_LISTED + 1])
def test_what_is_not_listed(bucket: tuple[WarehouseFiles, list[str]], expected: int) -> None:
    """A table of which few files are asked for, and one whose list would fill the memory."""
    warehouse, files = bucket
    presence = TablePresence(warehouse, "memory://presence/wh/t", expected)
    for file in files:
        presence.check(file, 3)
    fsspec.filesystem("memory").rm_file(files[0])
    with pytest.raises(FileFault, match="does not exist"):
        presence.check(files[0], 3)
