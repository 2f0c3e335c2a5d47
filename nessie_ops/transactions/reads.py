"""What a transaction has read, and whether that is still so.

A read is a range of key bytes, half open, of which the transaction saw the values, or only which contents there are:
key, type and content id.  A single key is the range that holds nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b

from nessie_ops.model import Conflict, ContentKey
from nessie_ops.store import ReadRecord, Transaction
from nessie_ops.versioning.objects import StoredNodes
from nessie_ops.versioning.ranges import Range, find_range_conflicts


class Kind(IntEnum):
    VALUES = 1
    KEYS = 2


def to_record(transaction: str, kind: Kind, low: bytes, high: bytes) -> ReadRecord:
    """The row of a read."""
    digest = blake2b(bytes([kind]) + len(low).to_bytes(4) + low + high, digest_size=16).digest()
    return ReadRecord(transaction, digest, int(kind), low, high)


def span(key: ContentKey) -> tuple[bytes, bytes]:
    """The range that holds this key alone: its first child begins with a byte more."""
    raw = key.to_bytes()
    return raw, raw + b"\x00"


def find_conflicts(tx: Transaction, reads: Iterable[ReadRecord], base_root: bytes, head_root: bytes) -> list[Conflict]:
    """What is no longer as it was read, a conflict per key, in key order."""
    ranges = (Range(bytes(read.low), bytes(read.high), read.kind == Kind.VALUES) for read in reads)
    return find_range_conflicts(StoredNodes(tx), base_root, head_root, ranges)
