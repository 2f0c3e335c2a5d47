"""What a transaction has read, and whether that is still so.

A read is a range of key bytes, half open, of which the transaction saw the values, or only which keys there are.  A
single key is the range that holds nothing else.  Comparing reads nodes in proportion to what differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b

from nessie_ops.model import Conflict, ConflictType, ContentKey
from nessie_ops.store import ReadRecord, Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.objects import StoredNodes


class Kind(IntEnum):
    VALUES = 1
    KEYS = 2


def to_record(transaction: str, kind: Kind, low: bytes, high: bytes) -> ReadRecord:
    """The row of a read."""
    digest = blake2b(bytes([kind]) + len(low).to_bytes(4) + low + high, digest_size=16).digest()
    return ReadRecord(transaction, digest, kind, low, high)


def span(key: ContentKey) -> tuple[bytes, bytes]:
    """The range that holds this key alone: its first child begins with a byte more."""
    raw = key.to_bytes()
    return raw, raw + b"\x00"


def find_conflicts(tx: Transaction, reads: Iterable[ReadRecord], base_root: bytes, head_root: bytes) -> list[Conflict]:
    """What is no longer as it was read, a conflict per key, in key order."""
    if base_root == head_root:
        return []
    nodes = StoredNodes(tx)
    found: dict[ContentKey, Conflict] = {}
    for read in reads:
        for raw, before, after in tree.diff(nodes, base_root, head_root, bytes(read.low), bytes(read.high)):
            if read.kind == Kind.KEYS and before is not None and after is not None:
                continue  # it was there, and is
            key = ContentKey.from_bytes(raw)
            found[key] = _describe(key, before, after)
    return [found[key] for key in sorted(found)]


def _describe(key: ContentKey, before: bytes | None, after: bytes | None) -> Conflict:
    if before is None:
        return Conflict(ConflictType.KEY_EXISTS, key, f"key '{key}' was read as absent, and exists now")
    if after is None:
        return Conflict(ConflictType.KEY_DOES_NOT_EXIST, key, f"key '{key}' was read, and is gone now")
    return Conflict(ConflictType.VALUE_DIFFERS, key, f"key '{key}' was read, and has been changed")
