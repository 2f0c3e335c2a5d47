"""Well-formed bodies for every route of the Iceberg API that takes one.

The locations stand for others: `file:///x` for a place in the warehouse, `file:///t.json` and `file:///v.json`
for the metadata of a table and of a view.
"""

from __future__ import annotations

from tests.iceberg.helpers import SCHEMA, Json

UUID = "00000000-0000-4000-8000-000000000000"
VERSION = {
    "version-id": 1,
    "schema-id": 0,
    "timestamp-ms": 1,
    "summary": {"a": "b"},
    "default-namespace": ["n"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
SNAPSHOT = {
    "snapshot-id": 1,
    "parent-snapshot-id": 2,
    "sequence-number": 1,
    "timestamp-ms": 1_700_000_000_000,
    "manifest-list": "file:///x",
    "summary": {"operation": "append"},
    "schema-id": 0,
}
STATISTICS = {
    "snapshot-id": 1,
    "statistics-path": "file:///x",
    "file-size-in-bytes": 1,
    "file-footer-size-in-bytes": 1,
    "blob-metadata": [{"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"a": "b"}}],
}
SPEC = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": "identity"}]}
ORDER = {
    "order-id": 1,
    "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
}
UPDATES: list[Json] = [
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 2},
    {"action": "add-schema", "schema": SCHEMA, "last-column-id": 1},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": SPEC},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": ORDER},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "add-snapshot", "snapshot": SNAPSHOT},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1, "max-ref-age-ms": 1},
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "x"},
    {"action": "set-location", "location": "file:///x"},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "snapshot-id": 1, "statistics": STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 1},
    {"action": "remove-schemas", "schema-ids": [1]},
    {"action": "remove-partition-specs", "spec-ids": [1]},
    {
        "action": "set-partition-statistics",
        "partition-statistics": {"snapshot-id": 1, "statistics-path": "file:///x", "file-size-in-bytes": 1},
    },
    {"action": "remove-partition-statistics", "snapshot-id": 1},
    {
        "action": "add-encryption-key",
        "encryption-key": {"key-id": "k", "encrypted-key-metadata": "a2V5", "encrypted-by-id": "m", "properties": {}},
    },
    {"action": "remove-encryption-key", "key-id": "k"},
    {"action": "enable-row-lineage"},
]
REQUIREMENTS: list[Json] = [
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 5},
    {"type": "assert-current-schema-id", "current-schema-id": 5},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 5},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 5},
    {"type": "assert-default-spec-id", "default-spec-id": 5},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 5},
    {"type": "assert-create"},
]
VIEW_UPDATES: list[Json] = [
    {"action": "add-schema", "schema": SCHEMA},
    {"action": "add-view-version", "view-version": VERSION},
    {"action": "set-current-view-version", "view-version-id": -1},
    {"action": "set-properties", "updates": {"a": "b"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-location", "location": "file:///x"},
]
IDENTIFIER = {"namespace": ["n"], "name": "t"}
SCAN: Json = {
    "report-type": "scan-report",
    "table-name": "n.t",
    "snapshot-id": 1,
    "filter": {"type": "eq", "term": "a", "value": 1},
    "schema-id": 0,
    "projected-field-ids": [1],
    "projected-field-names": ["id"],
    "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 1}},
    "metadata": {"engine": "x"},
}
BODIES: dict[str, list[Json]] = {
    "namespaces": [{"namespace": ["n", "m"], "properties": {"a": "b", "location": "file:///x"}}],
    "namespaces/n/properties": [{"removals": ["a"], "updates": {"b": "c"}}],
    "namespaces/n/tables": [
        {
            "name": "new",
            "schema": {**SCHEMA, "schema-id": 0, "identifier-field-ids": []},
            "location": "file:///x",
            "partition-spec": SPEC,
            "write-order": ORDER,
            "stage-create": False,
            "properties": {"format-version": "2"},
        }
    ],
    "namespaces/n/tables/t": [
        *({"requirements": [requirement], "updates": []} for requirement in REQUIREMENTS),
        *({"requirements": [], "updates": [update]} for update in UPDATES),
    ],
    "namespaces/n/tables/t/metrics": [
        SCAN,
        {k: SCAN[k] for k in ("table-name", "snapshot-id", "metrics")}
        | {"report-type": "commit-report", "sequence-number": 1, "operation": "append"},
    ],
    "namespaces/n/register": [{"name": "r", "metadata-location": "file:///t.json", "overwrite": True}],
    "namespaces/n/register-view": [{"name": "r", "metadata-location": "file:///v.json", "overwrite": False}],
    "tables/rename": [{"source": IDENTIFIER, "destination": {**IDENTIFIER, "name": "u"}}],
    "views/rename": [{"source": {**IDENTIFIER, "name": "v"}, "destination": {**IDENTIFIER, "name": "w"}}],
    "transactions/commit": [
        {"table-changes": [{"identifier": IDENTIFIER, "requirements": [REQUIREMENTS[0]], "updates": [UPDATES[13]]}]}
    ],
    "namespaces/n/views": [
        {"name": "w", "location": "file:///x", "schema": SCHEMA, "view-version": VERSION, "properties": {}}
    ],
    "namespaces/n/views/v": [
        {"requirements": [{"type": "assert-view-uuid", "uuid": UUID}], "updates": []},
        *({"requirements": [], "updates": [update]} for update in VIEW_UPDATES),
    ],
}
