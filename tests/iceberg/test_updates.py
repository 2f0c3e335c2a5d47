"""Updates of table metadata: ids are the catalog's to give, and what is the same is stored once."""

from __future__ import annotations

import json
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest
from pyiceberg.table import metadata as pyiceberg

from nessie_ops.catalog.metadata import check_properties, metadata_location, new_metadata, with_safe_properties
from nessie_ops.catalog.requests import CreateTable
from nessie_ops.catalog.requirements import check_requirements, parse_requirements
from nessie_ops.catalog.tablemetadata import TableMetadata, serialize_metadata
from nessie_ops.catalog.updates import apply_updates, parse_updates
from nessie_ops.errors import BadRequest, CommitFailed
from tests.iceberg.tables import FILE, LOCATION, NOW, NOW_MS, UUID_1, Json, after, field, point, schema, snapshot


def new(version: int = 2) -> TableMetadata:
    request = CreateTable(
        name="t", schema=schema(field(1, "id"), field(2, "day", "date")), properties={"format-version": str(version)}
    )
    return new_metadata(request, LOCATION, UUID_1, NOW)


def read(table: TableMetadata) -> pyiceberg.TableMetadata:
    """The table as another implementation sees it."""
    return pyiceberg.TableMetadataUtil.parse_raw(serialize_metadata(table).decode())


def with_snapshots(count: int) -> TableMetadata:
    table = new()
    for number in range(1, count + 1):
        table = after(table, snapshot(number, number - 1 or None), point("main", number))
    return table


class TestSchemas:
    def test_id_is_given_by_the_catalog(self) -> None:
        wider = schema(field(1, "id"), field(2, "day", "date"), field(3, "x"), **{"schema-id": 77})
        set_it = {"action": "set-current-schema", "schema-id": 77}
        table = after(new(), {"action": "add-schema", "schema": wider}, set_it)
        assert [s.schema_id for s in read(table).schemas] == [0, 1]
        assert table.current_schema_id == 1
        assert table.last_column_id == 3

    def test_an_equal_schema_is_used_again(self) -> None:
        add = {"action": "add-schema", "schema": schema(field(1, "id"), field(3, "x"), **{"schema-id": 0})}
        use = {"action": "set-current-schema", "schema-id": -1}
        table = after(new(), add, use)
        assert (len(read(table).schemas), table.current_schema_id) == (2, 1)
        back = {"action": "add-schema", "schema": schema(field(1, "id"), field(2, "day", "date"), **{"schema-id": 9})}
        again = after(table, back, use)
        assert (len(read(again).schemas), again.current_schema_id) == (2, 0)

    def test_a_snapshot_keeps_the_schema_that_it_was_written_with(self) -> None:
        add = {"action": "add-schema", "schema": schema(field(1, "id"), field(3, "x"), **{"schema-id": 5})}
        table = after(new(), add, snapshot(1, **{"schema-id": 5}), point("main", 1))
        assert read(table).snapshots[0].schema_id == 1

    def test_identifier_fields_make_a_difference(self) -> None:
        base = new()
        required = [{**field(1, "id"), "required": True}, field(2, "day", "date")]
        one = after(base, {"action": "add-schema", "schema": schema(*required)})
        two = after(one, {"action": "add-schema", "schema": schema(*required, **{"identifier-field-ids": [1]})})
        assert len(read(two).schemas) == 3


class TestSpecsAndOrders:
    DAY: ClassVar[Json] = {"source-id": 2, "transform": "day", "name": "day_part"}
    MONTH: ClassVar[Json] = {"source-id": 2, "transform": "month", "name": "month_part"}
    USE: ClassVar[Json] = {"action": "set-default-spec", "spec-id": -1}

    def add(self, *fields: Json, **extra: int) -> Json:
        return {"action": "add-spec", "spec": {"fields": list(fields), **extra}}

    def test_field_ids_are_given_and_kept(self) -> None:
        table = after(new(), self.add(self.DAY), self.USE)
        table = after(table, self.add(self.MONTH), self.USE)
        table = after(table, self.add(self.MONTH, self.DAY), self.USE)
        assert [[f.field_id for f in spec.fields] for spec in read(table).partition_specs] == [
            [],
            [1000],
            [1001],
            [1001, 1000],
        ]
        assert (table.default_spec_id, table.last_partition_id) == (3, 1001)

    def test_an_equal_spec_is_used_again(self) -> None:
        table = after(new(), self.add({**self.DAY, "field-id": 1000}, **{"spec-id": 44}), self.USE)
        table = after(table, self.add(**{"spec-id": 0}), self.USE)
        assert (table.default_spec_id, len(read(table).partition_specs)) == (0, 2)
        table = after(table, self.add({**self.DAY, "field-id": 1000}), self.USE)
        assert (table.default_spec_id, len(read(table).partition_specs)) == (1, 2)

    def test_orders(self) -> None:
        by_id = {"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}
        use = {"action": "set-default-sort-order", "sort-order-id": -1}

        def add(*fields: Json) -> Json:
            return {"action": "add-sort-order", "sort-order": {"order-id": 7, "fields": list(fields)}}

        table = after(new(), add(by_id), use)
        assert table.default_sort_order_id == 1
        table = after(table, add(), use)
        assert table.default_sort_order_id == 0
        table = after(table, add(by_id), use)
        assert (table.default_sort_order_id, len(read(table).sort_orders)) == (1, 2)

    def test_a_spec_without_source_is_refused(self) -> None:
        with pytest.raises(BadRequest):
            after(new(), self.add({**self.DAY, "source-id": 99}), self.USE)


class TestSnapshots:
    def test_log_and_refs(self) -> None:
        table = with_snapshots(3)
        assert table.current_snapshot_id == 3
        assert [entry.snapshot_id for entry in read(table).snapshot_log] == [1, 2, 3]
        assert read(table).last_sequence_number == 3

    def test_outdated_is_a_conflict(self) -> None:
        with pytest.raises(CommitFailed, match="sequence number 2"):
            after(with_snapshots(2), snapshot(2, 1, **{"snapshot-id": 9}))

    def test_expired_snapshots_leave_no_gap(self) -> None:
        table = after(with_snapshots(4), {"action": "remove-snapshots", "snapshot-ids": [2, 99]})
        assert [s.snapshot_id for s in read(table).snapshots] == [1, 3, 4]
        assert [entry.snapshot_id for entry in read(table).snapshot_log] == [3, 4]  # 1 would answer for the time of 2

    def test_expired_statistics_go_with_their_snapshot(self) -> None:
        file = {"statistics-path": f"{LOCATION}/s.puffin", "file-size-in-bytes": 1, "snapshot-id": 1}
        partition = {"action": "set-partition-statistics", "partition-statistics": file}
        table = after(with_snapshots(2), partition)
        assert len(read(table).partition_statistics) == 1
        expired = after(table, {"action": "remove-snapshots", "snapshot-ids": [1]})
        assert read(expired).partition_statistics == []

    @pytest.mark.parametrize(
        "update",
        [
            {"action": "remove-snapshots", "snapshot-ids": [5]},
            {"action": "remove-properties", "removals": ["never"]},
            {"action": "remove-statistics", "snapshot-id": 5},
            {"action": "remove-partition-statistics", "snapshot-id": 5},
            {"action": "remove-snapshot-ref", "ref-name": "never"},
            {"action": "set-current-schema", "schema-id": 0},
            {"action": "assign-uuid", "uuid": str(UUID_1)},
            {"action": "upgrade-format-version", "format-version": 2},
        ],
    )
    def test_what_is_so_already_changes_nothing(self, update: Json) -> None:
        assert apply_updates(new(), FILE, parse_updates([update]), NOW_MS) is None

    def test_set_then_removed(self) -> None:
        set_it = {"action": "set-properties", "updates": {"a": "1"}}
        table = after(new(), set_it, {"action": "remove-properties", "removals": ["a", "a", "b"]})
        assert "a" not in table.properties


class TestRequirements:
    def check(self, table: TableMetadata | None, **requirement: Any) -> None:
        names = {name.replace("_", "-"): value for name, value in requirement.items()}
        check_requirements(parse_requirements([names]), table, "db.t")

    def test_refs(self) -> None:
        empty, table = new(), with_snapshots(1)
        self.check(empty, type="assert-ref-snapshot-id", ref="main", snapshot_id=None)
        self.check(empty, type="assert-ref-snapshot-id", ref="audit")
        self.check(table, type="assert-ref-snapshot-id", ref="main", snapshot_id=1)
        for ref, number, problem in (
            ("main", None, "branch main was created concurrently"),
            ("main", 2, "branch main has changed: expected 2 != 1"),
            ("audit", 1, "branch or tag audit is missing, expected 1"),
        ):
            with pytest.raises(CommitFailed, match=f"^Requirement failed: {problem}"):
                self.check(table, type="assert-ref-snapshot-id", ref=ref, snapshot_id=number)

    def test_create(self) -> None:
        self.check(None, type="assert-create")
        with pytest.raises(CommitFailed, match=r"db\.t"):
            self.check(new(), type="assert-create")
        with pytest.raises(CommitFailed, match=r"db\.t"):
            self.check(None, type="assert-table-uuid", uuid=str(UUID_1))


class TestFormat:
    def test_version_1_keeps_its_own_fields_current(self) -> None:
        use = {"action": "set-current-schema", "schema-id": -1}
        add = {"action": "add-schema", "schema": schema(field(1, "id"), field(3, "x"))}
        changed = apply_updates(new(1), FILE, parse_updates([add, use]), NOW_MS)
        assert changed is not None
        raw = changed.json
        assert [f["name"] for f in raw["schema"]["fields"]] == ["id", "x"]
        upgraded = after(new(1), {"action": "upgrade-format-version", "format-version": 2})
        assert upgraded.format_version == 2

    def test_the_log_names_the_file_before(self) -> None:
        table = after(new(), {"action": "set-properties", "updates": {"a": "1"}})
        assert [entry.metadata_file for entry in read(table).metadata_log] == [FILE]

    @pytest.mark.parametrize(
        ("previous", "number"),
        [
            (None, "00000"),
            (FILE, "00001"),
            ("s3://b/t/00099-x.metadata.json", "00100"),
            ("/t/v7.metadata.json", "00000"),
        ],
    )
    def test_file_numbers(self, previous: str | None, number: str) -> None:
        assert metadata_location("/t", {}, previous, "u") == f"/t/metadata/{number}-u.metadata.json"

    def test_clients_may_not_delete(self) -> None:
        check_properties(new().with_properties({"gc.enabled": "false", "a": "1"}))
        for worse in ({}, {"gc.enabled": "false", "write.metadata.delete-after-commit.enabled": "TRUE"}):
            with pytest.raises(BadRequest, match="branches share files"):
                check_properties(new().with_properties(worse))

    @pytest.mark.parametrize(
        "properties",
        [
            None,
            {},
            {"gc.enabled": "true", "a": "1"},
            {"gc.enabled": True, "a": 2**80},
            {"gc.enabled": None, "a": [{}]},
            {"gc.enabled": "false"},
            {"gc.enabled": False},
        ],
    )
    def test_no_client_is_told_that_it_may_delete(self, properties: dict[str, Any] | None) -> None:
        raw = json.dumps({"format-version": 2, "x": 2**70, "properties": properties}).encode()
        given = with_safe_properties(raw)
        told = json.loads(given)
        assert told == {**json.loads(raw), "properties": {**(properties or {}), "gc.enabled": ANY}}
        assert told["properties"]["gc.enabled"] in ("false", False)
        assert (given is raw) is (properties in ({"gc.enabled": "false"}, {"gc.enabled": False}))
