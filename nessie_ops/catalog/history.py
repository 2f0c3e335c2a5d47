"""Updates of what a table holds: its snapshots, the branches and tags that point to them, and their statistics.

Each rule applies one update, of a checked shape, to a draft, as Iceberg's TableMetadata.Builder does, with row
lineage from format version 3 on.  A snapshot is kept as the client wrote it.
"""

from __future__ import annotations

from nessie_ops.catalog.draft import Draft
from nessie_ops.catalog.shapes import Json
from nessie_ops.catalog.structure import Rule, without_nulls
from nessie_ops.catalog.tablemetadata import MAIN
from nessie_ops.errors import BadRequest, CommitFailed

_LINEAGE_VERSION = 3
_OPERATIONS = ("append", "replace", "overwrite", "delete")
_NOT_OF_TAGS = ("max-snapshot-age-ms", "min-snapshots-to-keep")


def _add_snapshot(draft: Draft, update: Json, field: str) -> None:
    snapshot, field = without_nulls(update["snapshot"]), f"{field}.snapshot"
    number = snapshot["snapshot-id"]
    for name, what in (("schemas", "schema"), ("partition-specs", "partition spec"), ("sort-orders", "sort order")):
        if not draft.json[name]:
            raise BadRequest(f"{field}: the table has no {what} yet; add it before the snapshot.")
    if number in draft.snapshots:
        raise BadRequest(f"{field}.snapshot-id: the table has a snapshot {number} already.")
    operation = (snapshot.get("summary") or {}).get("operation", _OPERATIONS[0])
    if operation not in _OPERATIONS:
        raise BadRequest(f"{field}.summary.operation: '{operation[:80]}' is unknown; use {', '.join(_OPERATIONS)}.")
    if not snapshot.get("manifest-list") and (draft.version > 1 or snapshot.get("manifests") is None):
        raise BadRequest(f"{field}.manifest-list: must be given.")
    if draft.version > 1:
        _advance_sequence(draft, snapshot)
    if draft.version >= _LINEAGE_VERSION:
        _advance_rows(draft, snapshot, field)
    proposed = snapshot.get("schema-id")
    if proposed in draft.schema_ids:
        snapshot = {**snapshot, "schema-id": draft.schema_ids[proposed]}
    draft.append("snapshots", snapshot)
    draft.snapshots[number] = snapshot
    draft.added.add(number)
    draft.updated_ms = snapshot["timestamp-ms"]


def _advance_sequence(draft: Draft, snapshot: Json) -> None:
    newest, given = draft.json.get("last-sequence-number", 0), snapshot.get("sequence-number") or 0
    if given <= newest and newest and snapshot.get("parent-snapshot-id") is not None:
        raise CommitFailed(
            f"Snapshot {snapshot['snapshot-id']} has sequence number {given}, but the table "
            f"is at {newest} already: it has changed since it was read."
        )
    draft.json["last-sequence-number"] = max(newest, given)


def _advance_rows(draft: Draft, snapshot: Json, field: str) -> None:
    """Give the snapshot's rows their ids; PyIceberg 0.12 counts them only if the snapshot leaves no gap."""
    for name in ("first-row-id", "added-rows"):
        if name not in snapshot:
            raise BadRequest(f"{field}.{name}: must be given in format version {draft.version}.")
    first, added = snapshot["first-row-id"], snapshot["added-rows"]
    following = draft.json["next-row-id"]
    if first < following:
        raise CommitFailed(
            f"Snapshot {snapshot['snapshot-id']} has first-row-id {first}, but the table's next-row-id "
            f"is {following} already: it has changed since it was read."
        )
    if first + added >= 2**63:
        raise BadRequest(f"{field}.added-rows: the ids of its rows would exceed 64 bits.")
    # Beyond the snapshot's own rows, also after a gap: the specification's "higher than all assigned row IDs".
    draft.json["next-row-id"] = first + added


def _set_ref(draft: Draft, update: Json, field: str) -> None:
    name, number = update["ref-name"], update["snapshot-id"]
    ref = {key: value for key, value in without_nulls(update).items() if key not in ("action", "ref-name")}
    if ref["type"] == "tag":
        if extra := [key for key in _NOT_OF_TAGS if key in ref]:
            raise BadRequest(f"{field}.{extra[0]}: a tag cannot have it.")
        if name == MAIN:
            raise BadRequest(f"{field}.type: {MAIN} is a branch of every table and cannot be a tag.")
    if draft.json["refs"].get(name) == ref:
        return
    if number not in draft.snapshots:
        raise BadRequest(f"{field}.snapshot-id: '{name[:80]}' cannot point to the unknown snapshot {number}.")
    if number in draft.added:
        draft.updated_ms = draft.snapshots[number]["timestamp-ms"]
    if name == MAIN:
        draft.json["current-snapshot-id"] = number
        draft.append("snapshot-log", {"snapshot-id": number, "timestamp-ms": draft.time_ms()})
        if number in draft.added:
            draft.passed.add(number)
    draft.json["refs"][name] = ref
    draft.changed = True


def _remove_ref(draft: Draft, update: Json, field: str) -> None:
    _drop_ref(draft, update["ref-name"])


def _drop_ref(draft: Draft, name: str) -> None:
    if draft.json["refs"].pop(name, None) is not None:
        draft.changed = True
    if name == MAIN:
        draft.json.pop("current-snapshot-id", None)


def _remove_snapshots(draft: Draft, update: Json, field: str) -> None:
    gone = draft.snapshots.keys() & set(update["snapshot-ids"])
    if not gone:
        return
    draft.removed = draft.changed = True
    for number in gone:
        del draft.snapshots[number]
    for name in ("snapshots", "statistics", "partition-statistics"):
        draft.json[name] = [item for item in draft.json[name] if item["snapshot-id"] not in gone]
    for name, ref in list(draft.json["refs"].items()):
        if ref["snapshot-id"] in gone:
            _drop_ref(draft, name)


def _set_file(draft: Draft, name: str, file: Json) -> None:
    """Put one file of statistics in the place of the one that its snapshot had."""
    others = [item for item in draft.json[name] if item["snapshot-id"] != file["snapshot-id"]]
    draft.json[name] = [*others, without_nulls(file)]
    draft.changed = True


def _remove_files(draft: Draft, name: str, number: int) -> None:
    draft.keep(name, [item for item in draft.json[name] if item["snapshot-id"] != number])


def _enable_lineage(draft: Draft, update: Json, field: str) -> None:
    """Of older versions of the protocol; from format version 3 on every table has row lineage."""
    draft.need_version(_LINEAGE_VERSION, field, "row lineage")


RULES: dict[str, Rule] = {
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshot-ref": _remove_ref,
    "remove-snapshots": _remove_snapshots,
    "enable-row-lineage": _enable_lineage,
    "set-statistics": lambda draft, update, _: _set_file(draft, "statistics", update["statistics"]),
    "set-partition-statistics": lambda draft, update, _: _set_file(
        draft, "partition-statistics", update["partition-statistics"]
    ),
    "remove-statistics": lambda draft, update, _: _remove_files(draft, "statistics", update["snapshot-id"]),
    "remove-partition-statistics": lambda draft, update, _: _remove_files(
        draft, "partition-statistics", update["snapshot-id"]
    ),
}
