"""View metadata as plain JSON values: creating it and applying updates, per the Iceberg view specification, version 1.

Invariants of what is returned: the current version exists; ids of versions and schemas are never reused
for something else; equal versions and schemas are stored once.  Input is never changed.  Pure.
PyIceberg 0.12 has models of views, but nothing that applies updates to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from nessie_ops.catalog.requests import Json
from nessie_ops.catalog.schemas import check_schema, same_schema
from nessie_ops.catalog.shapes import AssertTableUuid, check_shape
from nessie_ops.catalog.structure import without_nulls
from nessie_ops.catalog.tablemetadata import MAX_FORMAT_VERSION
from nessie_ops.catalog.viewshapes import ViewVersion
from nessie_ops.errors import BadRequest, CommitFailed

FORMAT_VERSION = 1
LAST_ADDED = -1
_HISTORY = "version.history.num-entries"
_DEFAULT_HISTORY = 10  # the specification's default number of versions to keep
_DROP_DIALECT = "replace.drop-dialect.allowed"


def new_view(location: str, view_uuid: str, schema: Json, version: Json, properties: dict[str, str]) -> Json:
    """Metadata of a new view whose only version is `version`; BadRequest."""
    empty: Json = {
        "view-uuid": view_uuid,
        "format-version": FORMAT_VERSION,
        "location": location,
        "schemas": [],
        "current-version-id": LAST_ADDED,
        "versions": [],
        "version-log": [],
        "properties": properties,
    }
    first = {**version, "schema-id": LAST_ADDED}
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": first},
        {"action": "set-current-view-version", "view-version-id": LAST_ADDED},
    ]
    return apply_view_updates(empty, updates, now_ms=_integer(version, "timestamp-ms", "view-version"))


def check_view_requirements(metadata: Json, requirements: Sequence[Json], name: str) -> None:
    """CommitFailed unless the view is the one the client has seen; BadRequest for unknown requirements."""
    for i, requirement in enumerate(requirements):
        if requirement.get("type") != "assert-view-uuid":
            raise BadRequest(f"requirements[{i}].type: '{str(requirement.get('type'))[:80]}' is unknown for a view.")
        check_shape(requirement, AssertTableUuid, f"requirements[{i}]")
        if str(requirement["uuid"]).lower() != metadata["view-uuid"].lower():
            raise CommitFailed(f"View {name}: its UUID is {metadata['view-uuid']}, not {requirement.get('uuid')}.")


def apply_view_updates(metadata: Json, updates: Sequence[Json], *, now_ms: int) -> Json:
    """The metadata after `updates`; equal to `metadata` when they change nothing.  BadRequest."""
    editor = _Editor(metadata, now_ms)
    for i, update in enumerate(updates):
        editor.apply(update, f"updates[{i}]")
    return editor.finish()


class _Editor:
    """One set of changes to a view, and what "the last added" means in it."""

    def __init__(self, metadata: Json, now_ms: int) -> None:
        self._before = metadata
        self._view = {
            **metadata,
            **{name: list(metadata[name]) for name in ("schemas", "versions", "version-log")},
            "properties": dict(metadata.get("properties") or {}),
        }
        self._now_ms = now_ms
        self._last_schema = self._last_version = LAST_ADDED
        self._version_ids: dict[int, int] = {}  # id that the client proposed -> id that it got
        self._schema_ids: dict[int, int] = {}
        self._rules: dict[str, Callable[[Json, str], None]] = {
            "assign-uuid": self._assign_uuid,
            "upgrade-format-version": self._upgrade,
            "add-schema": self._add_schema,
            "set-location": self._set_location,
            "set-properties": self._set_properties,
            "remove-properties": self._remove_properties,
            "add-view-version": self._add_version,
            "set-current-view-version": self._set_current,
        }

    def apply(self, update: Json, field: str) -> None:
        rule = self._rules.get(str(update.get("action")))
        if rule is None:
            raise BadRequest(f"{field}.action: '{str(update.get('action'))[:80]}' is unknown for a view.")
        rule(update, field)

    def finish(self) -> Json:
        if not any(v["version-id"] == self._view["current-version-id"] for v in self._view["versions"]):
            raise BadRequest("updates: the view has no current version.")
        self._check_dialects()
        self._forget_old_versions()
        return self._view

    def _assign_uuid(self, update: Json, field: str) -> None:
        try:
            given = str(UUID(update.get("uuid", "")))
        except (ValueError, AttributeError, TypeError):
            raise BadRequest(f"{field}.uuid: '{str(update.get('uuid'))[:80]}' is not a UUID.") from None
        if self._before["versions"] and given != self._view["view-uuid"].lower():
            raise BadRequest(f"{field}.uuid: the view has the UUID {self._view['view-uuid']}; it cannot be changed.")
        self._view["view-uuid"] = given

    def _upgrade(self, update: Json, field: str) -> None:
        if update.get("format-version") != FORMAT_VERSION:
            raise BadRequest(f"{field}.format-version: only version {FORMAT_VERSION} is supported.")

    def _add_schema(self, update: Json, field: str) -> None:
        schema = _parse_schema(update.get("schema"), f"{field}.schema")
        known = {item["schema-id"]: item for item in self._view["schemas"]}
        same = next((n for n, item in known.items() if same_schema(item, schema)), None)
        self._last_schema = max(known, default=-1) + 1 if same is None else same
        if schema.get("schema-id") is not None:
            self._schema_ids[schema["schema-id"]] = self._last_schema
        if same is None:
            self._view["schemas"].append({**schema, "schema-id": self._last_schema})

    def _set_location(self, update: Json, field: str) -> None:
        self._view["location"] = _text(update, "location", field).rstrip("/")

    def _set_properties(self, update: Json, field: str) -> None:
        given = update.get("updates")
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise BadRequest(f"{field}.updates: must be an object with text values.")
        self._view["properties"].update(given)

    def _remove_properties(self, update: Json, field: str) -> None:
        given = update.get("removals")
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise BadRequest(f"{field}.removals: must be a list of names.")
        for name in given:
            self._view["properties"].pop(name, None)

    def _add_version(self, update: Json, field: str) -> None:
        version = self._parse_version(update.get("view-version"), f"{field}.view-version")
        proposed = version["version-id"]
        known = {item["version-id"]: item for item in self._view["versions"]}
        same = next((n for n, item in known.items() if _same_version(item, version)), None)
        new_id = max([0, *known]) + 1 if known else max(proposed, 1)
        self._last_version = new_id if same is None else same
        self._version_ids[proposed] = self._last_version
        if same is None:
            self._view["versions"].append({**version, "version-id": self._last_version})

    def _parse_version(self, given: Any, field: str) -> Json:
        if not isinstance(given, dict):
            raise BadRequest(f"{field}: must be an object.")
        version: Json = {"summary": {}, **without_nulls(given)}
        check_shape(version, ViewVersion, field)
        wanted = version["schema-id"]
        # As in tables, clients name a schema of the same commit by the id that they proposed for it.
        version["schema-id"] = self._last_schema if wanted == LAST_ADDED else self._schema_ids.get(wanted, wanted)
        if not any(schema["schema-id"] == version["schema-id"] for schema in self._view["schemas"]):
            raise BadRequest(f"{field}.schema-id: the view has no schema {version['schema-id']}.")
        _check_dialects_differ(version["representations"], f"{field}.representations")
        return version

    def _set_current(self, update: Json, field: str) -> None:
        wanted = _integer(update, "view-version-id", field)
        current = self._last_version if wanted == LAST_ADDED else self._version_ids.get(wanted, wanted)
        version = next((v for v in self._view["versions"] if v["version-id"] == current), None)
        if version is None:
            raise BadRequest(f"{field}.view-version-id: the view has no version {wanted}.")
        if current == self._view["current-version-id"]:
            return
        self._view["current-version-id"] = current
        added_now = current in self._version_ids.values()
        when = version["timestamp-ms"] if added_now else self._now_ms
        self._view["version-log"].append({"timestamp-ms": when, "version-id": current})

    def _check_dialects(self) -> None:
        """Replacing a view must not drop a dialect by accident: engines that read it would fail."""
        before, after = _current_dialects(self._before), _current_dialects(self._view)
        allowed = self._view["properties"].get(_DROP_DIALECT, "false").lower() == "true"
        if not allowed and (dropped := before - after):
            raise BadRequest(
                f"updates: the new version has no SQL for the dialects {', '.join(sorted(dropped))}; "
                f"add it, or set the property {_DROP_DIALECT}=true."
            )

    def _forget_old_versions(self) -> None:
        text = self._view["properties"].get(_HISTORY, str(_DEFAULT_HISTORY))
        keep = int(text) if text.isdecimal() and 0 < int(text) < 10**6 else 0
        if not keep:
            raise BadRequest(f"properties.{_HISTORY}: '{text[:20]}' must be a number from 1 to 999999.")
        current = self._view["current-version-id"]
        by_age = sorted(self._view["versions"], key=lambda v: (v["version-id"] == current, v["version-id"]))
        kept = {version["version-id"] for version in by_age[-keep:]}
        self._view["versions"] = [v for v in self._view["versions"] if v["version-id"] in kept]
        log = self._view["version-log"]
        gap = max((i for i, entry in enumerate(log) if entry["version-id"] not in kept), default=-1)
        self._view["version-log"] = log[gap + 1 :]


def _parse_schema(given: Any, field: str) -> Json:
    if not isinstance(given, dict):
        raise BadRequest(f"{field}: must be an object.")
    check_schema(given, MAX_FORMAT_VERSION, field)  # a view may name columns of tables of any version
    return {**given, "type": "struct"}


def _check_dialects_differ(given: list[Json], field: str) -> None:
    dialects: set[str] = set()
    for i, item in enumerate(given):
        dialect = item["dialect"].lower()
        if dialect in dialects:
            raise BadRequest(f"{field}[{i}].dialect: '{dialect[:80]}' is given twice.")
        dialects.add(dialect)


def _current_dialects(metadata: Json) -> set[str]:
    current = [v for v in metadata["versions"] if v["version-id"] == metadata["current-version-id"]]
    return {item["dialect"].lower() for version in current for item in version["representations"]}


def _same_version(a: Json, b: Json) -> bool:
    names = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")
    return all(a.get(name) == b.get(name) for name in names)


def _integer(item: Json, name: str, field: str) -> int:
    value = item.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**63:
        raise BadRequest(f"{field}.{name}: must be an integer.")
    return value


def _text(item: Json, name: str, field: str) -> str:
    value = item.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{field}.{name}: must be a text.")
    return value
