"""Updates of what a table is: its identity, schemas, partition specs, sort orders, properties and encryption keys.

Each rule applies one update, of a checked shape, to a draft, as Iceberg's TableMetadata.Builder does: ids are the
catalog's to give, what is equal is stored once, and what is removed already stays so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from uuid import UUID

from nessie_ops.catalog.draft import LAST_ADDED, Draft, check_settings
from nessie_ops.catalog.layouts import check_fields, check_names, same_order, same_spec, with_field_ids
from nessie_ops.catalog.schemas import check_schema, highest_id, same_schema
from nessie_ops.catalog.shapes import Json
from nessie_ops.catalog.tablemetadata import check_format_version
from nessie_ops.errors import BadRequest

Rule = Callable[[Draft, Json, str], None]
_KEYS_VERSION = 3
FORMAT_VERSION = "format-version"  # set as a property, it is what the table becomes and no property of it


def _assign_uuid(draft: Draft, update: Json, field: str) -> None:
    try:
        given = str(UUID(update["uuid"]))
    except ValueError:
        raise BadRequest(f"{field}.uuid: '{update['uuid'][:80]}' is not a UUID.") from None
    known = draft.base.table_uuid if draft.base else None
    if known is not None and given != known.lower():
        raise BadRequest(f"{field}.uuid: the table has the UUID {known}; it cannot be changed.")
    if known is None:
        draft.set("table-uuid", given)


def _upgrade(draft: Draft, update: Json, field: str) -> None:
    wanted = check_format_version(update["format-version"], f"{field}.format-version")
    if wanted < draft.version:
        raise BadRequest(f"{field}.format-version: cannot downgrade from {draft.version} to {wanted}.")
    draft.set("format-version", wanted)
    draft.changed |= draft.base is None
    if wanted >= 2:
        draft.json.setdefault("last-sequence-number", 0)
    if wanted >= 3:
        draft.json.setdefault("next-row-id", 0)


def _add_schema(draft: Draft, update: Json, field: str) -> None:
    schema = update["schema"]
    check_schema(schema, draft.version, f"{field}.schema")
    known = draft.json["schemas"]
    same = next((item for item in known if same_schema(item, schema)), None)
    number = _next_id(known, "schema-id", 0) if same is None else same["schema-id"]
    draft.last_schema = number
    if schema.get("schema-id") is not None:
        draft.schema_ids[schema["schema-id"]] = number
    if same is None:
        draft.append("schemas", {**schema, "type": "struct", "schema-id": number})
    draft.set("last-column-id", max(draft.json["last-column-id"], highest_id(schema)))


def _set_schema(draft: Draft, update: Json, field: str) -> None:
    wanted = update["schema-id"]
    number = _last_added(draft.last_schema, f"{field}.schema-id", "schema") if wanted == LAST_ADDED else wanted
    # Clients name a schema of the same commit by the id that they proposed for it.
    number = draft.schema_ids.get(wanted, number)
    if draft.find("schemas", "schema-id", number) is None:
        raise BadRequest(f"{field}.schema-id: the table has no schema {wanted}.")
    draft.set("current-schema-id", number)


def _remove_schemas(draft: Draft, update: Json, field: str) -> None:
    gone = set(update["schema-ids"])
    if draft.json.get("current-schema-id") in gone:
        raise BadRequest(f"{field}.schema-ids: cannot remove the current schema {draft.json['current-schema-id']}.")
    draft.keep("schemas", [item for item in draft.json["schemas"] if item["schema-id"] not in gone])


def _add_spec(draft: Draft, update: Json, field: str) -> None:
    given, known = update["spec"], draft.json["partition-specs"]
    schema = draft.coming_schema(f"{field}.spec")
    check_fields(given["fields"], schema, draft.version, f"{field}.spec")
    check_names(given["fields"], schema, f"{field}.spec")
    same = next((item for item in known if same_spec(item, given)), None)
    draft.last_spec = _next_id(known, "spec-id", 0) if same is None else same["spec-id"]
    if same is not None:
        return
    fields = with_field_ids(given["fields"], known, draft.json["last-partition-id"])
    fields = [without_nulls(item) for item in fields]
    ids = [_fit(item["field-id"], "partition field id") for item in fields]
    if len(set(ids)) < len(ids):
        raise BadRequest(f"{field}.spec.fields: the field ids {ids[:20]} are not distinct.")
    if draft.version == 1 and ids != list(range(1000, 1000 + len(ids))):
        raise BadRequest(f"{field}.spec.fields: format version 1 needs the field ids 1000, 1001, … in order.")
    draft.append("partition-specs", {**without_nulls(given), "spec-id": draft.last_spec, "fields": fields})
    draft.set("last-partition-id", max([draft.json["last-partition-id"], *ids]))


def _set_spec(draft: Draft, update: Json, field: str) -> None:
    wanted = update["spec-id"]
    number = _last_added(draft.last_spec, f"{field}.spec-id", "spec") if wanted == LAST_ADDED else wanted
    if draft.find("partition-specs", "spec-id", number) is None:
        raise BadRequest(f"{field}.spec-id: the table has no partition spec {wanted}.")
    draft.set("default-spec-id", number)


def _remove_specs(draft: Draft, update: Json, field: str) -> None:
    gone = set(update["spec-ids"])
    if draft.json.get("default-spec-id") in gone:
        raise BadRequest(f"{field}.spec-ids: cannot remove the default partition spec {draft.json['default-spec-id']}.")
    draft.keep("partition-specs", [item for item in draft.json["partition-specs"] if item["spec-id"] not in gone])


def _add_order(draft: Draft, update: Json, field: str) -> None:
    given, known = update["sort-order"], draft.json["sort-orders"]
    check_fields(given["fields"], draft.coming_schema(f"{field}.sort-order"), draft.version, f"{field}.sort-order")
    same = next((item for item in known if same_order(item, given)), None)
    if same is not None:
        draft.last_order = same["order-id"]
        return
    draft.last_order = _next_id(known, "order-id", 1) if given["fields"] else 0
    fields = [without_nulls(item) for item in given["fields"]]
    draft.append("sort-orders", {**given, "order-id": draft.last_order, "fields": fields})


def _set_order(draft: Draft, update: Json, field: str) -> None:
    wanted = update["sort-order-id"]
    number = _last_added(draft.last_order, f"{field}.sort-order-id", "sort order") if wanted == LAST_ADDED else wanted
    if number != 0 and draft.find("sort-orders", "order-id", number) is None:
        raise BadRequest(f"{field}.sort-order-id: the table has no sort order {wanted}.")
    draft.set("default-sort-order-id", number)


def _set_location(draft: Draft, update: Json, field: str) -> None:
    location = update["location"].rstrip("/")
    if not location:
        raise BadRequest(f"{field}.location: must be a location.")
    draft.set("location", location)


def _set_properties(draft: Draft, update: Json, field: str) -> None:
    given = dict(update["updates"])
    version = given.pop(FORMAT_VERSION, None)
    if version is not None:  # as Iceberg's own clients understand it
        number = int(version) if re.fullmatch(r"[0-9]{1,9}", version) else version
        _upgrade(draft, {FORMAT_VERSION: number}, f"{field}.updates")
    check_settings(given)
    draft.json["properties"].update(given)
    draft.changed |= bool(given)


def _remove_properties(draft: Draft, update: Json, field: str) -> None:
    for name in update["removals"]:
        draft.changed |= draft.json["properties"].pop(name, None) is not None


def _add_key(draft: Draft, update: Json, field: str) -> None:
    key = update["encryption-key"]
    draft.need_version(_KEYS_VERSION, field, "an encryption key")
    keys = draft.json.get("encryption-keys", [])
    same = next((item for item in keys if item["key-id"] == key["key-id"]), None)
    if same is not None and same != key:
        raise BadRequest(f"{field}.encryption-key.key-id: '{key['key-id'][:80]}' is the id of another key.")
    if same is None:
        draft.set("encryption-keys", [*keys, key])


def _remove_key(draft: Draft, update: Json, field: str) -> None:
    keys = draft.json.get("encryption-keys", [])
    kept = [item for item in keys if item["key-id"] != update["key-id"]]
    if len(kept) < len(keys):
        draft.set("encryption-keys", kept)


def without_nulls(item: Json) -> Json:
    """`item` with absent fields for null ones: some readers of metadata files take an absent field alone."""
    return {name: value for name, value in item.items() if value is not None}


def _next_id(items: list[Json], name: str, first: int) -> int:
    used: list[int] = [item[name] for item in items]
    return _fit(max([first - 1, *used]) + 1, name)


def _fit(number: int, name: str) -> int:
    if number >= 2**31:
        raise BadRequest(f"updates: the table has no {name} left below {2**31}.")
    return number


def _last_added(number: int | None, field: str, what: str) -> int:
    if number is None:
        raise BadRequest(f"{field}: {LAST_ADDED} means the last added {what}, and no {what} was added.")
    return number


RULES: dict[str, Rule] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-current-schema": _set_schema,
    "remove-schemas": _remove_schemas,
    "add-spec": _add_spec,
    "set-default-spec": _set_spec,
    "remove-partition-specs": _remove_specs,
    "add-sort-order": _add_order,
    "set-default-sort-order": _set_order,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-encryption-key": _add_key,
    "remove-encryption-key": _remove_key,
}
