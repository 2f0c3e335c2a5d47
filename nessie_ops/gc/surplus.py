"""What a table's metadata lists and nobody needs: snapshots, their statistics, partition specs and schemas.

Needed are the snapshots that kept commits name, those of the table's own branches and tags with what these and the
table's `history.expire.*` properties retain, and young ones.  A spec is needed by the manifests of those snapshots, a
schema by the snapshots.  Sort orders stay: Iceberg's REST protocol has no update that removes one.  Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.errors import BadRequest

_COUNT, _AGE = "min-snapshots-to-keep", "max-snapshot-age-ms"
_OF_TABLE = "history.expire."
_FILES = ("statistics", "partition-statistics")
Json = dict[str, Any]


class Times(NamedTuple):
    """Milliseconds since 1970: snapshots made after `young_from_ms` stay; ages count back from `now_ms`.

    Of each of a table's branches at least the `newest` snapshots stay, so many.
    """

    young_from_ms: int
    now_ms: int
    newest: int = 1


class Surplus(NamedTuple):
    """What is to be removed, by ids, and the snapshots that stay."""

    snapshots: tuple[int, ...]
    statistics: tuple[tuple[str, int], ...]  # kind, snapshot
    specs: tuple[int, ...]
    schemas: tuple[int, ...]
    kept: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.snapshots or self.statistics or self.specs or self.schemas)

    def updates(self) -> list[Json]:
        """The updates of Iceberg's REST protocol that remove it."""
        found: list[Json] = []
        if self.snapshots:
            found.append({"action": "remove-snapshots", "snapshot-ids": list(self.snapshots)})
        found += [{"action": f"remove-{kind}", "snapshot-id": id} for kind, id in self.statistics]
        if self.specs:
            found.append({"action": "remove-partition-specs", "spec-ids": list(self.specs)})
        if self.schemas:
            found.append({"action": "remove-schemas", "schema-ids": list(self.schemas)})
        return found

    def __str__(self) -> str:
        counts = (
            (len(self.snapshots), "snapshots"),
            (len(self.statistics), "statistics"),
            (len(self.specs), "partition specs"),
            (len(self.schemas), "schemas"),
        )
        return ", ".join(f"{count:,} {what}" for count, what in counts if count)


def find_surplus(
    table: TableMetadata,
    named: AbstractSet[int],
    times: Times,
    specs_of: Callable[[Sequence[Json]], AbstractSet[int] | None],
) -> Surplus:
    """What is not needed; `named` are snapshots of kept commits.  BadRequest when a property is no number.

    `specs_of` gives the specs that the manifests of snapshots use, None when these do not say; it is only asked when
    the table has specs besides its default.
    """
    kept = set(named) | {table.current_snapshot_id} | set(_retained(table, times))
    every: list[Json] = table.json["snapshots"]
    stay = [each for each in every if each["snapshot-id"] in kept or each["timestamp-ms"] > times.young_from_ms]
    ids = frozenset(each["snapshot-id"] for each in stay)
    gone = tuple(each["snapshot-id"] for each in every if each["snapshot-id"] not in ids)
    files = ((kind, each["snapshot-id"]) for kind in _FILES for each in table.json[kind])
    # Those of snapshots that are removed go with them; what is left belongs to snapshots that went before.
    listed = ids.union(gone)
    statistics = tuple(dict.fromkeys((kind, id) for kind, id in files if id not in listed))
    return Surplus(gone, statistics, _unused_specs(table, stay, specs_of), _unused_schemas(table, stay), ids)


def _retained(table: TableMetadata, times: Times) -> Iterator[int]:
    """The snapshots that the table's own branches and tags need, as Iceberg's expiry counts them."""
    parents = {each["snapshot-id"]: each for each in table.json["snapshots"]}
    for ref in table.refs.values():
        yield ref["snapshot-id"]
        if ref["type"] != "branch":
            continue
        count, age = _limit(table, ref, _COUNT), _limit(table, ref, _AGE)
        at: Json | None = parents.get(ref["snapshot-id"])
        position, seen = 0, set()
        while at is not None and at["snapshot-id"] not in seen:
            position += 1
            is_young = age is not None and at["timestamp-ms"] >= times.now_ms - age
            if position > max(count or 1, times.newest) and not is_young:
                break
            seen.add(at["snapshot-id"])
            yield at["snapshot-id"]
            at = parents.get(at.get("parent-snapshot-id", -1))


def _limit(table: TableMetadata, ref: Json, name: str) -> int | None:
    if ref.get(name) is not None:
        return int(ref[name])
    text = table.properties.get(_OF_TABLE + name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadRequest(f"properties.{_OF_TABLE}{name}: '{text[:20]}' is not a number.")
    return int(text)


def _unused_schemas(table: TableMetadata, stay: Sequence[Json]) -> tuple[int, ...]:
    used = {table.current_schema_id, *(each.get("schema-id") for each in stay)}
    if None in used:  # snapshots of older writers, which may have any of the schemas
        return ()
    return tuple(each["schema-id"] for each in table.json["schemas"] if each["schema-id"] not in used)


def _unused_specs(
    table: TableMetadata, stay: Sequence[Json], specs_of: Callable[[Sequence[Json]], AbstractSet[int] | None]
) -> tuple[int, ...]:
    others = [each["spec-id"] for each in table.json["partition-specs"] if each["spec-id"] != table.default_spec_id]
    used = specs_of(stay) if others else None
    return tuple(id for id in others if id not in used) if used is not None else ()
