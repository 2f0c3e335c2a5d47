"""Whether ranges of keys still hold what a reader saw.  Compares nodes, in proportion to what differs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from nessie_ops.model import Conflict, ConflictType, ContentKey
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import is_same_content

FEW = 100  # spans that are walked one by one
Span = tuple[bytes, bytes]


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
    every = list(ranges)
    found: dict[ContentKey, Conflict] = {}
    for values in (True, False):
        spans = _join((low, high) for low, high, has_values in every if has_values == values and low < high)
        for raw, before, after in _diff(nodes, base_root, head_root, spans):
            if not values and before and after and is_same_content(before, after):
                continue  # it was there, and is
            key = ContentKey.from_bytes(raw)
            found[key] = _describe(key, before, after)
    return [found[key] for key in sorted(found)]


def _join(spans: Iterable[Span]) -> list[Span]:
    """The same keys as spans that do not touch, in order."""
    joined: list[Span] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined


def _diff(
    nodes: tree.Nodes, base_root: bytes, head_root: bytes, spans: Sequence[Span]
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """What differs within the spans: one walk for each of a few, one for all of many, which are most of the keys."""
    if len(spans) <= FEW:
        for low, high in spans:
            yield from tree.diff(nodes, base_root, head_root, low, high)
        return
    lows = [low for low, _ in spans]
    for row in tree.diff(nodes, base_root, head_root, lows[0], spans[-1][1]):
        if row[0] < spans[bisect_right(lows, row[0]) - 1][1]:
            yield row


def _describe(key: ContentKey, before: bytes | None, after: bytes | None) -> Conflict:
    if before is None:
        return Conflict(ConflictType.KEY_EXISTS, key, f"key '{key}' was read as absent, and exists now")
    if after is None:
        return Conflict(ConflictType.KEY_DOES_NOT_EXIST, key, f"key '{key}' was read, and is gone now")
    return Conflict(ConflictType.VALUE_DIFFERS, key, f"key '{key}' was read, and has been changed")
