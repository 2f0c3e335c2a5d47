"""Table metadata while updates are applied to it: what it is by now, and what "the last added" means.

Invariant: the metadata it began with is never changed; `finish` gives metadata that every reader accepts (its
current schema, spec and order exist and fit each other, times in its logs do not go back).  Follows Iceberg's
TableMetadata.Builder.  Knows no single update.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nessie_ops.catalog.layouts import FIRST_PARTITION_FIELD, check_fields
from nessie_ops.catalog.shapes import Json
from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.errors import BadRequest

LAST_ADDED = -1
_LISTS = (
    "schemas",
    "partition-specs",
    "sort-orders",
    "snapshots",
    "snapshot-log",
    "metadata-log",
    "statistics",
    "partition-statistics",
)
_KEPT_FILES = "write.metadata.previous-versions-max"
_CODEC = "write.metadata.compression-codec"
_CODECS = ("none", "gzip")
_DEFAULT_KEPT_FILES = 100  # Iceberg's default


def check_settings(given: Mapping[str, str]) -> None:
    """BadRequest when properties that are to be set hold what no later commit could be made with."""
    if not re.fullmatch(r"-?[0-9]{1,9}", given.get(_KEPT_FILES, "1")):
        raise BadRequest(f"properties.{_KEPT_FILES}: '{given[_KEPT_FILES][:20]}' is not a number.")
    if given.get(_CODEC, "none").lower() not in _CODECS:
        raise BadRequest(f"properties.{_CODEC}: '{given[_CODEC][:20]}' is unknown; use {' or '.join(_CODECS)}.")


class Draft:
    """One commit's changes to a table; `base` is None for a new one."""

    def __init__(self, base: TableMetadata | None, format_version: int, now_ms: int) -> None:
        before = base.json if base else _empty(format_version)
        self.base = base
        self.now_ms = now_ms
        self.json: Json = {**before, **{name: list(before[name]) for name in _LISTS}}
        self.json["properties"] = dict(before["properties"])
        self.json["refs"] = dict(before["refs"])
        self.changed = False
        self.last_schema: int | None = None
        self.last_spec: int | None = None
        self.last_order: int | None = None
        self.schema_ids: dict[int, int] = {}  # id that the client proposed -> id that it got
        self.snapshots: dict[int, Json] = {item["snapshot-id"]: item for item in before["snapshots"]}
        self.added: set[int] = set()
        self.removed = False
        self.passed: set[int] = set()  # added snapshots that main pointed to for a while
        self.updated_ms: int | None = None  # the time of the last added snapshot

    @property
    def version(self) -> int:
        return int(self.json["format-version"])

    def need_version(self, version: int, field: str, what: str) -> None:
        """BadRequest unless the table has the format version that `what` needs."""
        if self.version < version:
            raise BadRequest(f"{field}: {what} needs format version {version}; the table has {self.version}.")

    def set(self, name: str, value: Any) -> None:
        if self.json.get(name) != value:
            self.json[name] = value
            self.changed = True

    def append(self, name: str, item: Json) -> None:
        self.json[name].append(item)
        self.changed = True

    def keep(self, name: str, items: list[Json]) -> None:
        """Put `items`, a part of the list `name`, in its place."""
        self.changed |= len(items) != len(self.json[name])
        self.json[name] = items

    def find(self, name: str, key: str, wanted: object) -> Json | None:
        return next((item for item in self.json[name] if item.get(key) == wanted), None)

    def current_schema(self, where: str) -> Json:
        found = self.find("schemas", "schema-id", self.json.get("current-schema-id"))
        if found is None:
            raise BadRequest(f"{where}: the table has no current schema yet; add one and set it.")
        return found

    def coming_schema(self, where: str) -> Json:
        """The current schema; before one is set, the last added, since DuckDB sets it after specs and orders."""
        if "current-schema-id" not in self.json and self.json["schemas"]:
            last: Json = self.json["schemas"][-1]
            return last
        return self.current_schema(where)

    def time_ms(self) -> int:
        """The time of this change: that of its last snapshot, but never one before the table's last change."""
        # Readers refuse tables whose times go back by more than a minute, and clocks of writers differ.
        log = self.json["snapshot-log"]
        before: list[int] = [entry["timestamp-ms"] for entry in log[-1:]]
        before += [self.base.json["last-updated-ms"]] if self.base else []
        given = self.now_ms if self.updated_ms is None else self.updated_ms
        return max(given, *before) if before else given

    def finish(self, previous_file: str | None) -> TableMetadata | None:
        """The metadata as it is to be written after `previous_file`; None when nothing changed.  BadRequest."""
        if not self.changed:
            return None
        self._check()
        self._correct_snapshot_log()
        after = self.json
        after["last-updated-ms"] = self.time_ms()
        if self.base and previous_file:
            self._log_file(previous_file, self.base.json["last-updated-ms"])
        self._follow_version()
        return TableMetadata(after)

    def _check(self) -> None:
        after = self.json
        for name in ("location", "table-uuid"):
            if after.get(name) is None and (name == "location" or self.version > 1):
                raise BadRequest(f"updates: the table has no {name}; add it to the updates.")
        schema = self.current_schema("updates")
        spec = self.find("partition-specs", "spec-id", after.get("default-spec-id"))
        if spec is None:
            raise BadRequest("updates: the table has no default partition spec; add one and set it.")
        if not after["sort-orders"]:
            self.append("sort-orders", {"order-id": 0, "fields": []})
        order_id = after.setdefault("default-sort-order-id", 0)
        order = self.find("sort-orders", "order-id", order_id)
        if order is None and order_id != 0:
            raise BadRequest(f"updates: the table has no sort order {order_id}.")
        check_fields(spec["fields"], schema, self.version, "updates: the default partition spec")
        check_fields(order["fields"] if order else (), schema, self.version, "updates: the default sort order")

    def _correct_snapshot_log(self) -> None:
        """Leave out what main pointed to only within this commit, and all before a snapshot that is gone.

        Without the entry of a snapshot that is gone, an older one would answer for its time.
        """
        current = self.json.get("current-snapshot-id")
        passed = self.passed - {current}
        if not passed and not self.removed:
            return
        entries: list[Json] = []
        for entry in self.json["snapshot-log"]:
            if entry["snapshot-id"] not in self.snapshots:
                entries = [] if self.removed else entries
            elif entry["snapshot-id"] not in passed:
                entries.append(entry)
        self.json["snapshot-log"] = entries

    def _log_file(self, location: str, timestamp_ms: int) -> None:
        text = self.json["properties"].get(_KEPT_FILES, str(_DEFAULT_KEPT_FILES))
        check_settings({_KEPT_FILES: text})
        log = [*self.json["metadata-log"], {"metadata-file": location, "timestamp-ms": timestamp_ms}]
        self.json["metadata-log"] = log[-max(1, int(text)) :]

    def _follow_version(self) -> None:
        """The fields that one format version has and another does not."""
        after = self.json
        if self.version == 1:
            spec = self.find("partition-specs", "spec-id", after["default-spec-id"])
            after["schema"] = self.current_schema("updates")
            after["partition-spec"] = spec["fields"] if spec else []
            after["snapshots"] = [_without(item, "sequence-number") for item in after["snapshots"]]
            after.pop("last-sequence-number", None)
            return
        after.pop("schema", None)
        after.pop("partition-spec", None)
        after.setdefault("last-sequence-number", 0)
        if self.version >= 3:
            after.setdefault("next-row-id", 0)


def _empty(format_version: int) -> Json:
    return {
        "format-version": format_version,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "last-partition-id": FIRST_PARTITION_FIELD - 1,
        "properties": {},
        "refs": {},
        **{name: [] for name in _LISTS},
    }


def _without(item: Json, name: str) -> Json:
    return {key: value for key, value in item.items() if key != name}
