"""Format versions 1, 2 and 3: what a table of each may hold, the way up, and that nothing is lost."""

from __future__ import annotations

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nessie_ops.catalog.tablemetadata import TableMetadata, parse_metadata, serialize_metadata
from nessie_ops.catalog.updates import create_from_updates, parse_updates
from nessie_ops.errors import BadRequest
from tests.iceberg.tables import (
    BASE_SCHEMA,
    BY_DAY,
    FILE,
    LOCATION,
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


def unknown_map(key: str, value: str) -> Json:
    return {"type": "map", "key-id": 2, "key": key, "value-id": 3, "value": value, "value-required": True}


class TestVersions:
    @every_version
    def test_create(self, version: int) -> None:
        table = new(version)
        assert table.format_version == version
        assert "format-version" not in table.properties
        assert ("schema" in table.json, "last-sequence-number" in table.json) == (version == 1, version > 1)
        assert table.json.get("next-row-id") == (0 if version == 3 else None)

    def test_default_is_2(self) -> None:
        assert new(2, properties={}).format_version == 2

    @pytest.mark.parametrize("text", ["0", "4", "x", "", "9" * 40])
    def test_others_are_refused(self, text: str) -> None:
        with pytest.raises(BadRequest, match="format-version"):
            new(2, properties={"format-version": text})

    def test_a_property_is_an_upgrade(self) -> None:
        """`SET TBLPROPERTIES ('format-version' = '3')`, which not every client turns into an update of its own."""
        table = after(new(2), update("set-properties", updates={"format-version": "3", "a": "b"}))
        assert (table.format_version, table.properties.get("a"), table.json["next-row-id"]) == (3, "b", 0)
        assert "format-version" not in table.properties
        for text in ("1", "4", "x", "", "9" * 40):
            assert "format-version" in refusal(new(2), update("set-properties", updates={"format-version": text}))

    @pytest.mark.parametrize(("old", "new_version"), [(1, 2), (1, 3), (2, 3)])
    def test_upgrade(self, old: int, new_version: int) -> None:
        table = after(with_snapshots(old, 2), update("upgrade-format-version", format_version=new_version))
        assert table.format_version == new_version
        assert "schema" not in table.json and "partition-spec" not in table.json
        assert table.json["last-sequence-number"] == (2 if old == 2 else 0)
        assert table.json.get("next-row-id") == (0 if new_version == 3 else None)
        assert table.current_snapshot_id == 2

    def test_downgrade_and_unknown_are_refused(self) -> None:
        assert "downgrade" in refusal(new(3), update("upgrade-format-version", format_version=2))
        assert "updates[0].format-version" in refusal(new(3), update("upgrade-format-version", format_version=4))

    def test_version_1_without_lists(self) -> None:
        """As the first writers of Iceberg left it."""
        old = {
            "format-version": 1,
            "location": LOCATION,
            "last-updated-ms": NOW_MS,
            "last-column-id": 2,
            "schema": schema(field(1, "id"), field(2, "day", "date")),
            "partition-spec": [BY_DAY],
            "properties": {},
            "current-snapshot-id": -1,
        }
        table = parse_metadata(json.dumps(old).encode(), FILE)
        assert (table.current_snapshot_id, table.current_schema_id, table.last_partition_id) == (None, 0, 1000)
        assert table.table_uuid is None
        assert "table-uuid" in refusal(table, update("upgrade-format-version", format_version=2))
        named = after(
            table, update("assign-uuid", uuid=str(UUID_1)), update("upgrade-format-version", format_version=2)
        )
        assert named.table_uuid == str(UUID_1)

    @every_version
    def test_staged_create(self, version: int) -> None:
        updates = parse_updates(
            [
                update("assign-uuid", uuid=str(UUID(int=7))),
                update("upgrade-format-version", format_version=version),
                update("add-schema", schema=BASE_SCHEMA),
                update("set-current-schema", schema_id=-1),
                update("add-spec", spec={"fields": [BY_DAY]}),
                update("set-default-spec", spec_id=-1),
                update("add-sort-order", sort_order={"order-id": 0, "fields": []}),
                update("set-default-sort-order", sort_order_id=-1),
                update("set-location", location=f"{LOCATION}/"),
                snapshot(1),
                point("main", 1),
            ]
        )
        table = create_from_updates(updates, 2, UUID_1, "file:///wh/other", NOW_MS)
        assert (table.format_version, table.table_uuid, table.location) == (version, str(UUID(int=7)), LOCATION)
        assert table.json.get("next-row-id") == (10 if version == 3 else None)
        assert ("sequence-number" in table.json["snapshots"][0]) == (version > 1)

    def test_a_schema_may_be_set_after_what_needs_it(self) -> None:
        updates = [
            update("add-schema", schema=BASE_SCHEMA),
            update("add-spec", spec={"fields": [BY_DAY]}),
            update("set-default-spec", spec_id=-1),
            update("set-current-schema", schema_id=-1),
        ]
        assert create_from_updates(parse_updates(updates), 2, UUID_1, LOCATION, NOW_MS).default_spec_id == 0
        with pytest.raises(BadRequest, match="no current schema yet"):
            create_from_updates(parse_updates(updates[:3]), 2, UUID_1, LOCATION, NOW_MS)
        with pytest.raises(BadRequest, match=r"updates\[0\].*no current schema yet"):
            create_from_updates(parse_updates(updates[1:]), 2, UUID_1, LOCATION, NOW_MS)

    def test_staged_create_without_schema(self) -> None:
        with pytest.raises(BadRequest, match="schema"):
            create_from_updates(parse_updates([update("set-properties", updates={})]), 2, UUID_1, LOCATION, NOW_MS)


class TestTypes:
    @pytest.mark.parametrize(
        "kind",
        [
            *("unknown", "variant", "geometry", "geometry(srid:4326)", "geography", "geography(srid:4326, karney)"),
            *("timestamp_ns", "timestamptz_ns"),
        ],
    )
    def test_new_types_need_version_3(self, kind: str) -> None:
        wider = schema(*BASE_SCHEMA["fields"], field(4, "x", kind))
        table = after(new(3), update("add-schema", schema=wider))
        assert table.json["schemas"][1]["fields"][3] == field(4, "x", kind)
        assert "needs format version 3" in refusal(new(2), update("add-schema", schema=wider))
        inside = schema(field(4, "x", {"type": "list", "element-id": 5, "element": kind, "element-required": False}))
        assert new(3, schema=inside).json["schemas"][0]["fields"][0]["type"]["element"] == kind
        with pytest.raises(BadRequest, match="needs format version 3"):
            new(1, schema=inside)

    @pytest.mark.parametrize(
        "kind", ["geometry(", "variants", "geography(a,b,c)", "decimal(99, 1)", "nothing", "fixed"]
    )
    def test_unknown_types_are_refused(self, kind: str) -> None:
        assert "updates[0].schema" in refusal(new(3), update("add-schema", schema=schema(field(1, "x", kind))))

    def test_defaults_are_kept(self) -> None:
        defaults = {"initial-default": 7, "write-default": 8, "doc": "why"}
        wider = schema(*BASE_SCHEMA["fields"], field(4, "x", "int", **defaults))
        assert (
            after(new(3), update("add-schema", schema=wider)).json["schemas"][1]["fields"][3].items()
            >= defaults.items()
        )
        assert new(3, schema=wider).json["schemas"][0]["fields"][3].items() >= defaults.items()
        assert "initial-default needs" in refusal(new(2), update("add-schema", schema=wider))

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("boolean", True),
            ("int", -(2**31)),
            ("long", 2**62),
            ("float", 1),
            ("double", 1.5),
            ("decimal(9, 2)", "14.20"),
            ("date", "2026-01-31"),
            ("time", "22:31:08.123456"),
            ("timestamp", "2026-01-31T22:31:08.123456"),
            ("timestamptz", "2026-01-31T22:31:08.123456+00:00"),
            ("timestamp_ns", "2026-01-31T22:31:08.123456789"),
            ("timestamptz_ns", "2026-01-31T22:31:08.123456789+00:00"),
            ("string", "é"),
            ("uuid", str(UUID_1)),
            ("fixed[2]", "00ff"),
            ("binary", "00ff"),
        ],
    )
    def test_defaults_of_every_type(self, kind: str, value: object) -> None:
        column = field(4, "x", kind, **{"initial-default": value, "write-default": value})
        assert after(new(3), update("add-schema", schema=schema(column))).json["schemas"][1]["fields"] == [column]

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            *(("int", "x"), ("int", 2**31), ("int", True), ("long", 2**63), ("boolean", 1), ("string", 1)),
            *(("date", "yesterday"), ("date", 7), ("timestamp", "2026-01-31T22:31:08+00:00"), ("uuid", "x")),
            *(("decimal(9, 2)", "many"), ("fixed[2]", "00"), ("binary", "xy"), ("timestamp_ns", "soon")),
            *(("variant", 1), ("unknown", 1), ("geometry", "POINT"), ("double", "1.5")),
        ],
    )
    def test_senseless_defaults(self, kind: str, value: object) -> None:
        wrong = schema(field(4, "x", kind, **{"initial-default": value}))
        assert "updates[0].schema" in refusal(new(3), update("add-schema", schema=wrong))

    def test_fresh_ids_of_nested_fields(self) -> None:
        """The order of all implementations: the fields of a struct, then what is inside each."""
        inner = {"type": "struct", "fields": [field(50, "a"), field(60, "b", "string", doc="deep")]}
        by_name = {"type": "map", "key-id": 70, "key": "string", "value-id": 80, "value": inner, "value-required": True}
        table = new(
            2, schema=schema(field(9, "m", by_name), field(8, "id", required=True), **{"identifier-field-ids": [8]})
        )
        made = table.json["schemas"][0]
        kind = made["fields"][0]["type"]
        assert [item["id"] for item in made["fields"]] == [1, 2]
        assert (kind["key-id"], kind["value-id"]) == (3, 4)
        assert [item["id"] for item in kind["value"]["fields"]] == [5, 6]
        assert kind["value"]["fields"][1]["doc"] == "deep"
        assert (made["identifier-field-ids"], table.last_column_id) == ([2], 6)

    @pytest.mark.parametrize(
        "wrong",
        [
            schema(field(1, "a"), field(1, "b")),
            schema(field(1, "a"), field(2, "a")),
            schema(field(2**31, "a")),
            schema({"name": "a", "type": "long"}),
            schema(field(1, "a", None)),
            schema(field(1, "a"), **{"identifier-field-ids": [1]}),
            schema(field(1, "a"), **{"identifier-field-ids": [2]}),
            {"type": "struct"},
            {"type": "list", "fields": []},
            schema(field(1, "a", "unknown", required=True)),
            schema(field(1, "a", {"type": "list", "element-id": 2, "element": "unknown", "element-required": True})),
            schema(field(1, "a", unknown_map(key="unknown", value="long"))),
            schema(field(1, "a", unknown_map(key="long", value="unknown"))),
        ],
    )
    def test_senseless_schemas(self, wrong: Json) -> None:
        assert "updates[0].schema" in refusal(new(3), update("add-schema", schema=wrong))


text = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.booleans() | st.integers(-9, 9) | text, lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
extras = st.dictionaries(text.map(lambda name: f"x-{name}"), values, max_size=3)


class TestNothingIsLost:
    @settings(max_examples=40, deadline=None)
    @given(
        version=st.sampled_from([1, 2, 3]),
        top=extras,
        of_snapshot=extras,
        of_field=extras,
        summary=st.dictionaries(text, text, max_size=3),
        doc=text,
    )
    def test_what_goes_in_comes_out(
        self, version: int, top: Json, of_snapshot: Json, of_field: Json, summary: Json, doc: str
    ) -> None:
        """Fields that no version of the catalog knows survive updates of everything around them."""
        column = field(4, "extra", doc=doc, **of_field)
        one = snapshot(1, **of_snapshot, summary={**summary, "operation": "append"})
        base = TableMetadata({**new(version).json, **top})
        table = after(base, update("add-schema", schema=schema(column)), one, point("main", 1))
        table = after(table, snapshot(2, 1), point("main", 2), update("set-properties", updates={"k": "v"}))
        assert {name: table.json[name] for name in top} == top
        assert table.json["schemas"][1]["fields"] == [column]
        written = dict(one["snapshot"])
        if version == 1:
            del written["sequence-number"]
        assert table.json["snapshots"][0] == written
        assert serialize_metadata(parse_metadata(serialize_metadata(table), FILE)) == serialize_metadata(table)
