"""What changed between two states: rows, files and bytes as snapshots tell, schemas by ids, old names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

from nessie_ops.catalog.changes import Change, LoadMetadata, Size, find_change, list_changes, read_from, sum_changes
from nessie_ops.catalog.markdown import code, describe_changes, escape, to_table
from nessie_ops.catalog.pyiceberg import NessieOpsCatalog
from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.model import CommitHash, ContentKey

SCHEMA = Schema(
    NestedField(1, "month", IntegerType(), required=False), NestedField(2, "name", StringType(), required=False)
)
BY_MONTH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "month"))


def rows(month: int, *names: str) -> pa.Table:
    return pa.table({"month": pa.array([month] * len(names), pa.int32()), "name": pa.array(names, pa.string())})


class Lake:
    """A catalog; `since` tells what changed from a commit to main's head."""

    def __init__(self, catalog: NessieOpsCatalog) -> None:
        self.catalog = catalog
        self.loads = 0
        self._load: LoadMetadata = read_from(catalog._opened)

    def head(self) -> CommitHash:
        return self.catalog.version_store.get_reference("main").hash

    def load(self, at: CommitHash, key: ContentKey) -> TableMetadata:
        self.loads += 1
        return self._load(at, key)

    def since(self, before: CommitHash) -> list[Change]:
        return list_changes(self.catalog.version_store, before, self.head(), self.load)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    store, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    with NessieOpsCatalog("lake", uri=store, warehouse=warehouse) as catalog:
        catalog.create_namespace("db")
        catalog.create_table("db.t", SCHEMA, partition_spec=BY_MONTH).append(rows(1, "a", "b"))
        yield Lake(catalog)


def test_rows_files_and_bytes_of_several_snapshots(lake: Lake) -> None:
    before = lake.head()
    table = lake.catalog.load_table("db.t")
    table.append(rows(2, "c", "d", "e"))
    table.delete("month = 1")
    [change] = lake.since(before)
    assert (change.key, change.type, change.change) == ("db.t", "ICEBERG_TABLE", "changed")
    assert (change.before.rows, change.after.rows, change.added.rows, change.removed.rows) == (2, 3, 3, 2)
    assert (change.before.files, change.after.files, change.added.files, change.removed.files) == (1, 1, 1, 1)
    sizes = [file["file_size_in_bytes"] for file in table.inspect.files().to_pylist()]
    assert [change.after.size_bytes, change.added.size_bytes] == [sum(sizes)] * 2
    assert change.is_exact and change.schema == () and change.snapshot_after == table.metadata.current_snapshot_id
    assert lake.loads == 1, "one metadata file has it all"
    assert sum_changes([change, change]) == (
        Size(6, 2, 2 * change.added.size_bytes),
        Size(4, 2, 2 * change.removed.size_bytes),
    )


def test_new_gone_and_renamed_tables(lake: Lake) -> None:
    before = lake.head()
    lake.catalog.create_table("db.new", SCHEMA).append(rows(1, "x"))
    lake.catalog.rename_table("db.t", "db.z")
    lake.catalog.create_namespace("other")
    new, renamed, other = lake.since(before)
    assert (new.change, new.before, new.after.rows, new.added.rows) == ("created", Size(), 1, 1)
    assert (renamed.key, renamed.was, renamed.change) == ("db.z", "db.t", "renamed")
    assert (renamed.added, renamed.removed) == (Size(), Size()) and renamed.after.rows == 2
    assert (other.type, other.change) == ("NAMESPACE", "created")
    text = describe_changes([new, renamed, other])
    assert text.splitlines()[0] == "| Table | Change | Rows | Files | Bytes | Schema |"
    assert "| db.z | renamed (was db.t) | 2 | 1 |" in text and "other" not in text
    assert "| db.new | created | 1 (+1 -0) | 1 (+1 -0) |" in text

    before = lake.head()
    lake.catalog.drop_table("db.z")
    [gone] = lake.since(before)
    assert (gone.change, gone.before.rows, gone.after, gone.removed) == ("dropped", 2, Size(), gone.before)


def test_columns_are_known_by_their_ids(lake: Lake) -> None:
    before = lake.head()
    table = lake.catalog.load_table("db.t")
    with table.update_schema() as update:
        update.rename_column("name", "carrier")
        update.update_column("month", LongType())
        update.add_column("tail|no", StringType())
    with table.update_spec() as spec:
        spec.remove_field("month")
    [change] = lake.since(before)
    assert set(change.schema) == {
        "+ tail|no string",
        "name is now carrier",
        "month: int is now long",
        "partitioned by nothing",
    }
    assert (change.added, change.after.rows) == (Size(), 2)
    assert "+ tail\\|no string" in describe_changes([change]), "a bar stays in its cell"
    before = lake.head()
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("carrier")
        update.make_column_optional("tail|no")
    assert lake.since(before)[0].schema == ("- carrier",)


def test_one_made_anew_is_compared_by_names(lake: Lake) -> None:
    before = lake.head()
    lake.catalog.drop_table("db.t")
    schema = Schema(NestedField(1, "name", StringType(), required=False))
    lake.catalog.create_table("db.t", schema).append(pa.table({"name": ["q"]}))
    [change] = lake.since(before)
    assert (change.change, change.before.rows, change.after.rows) == ("changed", 2, 1)
    assert not change.is_exact and (change.added.rows, change.removed.rows) == (0, 1), "only the difference is known"
    assert change.schema == ("- month", "partitioned by nothing")
    assert "1 (≈ +0 -1)" in describe_changes([change])


def test_snapshots_that_have_expired(lake: Lake) -> None:
    before = lake.head()
    table = lake.catalog.load_table("db.t")
    table.append(rows(2, "c"))
    table.append(rows(3, "d"))
    gone = [snapshot.snapshot_id for snapshot in table.metadata.snapshots][:2]
    table.maintenance.expire_snapshots().by_ids(gone).commit()
    [change] = lake.since(before)
    assert (change.before.rows, change.after.rows, change.added.rows, change.is_exact) == (2, 4, 2, False)


def test_one_that_did_not_change(lake: Lake) -> None:
    head = lake.head()
    found = find_change(lake.catalog.version_store, head, head, ContentKey.of("db", "t"), lake.load)
    assert (found.change, found.after.rows, found.added, found.schema) == ("unchanged", 2, Size(), ())
    assert lake.since(head) == [] and describe_changes([]) == "Nothing changed."
    missing = find_change(lake.catalog.version_store, head, head, ContentKey.of("db", "no"), lake.load)
    assert (missing.change, missing.after) == ("unchanged", Size())


def test_snapshots_that_follow_each_other_in_a_circle_come_to_an_end(lake: Lake) -> None:
    before = lake.head()
    lake.catalog.load_table("db.t").append(rows(2, "c"))

    def load(at: CommitHash, key: ContentKey) -> TableMetadata:
        metadata = lake.load(at, key)
        for snapshot in metadata.json["snapshots"]:
            snapshot["parent-snapshot-id"] = metadata.current_snapshot_id
        return metadata

    [change] = list_changes(lake.catalog.version_store, before, lake.head(), load)
    assert (change.added.rows, change.removed.rows, change.is_exact) == (1, 0, False)


def test_cells_stay_cells() -> None:
    assert to_table(("a",), [("x|y\\|\nz",)]).splitlines()[2] == "| x\\|y\\\\\\| z |"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\u2028c", "a b c"),
        ("<img src=x>![i](http://x)", "\\<img src=x>!\\[i](http://x)"),
        ("`*~\\|", "\\`\\*\\~\\\\\\|"),
        ("arr_delay", "arr_delay"),
    ],
)
def test_what_is_shown_is_no_markup(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert to_table((text,), [(text,)]).splitlines() == [f"| {shown} |", "| --- |", f"| {shown} |"]


def test_a_name_is_code_whatever_it_holds() -> None:
    assert code("a.b") == "`a.b`" and code("a`b|c\n") == "`` a`b|c ``"
    assert to_table(("t",), [(code("a|b"),)]).splitlines()[2] == "| `a\\|b` |"
