"""Checks a whole store (the `fsck` of the catalog): objects, then references, the reference log and the settings.

What is checked is one snapshot of the database, so writers may go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from nessie_ops.model import ReferenceType
from nessie_ops.store import Move, ReferenceRecord, Store, Transaction, scan
from nessie_ops.versioning import references
from nessie_ops.versioning.check_objects import Fault, Progress, check_objects


def check(store: Store, progress: Progress) -> Iterator[Fault]:
    """All faults of the store, as they are found."""
    with store.snapshot() as tx:
        yield from check_objects(tx, progress)
        records = {record.name: record for record in scan.scan_references(tx)}
        yield from _check_references(tx, records)
        yield from _check_settings(tx, records)
        yield from _check_log(tx, records, progress)


def _check_references(tx: Transaction, records: Mapping[str, ReferenceRecord]) -> Iterator[Fault]:
    heads = {record.head for record in records.values() if record.head is not None}
    existing = scan.list_existing(tx, heads)
    for record in records.values():
        if record.head is not None and record.head not in existing:
            yield Fault("reference", record.name, f"its head {record.head.hex()} does not exist")
        if record.type not in set(ReferenceType):
            yield Fault("reference", record.name, f"its type is '{record.type}'")
        try:
            references.get_properties(record)
        except (ValueError, msgspec.MsgspecError) as error:
            yield Fault("reference", record.name, f"its properties cannot be read: {error}")


def _check_settings(tx: Transaction, records: Mapping[str, ReferenceRecord]) -> Iterator[Fault]:
    default = tx.get_setting("default_branch")
    branch = records.get(default or "")
    if default is None:
        yield Fault("setting", "default_branch", "does not exist")
    elif branch is None or branch.type != ReferenceType.BRANCH:
        yield Fault("setting", "default_branch", f"there is no branch '{default}'")
    if tx.get_setting("created_at") is None:
        yield Fault("setting", "created_at", "does not exist")


def _check_log(tx: Transaction, records: Mapping[str, ReferenceRecord], progress: Progress) -> Iterator[Fault]:
    """Each row goes on where the one before it of its reference ended; the last one ends where the reference is."""
    ends: dict[str, bytes | None] = {}  # heads of the references that exist
    seq = 0
    for batch in scan.scan_moves(tx):
        for move in batch:
            if move.seq != seq + 1:
                yield Fault("reference log", str(move.seq), f"the row before it is {seq}")
            seq = move.seq
            problem = _blame_move(move, ends)
            if problem:
                yield Fault("reference log", str(move.seq), f"'{move.name}' {problem}")
            if move.action == references.DELETED:
                ends.pop(move.name, None)
            else:
                ends[move.name] = move.after
        progress("moves of references", seq)
    for name in sorted(records.keys() | ends.keys()):
        if name not in ends:
            yield Fault("reference", name, "it exists, but not by the reference log")
        elif name not in records:
            yield Fault("reference", name, "it exists by the reference log, but does not")
        elif ends[name] != records[name].head:
            yield Fault("reference", name, "its head is not the one in the reference log")
    counter = scan.get_last_seq(tx)
    if counter != seq:
        yield Fault("counter", "reference_log", f"is {counter}, but the log ends with {seq}")


def _blame_move(move: Move, ends: Mapping[str, bytes | None]) -> str:
    if move.action == references.CREATED:
        return "is created, but existed" if move.name in ends else ""
    if move.name not in ends:
        return f"is changed ({move.action}), but did not exist"
    return "" if move.before == ends[move.name] else "was not where this row says that it was"
