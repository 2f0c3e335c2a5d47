"""Partition specs and sort orders as JSON: whether they fit a schema, equal others, and in a new table.

A field names its source by `source-id`, or, from format version 3 on, by `source-ids` for transforms of several
arguments, which PyIceberg 0.12 reads as their first source alone.  PyIceberg's transforms say what can be
transformed; a transform that it does not know is kept, as other implementations do.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.transforms import Transform, UnknownTransform, VoidTransform, parse_transform

from nessie_ops.catalog.schemas import first_line, is_opaque, read_schema, walk
from nessie_ops.catalog.shapes import Json
from nessie_ops.errors import BadRequest

FIRST_PARTITION_FIELD = 1000
_SEVERAL_SOURCES_VERSION = 3
_WIDTH = re.compile(r"\[(\d{1,99})\]$")
_NAMED_ALIKE = re.compile(r"(bucket|truncate)\w")
"""Transforms that PyIceberg 0.12 takes for ill-formed ones of the same beginning."""


def sources_of(field: Json) -> tuple[int, ...]:
    """The ids of the columns that a partition or sort field is made from."""
    if field.get("source-ids") is not None:
        return tuple(field["source-ids"])
    return (field["source-id"],)


def check_fields(fields: Sequence[Json], schema: Json, version: int, where: str) -> None:
    """BadRequest unless the fields of a spec or order can be made from the columns of `schema`."""
    model = read_schema(schema, "schema") if fields else None
    types = {place.id: place.type for place in walk(schema)} if fields else {}
    for i, field in enumerate(fields):
        spot = f"{where}.fields[{i}]"
        if field.get("source-ids") is None and field.get("source-id") is None:
            raise BadRequest(f"{spot}.source-id: must be given.")
        if field.get("source-ids") is not None and version < _SEVERAL_SOURCES_VERSION:
            raise BadRequest(f"{spot}.source-ids: needs format version {_SEVERAL_SOURCES_VERSION}.")
        transform = _read_transform(field["transform"], f"{spot}.transform")
        if isinstance(transform, VoidTransform):
            continue  # what is left of a field that was dropped; its column may be gone
        for source in sources_of(field):
            _check_source(transform, source, types, model, spot)


def check_names(fields: Sequence[Json], schema: Json, where: str) -> None:
    """BadRequest when partition fields share a name, or have that of a column that is not their source."""
    columns = {item["name"]: item["id"] for item in schema["fields"]}
    seen: set[str] = set()
    for i, field in enumerate(fields):
        name = field["name"]
        if name in seen:
            raise BadRequest(f"{where}.fields[{i}].name: '{name[:80]}' is given twice.")
        seen.add(name)
        if name in columns and columns[name] not in sources_of(field):
            raise BadRequest(f"{where}.fields[{i}].name: '{name[:80]}' is the name of another column.")


def _read_transform(text: str, where: str) -> Transform[Any, Any]:
    name = text.lower()
    if _NAMED_ALIKE.match(name):
        return UnknownTransform(name)
    if (width := _WIDTH.search(name)) and not 0 < int(width[1]) < 2**31:
        raise BadRequest(f"{where}: '{text[:80]}' needs a number from 1 to {2**31 - 1}.")
    try:
        transform: Transform[Any, Any] = parse_transform(name)
    except (ValueError, TypeError, ValidationError) as error:
        raise BadRequest(f"{where}: {first_line(error)}") from error
    return transform


def _check_source(
    transform: Transform[Any, Any], source: int, types: Mapping[int, Any], model: Schema | None, where: str
) -> None:
    if source not in types or model is None:
        raise BadRequest(f"{where}.source-id: the schema has no column {source}.")
    if isinstance(transform, UnknownTransform):
        return
    if is_opaque(types[source]) or not transform.can_transform(model.find_type(source)):
        raise BadRequest(f"{where}.transform: {transform} cannot be applied to column {source} ({types[source]}).")


def same_spec(a: Json, b: Json) -> bool:
    """Whether two specs partition in the same way; ids of their fields do not matter."""
    return [_partition_key(field) for field in a["fields"]] == [_partition_key(field) for field in b["fields"]]


def _partition_key(field: Json) -> tuple[object, ...]:
    return sources_of(field), field["transform"].lower(), field["name"]


def same_order(a: Json, b: Json) -> bool:
    return [_sort_key(field) for field in a["fields"]] == [_sort_key(field) for field in b["fields"]]


def _sort_key(field: Json) -> tuple[object, ...]:
    return sources_of(field), field["transform"].lower(), field["direction"], field["null-order"]


def with_field_ids(fields: Sequence[Json], specs: Sequence[Json], last_id: int) -> list[Json]:
    """The fields of a new spec; those without id get that of an equal field of `specs`, or the next one."""
    known = {_partition_key(field)[:2]: field["field-id"] for spec in specs for field in spec["fields"]}
    given = {field["field-id"] for field in fields if field.get("field-id") is not None}
    next_id = max(given | {last_id, FIRST_PARTITION_FIELD - 1}) + 1
    result = []
    for field in fields:
        number = field.get("field-id")
        if number is None:
            number = known.get(_partition_key(field)[:2])
            if number is None or number in given:
                number, next_id = next_id, next_id + 1
            given.add(number)
        result.append({**field, "field-id": number})
    return result


def with_sources(fields: Sequence[Json], new: Mapping[int, int], where: str) -> list[Json]:
    """The fields of a spec or order of a new table, whose columns got new ids; checked before."""
    result = []
    for field in fields:
        if missing := [source for source in sources_of(field) if source not in new]:
            raise BadRequest(f"{where}: the schema has no column {missing[0]}.")
        several = field.get("source-ids") is not None
        ids = [new[source] for source in sources_of(field)]
        result.append({**field, "source-ids": ids} if several else {**field, "source-id": ids[0]})
    return result
