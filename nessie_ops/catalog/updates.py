"""Applies the updates of a commit to table metadata, as Iceberg's reference catalog does.

The metadata stays JSON throughout, so nothing that a client wrote is lost.  PyIceberg 0.12 applies updates to
models that drop what they do not know, refuses format version 3, and neither assigns nor reuses ids; its models
serve here for schemas and transforms.  Pure: knows neither files nor references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from nessie_ops.catalog import history, structure
from nessie_ops.catalog.draft import Draft
from nessie_ops.catalog.shapes import UPDATES, Json, check_shape
from nessie_ops.catalog.tablemetadata import TableMetadata, check_format_version
from nessie_ops.errors import BadRequest

_rules = structure.RULES | history.RULES


class TableUpdate(NamedTuple):
    """One update of a request, of a known action and the shape that it must have."""

    action: str
    body: Json
    field: str
    """Where in the request it is, for messages: `updates[3]`."""


def parse_updates(raw: Sequence[Json]) -> tuple[TableUpdate, ...]:
    """The updates of a request; BadRequest names the one that cannot be read or is unknown."""
    return tuple(_parse_update(update, f"updates[{i}]") for i, update in enumerate(raw))


def _parse_update(raw: Json, field: str) -> TableUpdate:
    action = raw.get("action")
    if not isinstance(action, str) or action not in UPDATES:
        raise BadRequest(f"{field}.action: '{str(action)[:80]}' is unknown; use one of {', '.join(sorted(UPDATES))}.")
    check_shape(raw, UPDATES[action], field)
    return TableUpdate(action, raw, field)


def apply_updates(
    base: TableMetadata, location: str, updates: Sequence[TableUpdate], now_ms: int
) -> TableMetadata | None:
    """The metadata after `updates` to the table whose metadata file is at `location`; None when nothing changes.

    BadRequest when an update makes no sense, CommitFailed when it was made from metadata that is outdated.
    """
    return _run(Draft(base, base.format_version, now_ms), updates, location)


def create_from_updates(
    updates: Sequence[TableUpdate], format_version: int, table_uuid: UUID, location: str, now_ms: int
) -> TableMetadata:
    """The metadata of a table that is made by updates alone, as in a staged create; BadRequest.

    Format version, UUID and location are defaults for what the updates leave out.
    """
    given = [update for update in updates if update.action == "upgrade-format-version"]
    if given:
        format_version = given[0].body["format-version"]
        check_format_version(format_version, f"{given[0].field}.format-version")
    draft = Draft(None, format_version, now_ms)
    draft.set("location", location)
    draft.set("table-uuid", str(table_uuid))
    created = _run(draft, updates, None)
    assert created is not None  # a draft of a new table has changed
    return created


def with_properties(properties: Mapping[str, str]) -> TableUpdate:
    """The update that sets `properties`."""
    return _parse_update({"action": "set-properties", "updates": dict(properties)}, "updates[0]")


def _run(draft: Draft, updates: Sequence[TableUpdate], location: str | None) -> TableMetadata | None:
    for update in updates:
        _rules[update.action](draft, update.body, update.field)
    return draft.finish(location)
