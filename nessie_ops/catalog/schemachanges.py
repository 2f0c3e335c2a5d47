"""How a table's columns and partitioning changed, as short lines for people; columns are known by their ids.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nessie_ops.catalog.schemas import Nested, walk
from nessie_ops.catalog.tablemetadata import TableMetadata

Json = dict[str, Any]


def list_schema_changes(before: TableMetadata, schema_id: int, spec_id: int, after: TableMetadata) -> Iterator[str]:
    """Lines such as `+ tail string`, `- tail`, `tail is now plane`, `day: int is now long`, `partitioned by month`.

    `schema_id` and `spec_id` are those of the old state, which `before` has, maybe among newer ones.
    """
    old = {place.id: place for place in walk(_find(before.json["schemas"], "schema-id", schema_id))}
    new = {place.id: place for place in walk(_find(after.json["schemas"], "schema-id", after.current_schema_id))}
    if before.table_uuid != after.table_uuid:  # made anew: ids say nothing
        by_name = {place.name: place.id for place in old.values()}
        new = {by_name.get(place.name, -place.id): place for place in new.values()}
    yield from (f"+ {place.name} {_type(place)}" for id, place in new.items() if id not in old)
    yield from (f"- {place.name}" for id, place in old.items() if id not in new)
    for id in old.keys() & new.keys():
        yield from _compare(old[id], new[id])
    was, now = _layout(before, spec_id, old), _layout(after, after.default_spec_id, new)
    if was != now:
        yield f"partitioned by {now or 'nothing'}"


def _find(items: list[Json], name: str, id: int) -> Json:
    return next((item for item in items if item[name] == id), {"fields": []})


def _compare(old: Nested, new: Nested) -> Iterator[str]:
    if old.name != new.name:
        yield f"{old.name} is now {new.name}"
    if isinstance(new.type, str) and _type(old) != _type(new):
        yield f"{new.name}: {_type(old)} is now {_type(new)}"
    if bool(old.holder.get("required")) != bool(new.holder.get("required")):
        yield f"{new.name} is now {'required' if new.holder.get('required') else 'optional'}"


def _type(place: Nested) -> str:
    return place.type.replace(" ", "") if isinstance(place.type, str) else str(place.type.get("type"))


def _layout(metadata: TableMetadata, spec_id: int, places: dict[int, Nested]) -> str:
    fields = _find(metadata.json["partition-specs"], "spec-id", spec_id)["fields"]
    names = {place.holder.get("id"): place.name for place in places.values()}
    return ", ".join(_part(field, names) for field in fields if field["transform"] != "void")


def _part(field: Json, names: dict[Any, str]) -> str:
    source = names.get(field.get("source-id"), str(field["name"]))
    return source if field["transform"] == "identity" else f"{field['transform']}({source})"
