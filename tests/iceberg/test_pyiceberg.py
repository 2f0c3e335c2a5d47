"""PyIceberg over REST and over the store, on the default branch and on a branch with a slash in its name."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, MonthTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion

from nessie_ops.client import NessieClient
from nessie_ops.model import ContentKey, IcebergTable, Merge, NewCommit, ReferenceType

Connect = Callable[[str], Catalog]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def batch(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def ids(table: Table, **scan: int) -> list[int]:
    return sorted(table.scan(**scan).to_arrow()["id"].to_pylist())


@pytest.fixture
def catalog(connect: Connect, ref: str) -> Catalog:
    return connect(ref)


@pytest.fixture
def db(catalog: Catalog, namespace: str) -> str:
    catalog.create_namespace(namespace, {"team": "ops"})
    return namespace


@pytest.fixture
def table(catalog: Catalog, db: str) -> Table:
    return catalog.create_table(f"{db}.t", SCHEMA)


def test_namespaces(catalog: Catalog, db: str) -> None:
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(db)
    catalog.create_namespace((db, "in.ner"))
    assert catalog.list_namespaces((db,)) == [(db, "in.ner")]
    assert (db,) in catalog.list_namespaces()
    assert catalog.namespace_exists((db, "in.ner"))
    assert not catalog.namespace_exists("nowhere")
    changes = catalog.update_namespace_properties(db, {"team", "never"}, {"owner": "ada"})
    assert (changes.removed, changes.updated, changes.missing) == (["team"], ["owner"], ["never"])
    assert catalog.load_namespace_properties(db).keys() == {"owner", "location"}
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(db)
    catalog.drop_namespace((db, "in.ner"))
    catalog.drop_namespace(db)
    with pytest.raises(NoSuchNamespaceError):
        catalog.load_namespace_properties(db)
    with pytest.raises(NoSuchNamespaceError):
        catalog.list_tables(db)


def test_create_append_read(catalog: Catalog, table: Table, db: str) -> None:
    table.append(batch(1, 2))
    table.append(batch(3))
    assert ids(catalog.load_table(f"{db}.t")) == [1, 2, 3]
    table.overwrite(batch(9), overwrite_filter="id < 3")
    assert ids(table) == [3, 9]
    table.delete("id = 9")
    assert ids(catalog.load_table(f"{db}.t")) == [3]
    assert catalog.list_tables(db) == [(db, "t")]
    assert catalog.table_exists(f"{db}.t")
    assert not catalog.table_exists(f"{db}.other")
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table(f"{db}.t", SCHEMA)
    with pytest.raises(NoSuchTableError):
        catalog.load_table(f"{db}.other")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("nowhere.t", SCHEMA)


def test_locations_and_properties(catalog: Catalog, db: str, table: Table, warehouse: str) -> None:
    catalog.create_namespace((db, "a"), {"location": f"{warehouse}/elsewhere/{db}"})
    catalog.create_namespace((db, "a", "b"))
    nested = catalog.create_table((db, "a", "b", "t"), SCHEMA)
    assert table.location().startswith(f"{warehouse}/{db}/t_")
    assert nested.location().startswith(f"{warehouse}/elsewhere/{db}/b/t_")
    assert table.properties["gc.enabled"] == "false"
    assert table.format_version == 2
    with pytest.raises(BadRequestError, match="outside the warehouse"):
        catalog.create_table(f"{db}.out", SCHEMA, location="file:///tmp/elsewhere")
    with pytest.raises(BadRequestError, match="branches share files"):
        catalog.create_table(f"{db}.out", SCHEMA, properties={"write.metadata.delete-after-commit.enabled": "true"})
    assert not catalog.table_exists(f"{db}.out")


def test_schema_evolution(catalog: Catalog, table: Table, db: str) -> None:
    table.append(batch(1))
    with table.update_schema() as update:
        update.add_column("delay", LongType())
        update.rename_column("name", "label")
    with table.update_schema() as update:
        update.delete_column("delay")
    with table.update_schema() as update:
        update.add_column("delay", StringType())
    loaded = catalog.load_table(f"{db}.t")
    assert loaded.schema().column_names == ["id", "label", "delay"]
    assert [schema.schema_id for schema in loaded.schemas().values()] == [0, 1, 2, 3]
    assert loaded.schema().find_field("delay").field_id == 4
    assert ids(loaded) == [1]


def test_partitions_and_sorting(catalog: Catalog, db: str) -> None:
    schema = Schema(
        NestedField(7, "day", DateType(), required=False),
        NestedField(9, "carrier", StringType(), required=False),
    )
    table = catalog.create_table(
        f"{db}.p",
        schema,
        partition_spec=PartitionSpec(PartitionField(7, 1000, MonthTransform(), "month")),
        sort_order=SortOrder(SortField(9, IdentityTransform())),
    )
    assert table.spec().fields[0].source_id == table.schema().find_field("day").field_id
    assert table.sort_order().fields[0].source_id == table.schema().find_field("carrier").field_id
    with table.update_spec() as update:
        update.add_field("carrier", IdentityTransform(), "by_carrier")
    with table.update_spec() as update:
        update.remove_field("by_carrier")
    loaded = catalog.load_table(f"{db}.p")
    assert [field.name for field in loaded.spec().fields] == ["month"]
    assert sorted(loaded.specs()) == [0, 1]


def test_snapshots_loaded_on_demand(base_uri: str, catalog: Catalog, table: Table, db: str, ref: str) -> None:
    table.append(batch(1))
    table.append(batch(2))
    sparing = RestCatalog(
        "sparing", uri=f"{base_uri}/iceberg/{quote(ref, safe='')}", **{"snapshot-loading-mode": "refs"}
    )
    loaded = sparing.load_table(f"{db}.t")
    assert len(loaded.metadata.snapshots) == 1
    loaded.append(batch(3))
    assert ids(catalog.load_table(f"{db}.t")) == [1, 2, 3]
    assert len(catalog.load_table(f"{db}.t").metadata.snapshots) == 3


def test_properties(catalog: Catalog, table: Table, db: str) -> None:
    with table.transaction() as change:
        change.set_properties({"team": "ops", "other": "1"})
    with table.transaction() as change:
        change.remove_properties("other")
    loaded = catalog.load_table(f"{db}.t")
    assert loaded.properties["team"] == "ops"
    assert "other" not in loaded.properties


def test_rename_and_drop(catalog: Catalog, table: Table, db: str) -> None:
    table.append(batch(1))
    catalog.create_namespace((db, "inner"))
    catalog.create_table(f"{db}.taken", SCHEMA)
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table(f"{db}.t", f"{db}.taken")
    with pytest.raises(NoSuchTableError):
        catalog.rename_table(f"{db}.missing", f"{db}.new")
    moved = catalog.rename_table(f"{db}.t", (db, "inner", "moved"))
    assert moved.metadata.table_uuid == table.metadata.table_uuid
    assert ids(moved) == [1]
    assert catalog.list_tables(db) == [(db, "taken")]
    catalog.drop_table((db, "inner", "moved"))
    with pytest.raises(NoSuchTableError):
        catalog.drop_table((db, "inner", "moved"))


def test_time_travel(connect: Connect, nessie: NessieClient, catalog: Catalog, table: Table, ref: str) -> None:
    table.append(batch(1))
    first = table.current_snapshot()
    assert first is not None
    commit = nessie.get_reference(ref).hash
    table.append(batch(2))
    assert ids(table, snapshot_id=first.snapshot_id) == [1]
    at_commit = connect(f"{ref}@{commit}")
    name = ".".join(table.name())
    assert ids(at_commit.load_table(name)) == [1]
    assert ids(connect(f"{ref}~1").load_table(name)) == [1]
    with pytest.raises(BadRequestError, match="read-only"):
        at_commit.load_table(name).append(batch(3))
    assert ids(catalog.load_table(name)) == [1, 2]


def test_tags_are_read_only(connect: Connect, nessie: NessieClient, table: Table, ref: str, namespace: str) -> None:
    table.append(batch(1))
    tag = nessie.create_reference(ReferenceType.TAG, f"v-{namespace}", nessie.get_reference(ref).hash)
    at_tag = connect(tag.name)
    assert ids(at_tag.load_table(f"{namespace}.t")) == [1]
    with pytest.raises(BadRequestError, match="is a tag"):
        at_tag.load_table(f"{namespace}.t").append(batch(2))
    with pytest.raises(BadRequestError, match="is a tag"):
        at_tag.create_namespace("more")


def test_staged_create(catalog: Catalog, db: str) -> None:
    with catalog.create_table_transaction(f"{db}.staged", SCHEMA, properties={"team": "ops"}) as change:
        assert not catalog.table_exists(f"{db}.staged")
        with change.update_snapshot().fast_append():
            pass
        change.set_properties({"late": "1"})
    table = catalog.load_table(f"{db}.staged")
    assert table.format_version == 2
    assert {"team": "ops", "late": "1", "gc.enabled": "false"}.items() <= table.properties.items()
    table.append(batch(1))
    assert ids(table) == [1]


def test_one_table_many_changes(table: Table) -> None:
    with table.transaction() as change:
        change.append(batch(1))
        with change.update_schema() as update:
            update.add_column("delay", LongType())
        change.append(pa.table({"id": [2], "name": ["b"], "delay": [3]}))
    assert ids(table) == [1, 2]
    assert table.schema().column_names == ["id", "name", "delay"]


def test_register(catalog: Catalog, table: Table, db: str) -> None:
    table.append(batch(1))
    location = table.metadata_location
    catalog.drop_table(f"{db}.t")
    again = catalog.register_table(f"{db}.back", location)
    assert again.metadata_location == location
    assert ids(again) == [1]
    again.append(batch(2))
    with pytest.raises(TableAlreadyExistsError):
        catalog.register_table(f"{db}.back", location)
    with pytest.raises(BadRequestError, match="does not exist"):
        catalog.register_table(f"{db}.lost", location + "x")


def test_views(catalog: Catalog, table: Table, db: str) -> None:
    representation = ViewRepresentation(SQLViewRepresentation(type="sql", sql="SELECT 1 AS id", dialect="spark"))
    version = ViewVersion(
        **{"version-id": 1, "schema-id": 0, "representations": [representation], "default-namespace": (db,)}
    )
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    view = catalog.create_view((db, "v"), schema, version)
    assert catalog.list_views(db) == [(db, "v")]
    assert catalog.list_tables(db) == [(db, "t")]
    assert catalog.view_exists((db, "v"))
    assert catalog.load_view((db, "v")).metadata == view.metadata
    with pytest.raises(ViewAlreadyExistsError):
        catalog.create_view((db, "t"), schema, version)
    with pytest.raises(NoSuchViewError):
        catalog.load_view((db, "t"))
    with pytest.raises(NoSuchTableError):
        catalog.load_table((db, "v"))
    catalog.drop_view((db, "v"))
    assert not catalog.view_exists((db, "v"))


def test_branches_are_apart_until_they_are_merged(
    connect: Connect, nessie: NessieClient, new_branch: Callable[[], str], namespace: str
) -> None:
    main = connect("main")
    main.create_namespace(namespace)
    main.create_table(f"{namespace}.t", SCHEMA).append(batch(1))
    branch = new_branch()
    on_branch = connect(branch)
    on_branch.load_table(f"{namespace}.t").append(batch(2))
    on_branch.create_table(f"{namespace}.u", SCHEMA)
    assert ids(main.load_table(f"{namespace}.t")) == [1]
    assert not main.table_exists(f"{namespace}.u")
    head = nessie.get_reference(branch).hash
    nessie.merge("main", None, Merge(from_ref=branch, from_hash=head, meta=NewCommit(message="publish")))
    assert ids(main.load_table(f"{namespace}.t")) == [1, 2]
    assert main.table_exists(f"{namespace}.u")


def test_contents_mirror_the_metadata(nessie: NessieClient, table: Table, ref: str, namespace: str) -> None:
    key = ContentKey.of(namespace, "t")

    def content() -> IcebergTable:
        found = nessie.get_contents(nessie.get_reference(ref).hash, [key])[key]
        assert isinstance(found, IcebergTable)
        return found

    created = content()
    assert (created.snapshot_id, created.schema_id, created.spec_id, created.sort_order_id) == (-1, 0, 0, 0)
    table.append(batch(1))
    with table.update_schema() as update:
        update.add_column("delay", LongType())
    changed = content()
    assert changed.id == created.id
    assert changed.metadata_location == table.metadata_location
    assert changed.snapshot_id == table.metadata.current_snapshot_id
    assert changed.schema_id == 1
