"""Every update and requirement of a table, in every format version: what it does, and what it refuses."""

from __future__ import annotations

from uuid import UUID

import pytest

from nessie_ops.catalog.requirements import check_requirements, parse_requirements
from nessie_ops.catalog.shapes import UPDATES
from nessie_ops.catalog.updates import apply_updates, parse_updates
from nessie_ops.errors import BadRequest, CommitFailed
from tests.iceberg.tables import (
    BASE_SCHEMA,
    BY_DAY,
    FILE,
    KEY,
    NOW_MS,
    UUID_1,
    Json,
    after,
    every_version,
    field,
    new,
    point,
    refusal,
    schema,
    snapshot,
    update,
    with_snapshots,
)


class TestStructure:
    @every_version
    def test_last_added(self, version: int) -> None:
        base = new(version)
        for action, name in (
            ("set-current-schema", "schema-id"),
            ("set-default-spec", "spec-id"),
            ("set-default-sort-order", "sort-order-id"),
        ):
            assert "-1 means the last added" in refusal(base, {"action": action, name: -1})
            assert f"updates[0].{name}" in refusal(base, {"action": action, name: 99})

    @every_version
    def test_remove_schemas(self, version: int) -> None:
        use = update("set-current-schema", schema_id=-1)
        table = after(new(version), update("add-schema", schema=schema(field(1, "id"), field(4, "x"))), use)
        assert "cannot remove the current schema 1" in refusal(table, update("remove-schemas", schema_ids=[0, 1]))
        left = after(table, update("remove-schemas", schema_ids=[0, 77]))
        assert [item["schema-id"] for item in left.json["schemas"]] == [1]
        assert apply_updates(left, FILE, parse_updates([update("remove-schemas", schema_ids=[0])]), NOW_MS) is None

    @every_version
    def test_remove_specs(self, version: int) -> None:
        table = after(
            new(version), update("add-spec", spec={"fields": [BY_DAY]}), update("set-default-spec", spec_id=-1)
        )
        assert "cannot remove the default" in refusal(table, update("remove-partition-specs", spec_ids=[1]))
        assert [
            s["spec-id"] for s in after(table, update("remove-partition-specs", spec_ids=[0])).json["partition-specs"]
        ] == [1]

    def test_ids_of_version_1_are_in_order(self) -> None:
        gap = update("add-spec", spec={"fields": [{**BY_DAY, "field-id": 1005}]})
        assert "1000, 1001" in refusal(new(1), gap)
        assert after(new(2), gap).last_partition_id == 1005

    def test_ids_run_out(self) -> None:
        last = update("add-spec", spec={"fields": [{**BY_DAY, "field-id": 2**31 - 1}]})
        another = update("add-spec", spec={"fields": [{"source-id": 1, "transform": "identity", "name": "i"}]})
        assert "no partition field id left" in refusal(new(2), last, another)

    @pytest.mark.parametrize("text", ["", "x", "--5", "1.5", "9" * 30])
    def test_a_senseless_bound_of_the_metadata_log(self, text: str) -> None:
        senseless = update("set-properties", updates={"write.metadata.previous-versions-max": text})
        assert "previous-versions-max" in refusal(new(), senseless)
        with pytest.raises(BadRequest, match="previous-versions-max"):
            new(properties={"write.metadata.previous-versions-max": text})

    def test_an_unknown_compression_of_metadata(self) -> None:
        """Iceberg's Java library could not write such a table."""
        senseless = update("set-properties", updates={"write.metadata.compression-codec": "zstd"})
        assert "compression-codec: 'zstd' is unknown; use none or gzip" in refusal(new(), senseless)

    def test_several_sources(self) -> None:
        several = {"source-ids": [1, 3], "transform": "bucket2[8]", "name": "both"}
        order = {"source-ids": [1, 3], "transform": "zorder", "direction": "asc", "null-order": "nulls-last"}
        table = after(
            new(3),
            update("add-spec", spec={"fields": [several]}),
            update("set-default-spec", spec_id=-1),
            update("add-sort-order", sort_order={"order-id": 5, "fields": [order]}),
        )
        assert table.json["partition-specs"][1]["fields"] == [{**several, "field-id": 1000}]
        assert table.json["sort-orders"][1] == {"order-id": 1, "fields": [order]}
        assert "needs format version 3" in refusal(new(2), update("add-spec", spec={"fields": [several]}))

    @pytest.mark.parametrize(
        "wrong",
        [
            {**BY_DAY, "source-id": 99},
            {**BY_DAY, "transform": "hour"},
            {**BY_DAY, "transform": "bucket[0]"},
            {**BY_DAY, "transform": "bucket[x]"},
            {**BY_DAY, "name": "id"},
            {**BY_DAY, "name": ""},
            {"transform": "day", "name": "x"},
            {**BY_DAY, "source-id": 2**40},
        ],
    )
    def test_senseless_specs(self, wrong: Json) -> None:
        assert "updates[0].spec" in refusal(new(2), update("add-spec", spec={"fields": [wrong]}))

    def test_a_partitioned_variant_is_refused(self) -> None:
        wider = schema(*BASE_SCHEMA["fields"], field(4, "v", "variant"))
        spec = {"fields": [{"source-id": 4, "transform": "identity", "name": "v"}]}
        add = update("add-schema", schema=wider), update("set-current-schema", schema_id=-1)
        assert "cannot be applied to column 4 (variant)" in refusal(new(3), *add, update("add-spec", spec=spec))

    @every_version
    def test_the_schema_must_keep_what_partitions(self, version: int) -> None:
        table = after(
            new(version), update("add-spec", spec={"fields": [BY_DAY]}), update("set-default-spec", spec_id=-1)
        )
        drop = update("add-schema", schema=schema(field(1, "id"))), update("set-current-schema", schema_id=-1)
        assert "default partition spec" in refusal(table, *drop)

    @every_version
    def test_identity_location_and_properties(self, version: int) -> None:
        base = new(version)
        assert "cannot be changed" in refusal(base, update("assign-uuid", uuid=str(UUID(int=2))))
        assert "not a UUID" in refusal(base, update("assign-uuid", uuid="x"))
        moved = after(
            base, update("set-location", location="file:///wh/b/"), update("set-properties", updates={"a": "1"})
        )
        assert (moved.location, moved.properties["a"]) == ("file:///wh/b", "1")
        assert "a" not in after(moved, update("remove-properties", removals=["a"])).properties

    def test_encryption_keys(self) -> None:
        table = after(new(3), update("add-encryption-key", encryption_key=KEY), snapshot(1, **{"key-id": "k1"}))
        assert table.json["encryption-keys"] == [KEY]
        assert table.json["snapshots"][0]["key-id"] == "k1"
        again = parse_updates([update("add-encryption-key", encryption_key=KEY)])
        assert apply_updates(table, FILE, again, NOW_MS) is None
        other = {**KEY, "encrypted-key-metadata": "eA=="}
        assert "another key" in refusal(table, update("add-encryption-key", encryption_key=other))
        assert after(table, update("remove-encryption-key", key_id="k1")).json["encryption-keys"] == []
        assert "format version 3" in refusal(new(2), update("add-encryption-key", encryption_key=KEY))


class TestHistory:
    @every_version
    def test_snapshots_are_kept_as_they_were_written(self, version: int) -> None:
        strange = snapshot(1, **{"operation-x": {"y": [1]}, "summary": {"operation": "replace", "deleted-dvs": "1"}})
        table = after(new(version), strange, point("main", 1))
        expected = dict(strange["snapshot"])
        if version == 1:
            del expected["sequence-number"]
        assert table.json["snapshots"] == [expected]
        assert after(table, update("set-properties", updates={"a": "b"})).json["snapshots"] == [expected]

    def test_row_lineage(self) -> None:
        table = with_snapshots(3, 2)
        assert table.json["next-row-id"] == 20
        assert "first-row-id 5" in refusal(table, snapshot(3, 2, **{"first-row-id": 5}), error=CommitFailed)
        assert after(table, snapshot(3, 2, **{"first-row-id": 100})).json["next-row-id"] == 110
        for name in ("first-row-id", "added-rows"):
            assert f"updates[0].snapshot.{name}" in refusal(table, snapshot(3, 2, **{name: None}))
            assert f"updates[0].snapshot.{name}" in refusal(table, snapshot(3, 2, **{name: -1}))
        assert "64 bits" in refusal(table, snapshot(3, 2, **{"added-rows": 2**63 - 1}))
        assert "next-row-id" not in with_snapshots(2, 2).json

    def test_row_lineage_comes_with_version_3(self) -> None:
        enable = update("enable-row-lineage")
        assert apply_updates(new(3), FILE, parse_updates([enable]), NOW_MS) is None
        assert "needs format version 3" in refusal(new(2), enable)
        assert after(new(2), update("upgrade-format-version", format_version=3), enable).json["next-row-id"] == 0

    @every_version
    def test_sequence_numbers(self, version: int) -> None:
        table = with_snapshots(version, 2)
        late = snapshot(3, 2, **{"sequence-number": 2})
        if version == 1:
            assert "last-sequence-number" not in after(table, late).json
        else:
            assert "sequence number 2" in refusal(table, late, error=CommitFailed)

    @every_version
    def test_refused(self, version: int) -> None:
        table = with_snapshots(version, 1)
        compact = snapshot(2, 1, summary={"operation": "compact"})
        assert "updates[0].snapshot.summary.operation" in refusal(table, compact)
        assert "has a snapshot 1 already" in refusal(table, snapshot(1))
        assert "manifest-list" in refusal(table, snapshot(2, 1, **{"manifest-list": None}))
        assert "unknown snapshot 9" in refusal(table, point("b", 9))
        assert "cannot be a tag" in refusal(table, point("main", 1, "tag"))
        assert "min-snapshots-to-keep" in refusal(table, point("t", 1, "tag", **{"min-snapshots-to-keep": 1}))
        assert "max-ref-age-ms" in refusal(table, point("t", 1, "tag", **{"max-ref-age-ms": 0}))

    @every_version
    def test_refs(self, version: int) -> None:
        extra = {"max-ref-age-ms": 5, "max-snapshot-age-ms": 6, "min-snapshots-to-keep": 7}
        table = after(with_snapshots(version, 2), point("audit", 1, **extra), point("v1", 1, "tag"))
        assert table.refs["audit"] == {"type": "branch", "snapshot-id": 1, **extra}
        assert apply_updates(table, FILE, parse_updates([point("v1", 1, "tag")]), NOW_MS) is None
        gone = after(table, update("remove-snapshot-ref", ref_name="main"))
        assert gone.current_snapshot_id is None
        assert set(gone.refs) == {"audit", "v1"}
        left = after(table, update("remove-snapshots", snapshot_ids=[1]))
        assert set(left.refs) == {"main"}

    @every_version
    def test_the_log_holds_what_was_current(self, version: int) -> None:
        table = after(new(version), snapshot(1), point("main", 1), snapshot(2, 1), point("main", 2))
        assert table.json["snapshot-log"] == [{"snapshot-id": 2, "timestamp-ms": NOW_MS + 2}]
        back = after(table, point("main", 1))
        assert [entry["snapshot-id"] for entry in back.json["snapshot-log"]] == [2, 1]
        assert back.current_snapshot_id == 1

    def test_times_do_not_go_back(self) -> None:
        """Readers refuse a log whose times do."""
        table = after(with_snapshots(2, 1), snapshot(2, 1, **{"timestamp-ms": 5}), point("main", 2))
        times = [entry["timestamp-ms"] for entry in table.json["snapshot-log"]]
        assert times == sorted(times)
        assert table.json["last-updated-ms"] >= times[-1]
        assert table.json["snapshots"][1]["timestamp-ms"] == 5

    @every_version
    def test_statistics(self, version: int) -> None:
        blob = {
            "type": "new-kind-v9",
            "snapshot-id": 1,
            "sequence-number": 1,
            "fields": [1],
            "properties": {"ndv": "3"},
        }
        sizes = {"file-size-in-bytes": 9, "file-footer-size-in-bytes": 4}
        file = {"snapshot-id": 1, "statistics-path": "p", **sizes, "blob-metadata": [blob], "key-metadata": "eA=="}
        part = {"snapshot-id": 1, "statistics-path": "q", "file-size-in-bytes": 8}
        table = after(
            with_snapshots(version, 1),
            update("set-statistics", statistics=file, snapshot_id=1),
            update("set-partition-statistics", partition_statistics=part),
        )
        assert (table.json["statistics"], table.json["partition-statistics"]) == ([file], [part])
        again = after(table, update("set-statistics", statistics={**file, "statistics-path": "p2"}))
        assert [item["statistics-path"] for item in again.json["statistics"]] == ["p2"]
        none = after(
            again, update("remove-statistics", snapshot_id=1), update("remove-partition-statistics", snapshot_id=1)
        )
        assert (none.json["statistics"], none.json["partition-statistics"]) == ([], [])


class TestRequests:
    @pytest.mark.parametrize("action", ["", "drop-table", "ADD-SCHEMA", None, 7, ["add-schema"]])
    def test_unknown_actions(self, action: object) -> None:
        assert "updates[1].action" in refusal(new(), update("set-properties", updates={}), {"action": action})

    @pytest.mark.parametrize("action", sorted(UPDATES.keys() - {"enable-row-lineage"}))
    def test_an_update_without_its_fields(self, action: str) -> None:
        assert "updates[0]: Object missing required field" in refusal(new(3), {"action": action})

    @pytest.mark.parametrize(
        "wrong",
        [
            snapshot(2**63),
            snapshot(1, **{"parent-snapshot-id": -(2**63) - 1}),
            snapshot(1, **{"sequence-number": 2**64}),
            snapshot(1, **{"timestamp-ms": 10**30}),
            point("b", 2**63),
            update("remove-snapshots", snapshot_ids=[2**63]),
            update("set-current-schema", schema_id=2**31),
            update("remove-partition-specs", spec_ids=[2**31]),
            update("remove-statistics", snapshot_id=2**63),
        ],
    )
    def test_numbers_that_do_not_fit(self, wrong: Json) -> None:
        assert refusal(new(3), wrong).startswith("updates[0].")

    @every_version
    @pytest.mark.parametrize(
        ("kind", "name", "right", "wrong"),
        [
            ("assert-table-uuid", "uuid", str(UUID_1), str(UUID(int=2))),
            ("assert-ref-snapshot-id", "snapshot-id", 1, 2),
            ("assert-last-assigned-field-id", "last-assigned-field-id", 3, 2),
            ("assert-current-schema-id", "current-schema-id", 0, 1),
            ("assert-last-assigned-partition-id", "last-assigned-partition-id", 999, 1000),
            ("assert-default-spec-id", "default-spec-id", 0, 1),
            ("assert-default-sort-order-id", "default-sort-order-id", 0, 1),
        ],
    )
    def test_requirements(self, version: int, kind: str, name: str, right: object, wrong: object) -> None:
        table = with_snapshots(version, 1)
        body = {"type": kind, **({"ref": "main"} if kind == "assert-ref-snapshot-id" else {})}
        check_requirements(parse_requirements([{**body, name: right}]), table, "db.t")
        with pytest.raises(CommitFailed, match=r"db\.t"):
            check_requirements(parse_requirements([{**body, name: wrong}]), table, "db.t")
        with pytest.raises(BadRequest, match=r"requirements\[0\]"):
            parse_requirements([{**body, name: 2**63}])

    def test_unknown_requirement(self) -> None:
        for kind in ("assert-weather", "", None, 7, ["assert-create"]):
            with pytest.raises(BadRequest, match=r"requirements\[0\]\.type.*unknown.*assert-create"):
                parse_requirements([{"type": kind}])

    def test_requirements_of_another_shape(self) -> None:
        for body in (
            {"type": "assert-current-schema-id"},
            {"type": "assert-current-schema-id", "current-schema-id": "1"},
            {"type": "assert-default-spec-id", "default-spec-id": True},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2**31},
            {"type": "assert-table-uuid", "uuid": "x"},
            {"type": "assert-ref-snapshot-id", "snapshot-id": 1},
        ):
            with pytest.raises(BadRequest, match=r"requirements\[0\]"):
                parse_requirements([body])
