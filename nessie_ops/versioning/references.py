"""Branches and tags: rows that point to commits.  Every change of one is a row in the reference log, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from nessie_ops.errors import BadRequest, ReferenceAlreadyExists, ReferenceConflict, ReferenceNotFound, StoreFormatError
from nessie_ops.model import (
    TRANSACTIONS,
    Branch,
    CatalogTransactionState,
    CommitHash,
    Conflict,
    ConflictType,
    Reference,
    ReferenceMove,
    ReferenceType,
    Tag,
    check_name,
    parse_time,
)
from nessie_ops.store import ReferenceRecord, Transaction, WatchedHeads, WriteTransaction
from nessie_ops.versioning.codec import from_micros, to_hash, to_micros
from nessie_ops.versioning.objects import find_commit, id_of

CREATED, ASSIGNED, DELETED, COMMITTED, MERGED, TRANSPLANTED, REVERTED, RESTORED, CHANGED = (
    "CREATED",
    "ASSIGNED",
    "DELETED",
    "COMMITTED",
    "MERGED",
    "TRANSPLANTED",
    "REVERTED",
    "RESTORED",
    "PROPERTIES",
)
MAX_NAME = 1000  # characters; longer names would not fit the indexes of every database
MAX_PROPERTIES_BYTES = 16 << 10


class RepositoryInfo(NamedTuple):
    default_branch: str
    created_at: datetime


IMPORT = "import"  # the setting that an import sets while it is under way


def refuse_unfinished_import(tx: Transaction) -> None:
    """StoreFormatError when the store holds a part of an archive."""
    if tx.get_setting(IMPORT) is not None:
        raise StoreFormatError(
            "An import into this store has begun and not ended: "
            "run `nessie-ops store import` with the same archive again."
        )


def get_info(tx: Transaction) -> RepositoryInfo | None:
    """What is known about the repository; None before it is created.  StoreFormatError amid an import."""
    refuse_unfinished_import(tx)
    created_at, default_branch = tx.get_setting("created_at"), tx.get_setting("default_branch")
    if created_at is None or default_branch is None:
        return None
    return RepositoryInfo(default_branch, parse_time(created_at, "created_at"))


def initialize(tx: WriteTransaction, default_branch: str, now: datetime) -> RepositoryInfo:
    """Create the repository if there is none yet; what is known about it."""
    check_name(default_branch)
    if tx.get_reference(default_branch, lock=True) is None and get_info(tx) is None:
        record = ReferenceRecord(default_branch, ReferenceType.BRANCH, None, to_micros(now), "{}")
        tx.insert_reference(record)
        tx.append_move(None, record, CREATED, to_micros(now))
        tx.put_setting("default_branch", default_branch)
        tx.put_setting("created_at", now.isoformat())
    info = get_info(tx)
    assert info is not None
    return info


def to_reference(record: ReferenceRecord) -> Reference:
    kind = Branch if record.type == ReferenceType.BRANCH else Tag
    return kind(record.name, to_hash(record.head), get_properties(record))


def get_properties(record: ReferenceRecord) -> dict[str, str]:
    return {} if record.properties == "{}" else msgspec.json.decode(record.properties, type=dict[str, str])


def get_record(tx: Transaction, name: str, *, lock: bool = False) -> ReferenceRecord:
    """The row of a reference, locked against other movers if asked for; ReferenceNotFound."""
    record = tx.get_reference(name, lock=lock)
    if record is None:
        raise not_found(tx, name)
    return record


_ENDED: dict[str, str] = {
    CatalogTransactionState.OPEN: "somebody deleted it. Roll its transaction back, and begin another one",
    CatalogTransactionState.COMMITTED: "its transaction has been committed; begin another one",
    CatalogTransactionState.ROLLED_BACK: "its transaction has been rolled back; begin another one",
    CatalogTransactionState.EXPIRED: "its transaction has expired, since its lease ended before COMMIT: what was "
    "written through it is dropped. Begin another one, with a longer lease or renewed in time, and write again",
}


def not_found(tx: Transaction, name: str) -> ReferenceNotFound:
    """The error for a reference that does not exist; for a transaction's branch it says why."""
    if not name.startswith(TRANSACTIONS):
        return ReferenceNotFound(f"Named reference '{name}' not found")
    record = tx.get_catalog_transaction(name.removeprefix(TRANSACTIONS))
    why = _ENDED[record.state] if record else "no transaction of this name is known; it may have ended long ago"
    return ReferenceNotFound(f"Named reference '{name}' not found: {why}.")


class WatchedReferences:
    """References by name for an event loop; see WatchedHeads."""

    def __init__(self, heads: WatchedHeads) -> None:
        self.heads = heads

    def receive(self) -> dict[str, Reference] | None:
        """Those that exist of the ones asked for; None while the answer has not come."""
        found = self.heads.receive()
        return None if found is None else {name: to_reference(record) for name, record in found.items()}


def get_named(found: Mapping[str, Reference], name: str) -> Reference:
    """The reference of that name; ReferenceNotFound."""
    if name not in found:
        raise ReferenceNotFound(f"Named reference '{name}' not found")
    return found[name]


def get_reference(tx: Transaction, name: str) -> Reference:
    return to_reference(get_record(tx, name))


def list_references(
    tx: Transaction, prefix: str, after: tuple[ReferenceType, str] | None, limit: int, hidden: bool
) -> list[Reference]:
    without = "" if hidden or prefix.startswith(TRANSACTIONS) else TRANSACTIONS
    return [to_reference(record) for record in tx.list_references(prefix, after, limit, without)]


def create_reference(
    tx: WriteTransaction,
    kind: ReferenceType,
    name: str,
    target: CommitHash,
    properties: Mapping[str, str],
    now: datetime,
) -> Reference:
    check_name(name)
    if len(name) > MAX_NAME:
        raise BadRequest(f"name: a reference name has at most {MAX_NAME} characters, this one has {len(name)}.")
    existing = tx.get_reference(name, lock=True)
    if existing:
        raise ReferenceAlreadyExists(f"Named reference '{name}' already exists.")
    head = _get_target(tx, target)
    record = ReferenceRecord(name, kind, head, to_micros(now), _encode_properties(properties))
    tx.insert_reference(record)
    tx.append_move(None, record, CREATED, to_micros(now))
    return to_reference(record)


def assign_reference(
    tx: WriteTransaction, name: str, expected: CommitHash | None, target: CommitHash, now: datetime
) -> Reference:
    before = get_record(tx, name, lock=True)
    require_head(before, expected)
    head = _get_target(tx, target)
    after = before._replace(head=head)
    tx.update_reference(after)
    tx.append_move(before, after, ASSIGNED, to_micros(now))
    return to_reference(after)


def delete_reference(
    tx: WriteTransaction, name: str, expected: CommitHash | None, default_branch: str, now: datetime
) -> Reference:
    if name == default_branch:
        raise BadRequest(f"Default branch '{name}' cannot be deleted.")
    record = get_record(tx, name, lock=True)
    require_head(record, expected)
    tx.delete_reference(name)
    tx.append_move(record, None, DELETED, to_micros(now))
    return to_reference(record)


def update_properties(
    tx: WriteTransaction,
    name: str,
    updates: Mapping[str, str],
    removals: Iterable[str],
    expected: CommitHash | None,
    now: datetime,
) -> Reference:
    before = get_record(tx, name, lock=True)
    require_head(before, expected)
    properties = get_properties(before) | dict(updates)
    for key in removals:
        properties.pop(key, None)
    after = before._replace(properties=_encode_properties(properties))
    if after != before:
        tx.update_reference(after)
        tx.append_move(before, after, CHANGED, to_micros(now))
    return to_reference(after)


def list_moves(
    tx: Transaction, name: str | None, after_seq: int, limit: int, newest_first: bool, before_seq: int | None = None
) -> list[ReferenceMove]:
    return [
        ReferenceMove(
            move.seq,
            move.name,
            ReferenceType(move.type),
            move.action,
            None if move.action == CREATED else to_hash(move.before),
            None if move.action == DELETED else to_hash(move.after),
            from_micros(move.at),
        )
        for move in tx.list_moves(name, after_seq, limit, newest_first=newest_first, before_seq=before_seq)
    ]


def move_head(tx: WriteTransaction, before: ReferenceRecord, head: bytes, action: str, now: datetime) -> None:
    """Let a locked branch point to `head`."""
    after = before._replace(head=head)
    tx.update_reference(after)
    tx.append_move(before, after, action, to_micros(now))


def get_branch_record(tx: Transaction, name: str, action: str) -> ReferenceRecord:
    """The locked row of the branch to write to; BadRequest when it is a tag."""
    record = get_record(tx, name, lock=True)
    if record.type != ReferenceType.BRANCH:
        raise BadRequest(f"Reference to {action} into must be a branch.")
    return record


def _get_target(tx: WriteTransaction, target: CommitHash) -> bytes | None:
    """The commit that a reference shall point to, touched, so that no purge under way takes it; ReferenceNotFound."""
    head = id_of(find_commit(tx, target))
    if head and not tx.touch_commit(head):
        raise ReferenceNotFound(f"Commit '{target}' not found")
    return head


def require_head(record: ReferenceRecord, expected: CommitHash | None) -> None:
    """ReferenceConflict (UNEXPECTED_HASH) unless the reference ends at `expected`; None is content with any head."""
    head = to_hash(record.head)
    if expected is not None and expected != head:
        message = f"named-reference '{record.name}' is not at expected hash '{expected}', but at '{head}'"
        conflict = Conflict(ConflictType.UNEXPECTED_HASH, None, message)
        raise ReferenceConflict(message[0].upper() + message[1:] + ".", (conflict,))


def _encode_properties(properties: Mapping[str, str]) -> str:
    text = msgspec.json.encode(dict(properties), order="deterministic")
    if len(text) > MAX_PROPERTIES_BYTES:
        raise BadRequest(f"properties: together longer than {MAX_PROPERTIES_BYTES} bytes.")
    return text.decode()
