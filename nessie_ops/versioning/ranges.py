"""Whether ranges of keys still hold what a reader saw.  Compares nodes, in proportion to what differs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from nessie_ops.model import Conflict, ConflictType, ContentKey
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import is_same_content


class Range(NamedTuple):
    """From `low` up to and without `high`, as key bytes; without `values` only which contents there are matters."""

    low: bytes
    high: bytes
    values: bool


def find_range_conflicts(
    nodes: tree.Nodes, base_root: bytes, head_root: bytes, ranges: Iterable[Range]
) -> list[Conflict]:
    """What is no longer as it was at `base_root`, a conflict per key, in key order."""
    if base_root == head_root:
        return []
    found: dict[ContentKey, Conflict] = {}
    for low, high, values in ranges:
        for raw, before, after in tree.diff(nodes, base_root, head_root, low, high):
            if not values and before and after and is_same_content(before, after):
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
