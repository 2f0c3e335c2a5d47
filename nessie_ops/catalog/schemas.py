"""Schemas as JSON: whether one makes sense in a format version, equals another, and with fresh field ids.

A schema stays the JSON that the client wrote.  PyIceberg's model checks it; needed besides, with PyIceberg 0.12:
the type `variant`, `geometry(…)` and `geography(…)` as the specification writes them (it wants quotes), which
types and defaults need format version 3, whether a default is a value of its type (it takes any), and fresh ids
that do not lose `initial-default` and `write-default`.
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
import pydantic
from pyiceberg.conversions import from_json
from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from pyiceberg.utils.datetime import timestamp_to_nanos, timestamptz_to_nanos

from nessie_ops.catalog import shapes
from nessie_ops.catalog.shapes import Json, check_shape
from nessie_ops.errors import BadRequest

_DEFAULTS = ("initial-default", "write-default")
_NEW_TYPES = {"variant", "unknown", "geometry", "geography", "timestamp_ns", "timestamptz_ns"}
_NEW_TYPES_VERSION = 3
_WITHOUT_DEFAULT = {"variant", "unknown", "geometry", "geography"}
_OPAQUE = re.compile(r"variant$|geometry\s*(\([^()]*\))?$|geography\s*(\([^(),]*(,\s*\w*\s*)?\))?$")
"""Types that PyIceberg is shown as `binary`."""
_JSON_TYPES: dict[type[IcebergType], Any] = {
    BooleanType: bool,
    IntegerType: shapes.Int32,
    LongType: shapes.Int64,
    FloatType: float,
    DoubleType: float,
}
"""How values are written in JSON; those of other types as text."""
_READ_TEXT: dict[type[IcebergType], Callable[[str], object]] = {
    TimestampNanoType: timestamp_to_nanos,  # PyIceberg 0.12's from_json does not know these two
    TimestamptzNanoType: timestamptz_to_nanos,
}


class Nested(NamedTuple):
    """A place in a schema that has an id and a type: a field, the element of a list, a key or value of a map."""

    name: str
    id: int
    type: Any
    holder: Json


def check_schema(schema: Json, version: int, field: str) -> None:
    """BadRequest unless `schema` makes sense in a table of the format version."""
    check_shape(schema, shapes.Schema, field)
    places = list(walk(schema))
    for place in places:
        _check_place(place, version, f"{field}: field '{place.name[:80]}'")
    for number, count in Counter(place.id for place in places).items():
        if count > 1:
            raise BadRequest(f"{field}: the field id {number} is given twice.")
    model = read_schema(schema, field)
    for place in places:
        _check_defaults(place, model, version, f"{field}: field '{place.name[:80]}'")


def read_schema(schema: Json, field: str) -> Schema:
    """PyIceberg's model of `schema`, with `binary` for the types that it cannot read; BadRequest."""
    try:
        return Schema.model_validate(_readable(schema))
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, ValidationError) as error:
        raise BadRequest(f"{field}: {first_line(error)}") from error


def walk(node: Any, prefix: str = "") -> Iterator[Nested]:
    """All places of a schema or type of a checked shape, those of one struct before what they hold."""
    places = list(_places(node, prefix)) if isinstance(node, dict) else []
    yield from places
    for place in places:
        yield from walk(place.type, f"{place.name}.")


def _places(node: Json, prefix: str) -> Iterator[Nested]:
    for item in node.get("fields", ()):
        yield Nested(f"{prefix}{item['name']}", item["id"], item["type"], item)
    for part in ("element", "key", "value"):
        if part in node:
            yield Nested(f"{prefix}{part}", node[f"{part}-id"], node[part], node)


def highest_id(schema: Json) -> int:
    return max((place.id for place in walk(schema)), default=0)


def type_name(kind: Any) -> str:
    """`geometry` of `geometry(srid:4326)`, `struct` of a struct."""
    return re.split(r"[(\[\s]", kind, maxsplit=1)[0] if isinstance(kind, str) else str(kind.get("type"))


def is_opaque(kind: Any) -> bool:
    """Whether values of the type cannot be partitioned or sorted by."""
    return isinstance(kind, str) and _OPAQUE.match(kind) is not None


def same_schema(a: Json, b: Json) -> bool:
    """Whether two schemas differ in nothing but their ids."""
    ids_a, ids_b = (set(schema.get("identifier-field-ids") or ()) for schema in (a, b))
    return ids_a == ids_b and _canonical(a["fields"]) == _canonical(b["fields"])


def fresh_ids(schema: Json) -> tuple[Json, dict[int, int]]:
    """`schema` with field ids from 1, as a new table gets them, and what became of each id; checked before."""
    new: dict[int, int] = {}
    # Fields of a struct are numbered before what is inside them: the order of all Iceberg implementations.
    for place in walk(schema):
        new[place.id] = len(new) + 1
    fresh: Json = {**_renumbered(schema, lambda old: new[old]), "schema-id": 0}
    if "identifier-field-ids" in schema:
        fresh["identifier-field-ids"] = [new[old] for old in schema["identifier-field-ids"] or ()]
    return fresh, new


def first_line(error: Exception) -> str:
    """What is wrong, short: the first problem that a validation found."""
    if isinstance(error.__cause__, pydantic.ValidationError):
        error = error.__cause__
    if isinstance(error, pydantic.ValidationError):
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return ": ".join(filter(None, (".".join(map(str, problem["loc"])), problem["msg"])))
    return str(error)[:500] or type(error).__name__


def _check_place(place: Nested, version: int, field: str) -> None:
    kind = type_name(place.type)
    if kind in _NEW_TYPES and version < _NEW_TYPES_VERSION:
        raise BadRequest(
            f"{field}: the type {kind} needs format version {_NEW_TYPES_VERSION}; the table has {version}."
        )
    if kind == "unknown" and _is_required(place):
        raise BadRequest(f"{field}: a field of type unknown cannot be required.")


def _is_required(place: Nested) -> bool:
    if "name" in place.holder:
        return bool(place.holder.get("required"))
    part = place.name.rpartition(".")[2]
    return part == "key" or bool(place.holder.get(f"{part}-required"))


def _check_defaults(place: Nested, model: Schema, version: int, field: str) -> None:
    for name in _DEFAULTS:
        value = place.holder.get(name)
        if value is None or "name" not in place.holder:
            continue
        kind = type_name(place.type)
        if kind in _WITHOUT_DEFAULT:
            raise BadRequest(f"{field}: a field of type {kind} cannot have the {name} that is given.")
        if name == "initial-default" and version < _NEW_TYPES_VERSION:
            raise BadRequest(f"{field}: {name} needs format version {_NEW_TYPES_VERSION}; the table has {version}.")
        if isinstance(place.type, str):
            _check_value(value, model.find_type(place.id), f"{field}: {name}")


def _check_value(value: Any, kind: Any, field: str) -> None:
    """BadRequest unless `value` is a value of a primitive type as JSON."""
    try:
        msgspec.convert(value, _JSON_TYPES.get(type(kind), str))
        if isinstance(value, str):
            _READ_TEXT.get(type(kind), partial(from_json, kind))(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise BadRequest(f"{field}: '{str(value)[:80]}' is not a value of type {kind}: {first_line(error)}") from error


def _readable(node: Any) -> Any:
    if isinstance(node, list):
        return [_readable(item) for item in node]
    if not isinstance(node, dict):
        return node
    plain = {}
    for name, value in node.items():
        if value is None:
            continue
        if name in ("type", "element", "key", "value") and is_opaque(value):
            value = "binary"
        if name not in _DEFAULTS:
            plain[name] = _readable(value)
    return plain


def _canonical(node: Any) -> Any:
    """The same for what is the same: absent and null, spaces in `decimal(9, 2)`, an absent `required`."""
    if isinstance(node, list):
        return [_canonical(item) for item in node]
    if not isinstance(node, dict):
        return node
    same = {name: _canonical(value) for name, value in node.items() if value is not None}
    for name in ("type", "element", "key", "value"):
        if isinstance(same.get(name), str):
            same[name] = same[name].replace(" ", "")
    if "name" in same:
        same.setdefault("required", False)
    return same


def _renumbered(node: Any, number: Callable[[int], int]) -> Any:
    if not isinstance(node, dict):
        return node
    copy = {name: _renumbered(value, number) if name in _HOLDS else value for name, value in node.items()}
    if isinstance(node.get("fields"), list):
        copy["fields"] = [{**_renumbered(item, number), "id": number(item["id"])} for item in node["fields"]]
    for part in ("element", "key", "value"):
        if part in node:
            copy[f"{part}-id"] = number(node[f"{part}-id"])
    return copy


_HOLDS = ("type", "element", "key", "value")
