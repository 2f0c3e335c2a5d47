"""An immutable ordered map stored as content-addressed nodes: the key index of every commit.

The shape of a tree is a function of its entries alone, never of the edits that produced it.  So
equal maps have equal root ids, and maps that differ in d entries share all but O(d) nodes.

A node closes after its n-th entry when ``u(key) < 4 n**3 / TARGET**4``, u uniform in [0, 1).  This
is a Weibull hazard with k = 4: sizes cluster near 0.9 TARGET and have a hard cap.
Only keys decide, so replacing a value never moves a boundary.

Knows neither commits nor contents: keys and values are bytes.  Format: docs/format.md.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import eq
from typing import Protocol

TARGET = 64  # entries; part of the format, as are the sizes below
ID_SIZE = 20  # bytes of a node id: BLAKE2b-160 of the encoded node
VALUE_SIZE = 37  # bytes of a leaf value: content type (1), content id (16), content digest (20)
SEPARATOR = b"\xff"  # never occurs in UTF-8, so it ends keys and sorts after all of them


def _thresholds(target: int) -> list[int]:
    """Hash below which the n-th entry of a node closes it, by n."""
    limits = [0, 0]  # a node of one entry never closes, so every level is shorter than the one below
    while limits[-1] < 1 << 64:
        limits.append((4 * len(limits) ** 3 << 64) // target**4)
    return limits


THRESHOLDS = _thresholds(TARGET)

Entry = tuple[bytes, bytes]
Marked = tuple[bytes, bytes, int]
"""(key, value, mark)."""


def mark(level: int, key: bytes) -> int:
    """A hash of a key, uniform below 2**64; another one on each level."""
    return int.from_bytes(blake2b(key, digest_size=8, salt=_SALTS[level]).digest(), "big")


_SALTS = [bytes([level]) for level in range(256)]


@dataclass(frozen=True, slots=True)
class Node:
    """A leaf (level 0: key -> value) or an inner node (greatest key of the child -> child id)."""

    level: int
    keys: Sequence[bytes]
    values: Sequence[bytes]
    _marks: Sequence[int] | None = field(default=None, compare=False, repr=False)  # once somebody has needed them

    @staticmethod
    def of(level: int, entries: Sequence[Marked]) -> Node:
        keys, values, marks = zip(*entries)
        return Node(level, keys, values, marks)

    @property
    def marks(self) -> Sequence[int]:
        """What decides of each key, with its place in the node, whether a node ends there."""
        if self._marks is None:
            object.__setattr__(self, "_marks", [mark(self.level, key) for key in self.keys])
        return self._marks or ()

    def replace(self, keys: Sequence[bytes], edits: Mapping[bytes, bytes | None]) -> Node | None:
        """This node with new values for some of its keys; None when that is not all that the edits of `keys` do."""
        values = list(self.values)
        for key in keys:
            i, value = bisect_left(self.keys, key), edits[key]
            if value is None or i == len(self.keys) or self.keys[i] != key:
                return None
            values[i] = value
        return Node(self.level, self.keys, values, self._marks)

    def edit(self, keys: Sequence[bytes], edits: Mapping[bytes, bytes | None]) -> list[Marked]:
        """The entries of this node with the edits of `keys`, in order."""
        merged = {key: (value, hash) for key, value, hash in zip(self.keys, self.values, self.marks)}
        for key in keys:
            old, value = merged.pop(key, None), edits[key]
            if value is not None:
                merged[key] = value, old[1] if old else mark(self.level, key)
        return [(key, *merged[key]) for key in sorted(merged)]

    def encode_parts(self) -> tuple[bytes, bytes]:
        """The encoded node in two: up to its keys, and its values, which are as good as random."""
        head = bytes([self.level]) + len(self.keys).to_bytes(2, "big")
        return head + SEPARATOR.join(self.keys), b"".join(self.values)

    def encode(self) -> bytes:
        return b"".join(self.encode_parts())

    @staticmethod
    def decode(raw: bytes) -> Node:
        level, count = raw[0], int.from_bytes(raw[1:3], "big")
        size = ID_SIZE if level else VALUE_SIZE
        cut = len(raw) - count * size
        keys = raw[3:cut].split(SEPARATOR) if count else []
        return Node(level, keys, [raw[i : i + size] for i in range(cut, len(raw), size)])


EMPTY = Node(0, (), ())


class Nodes(Protocol):
    """Where nodes are kept."""

    def load(self, id: bytes) -> Node:
        """The node with this id."""

    def load_many(self, ids: Iterable[bytes]) -> Mapping[bytes, Node]:
        """The nodes with these ids, in one round trip."""

    def save(self, node: Node) -> bytes:
        """Keep `node`; its id."""


def node_id(raw: bytes) -> bytes:
    """Id of a node from its encoded bytes."""
    return blake2b(raw, digest_size=ID_SIZE).digest()


EMPTY_ID = node_id(EMPTY.encode())


def get(nodes: Nodes, root: bytes, key: bytes) -> bytes | None:
    """Value of `key`, or None.  Loads one node per level."""
    node = nodes.load(root)
    while True:
        i = bisect_left(node.keys, key)
        if i == len(node.keys):
            return None
        if not node.level:
            return node.values[i] if node.keys[i] == key else None
        node = nodes.load(node.values[i])


def get_many(nodes: Nodes, root: bytes, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Values of those of `keys` that exist.  One round trip per level, however many keys."""
    found: dict[bytes, bytes] = {}
    frontier = {root: sorted(set(keys))}
    while frontier:
        below: dict[bytes, list[bytes]] = {}
        loaded = nodes.load_many(frontier)
        for id, wanted in frontier.items():
            node = loaded[id]
            for key in wanted:
                i = bisect_left(node.keys, key)
                if i == len(node.keys):
                    continue
                if node.level:
                    below.setdefault(node.values[i], []).append(key)
                elif node.keys[i] == key:
                    found[key] = node.values[i]
        frontier = below
    return found


def scan(nodes: Nodes, root: bytes, low: bytes = b"", high: bytes = SEPARATOR) -> Iterator[Entry]:
    """Entries with low <= key < high, in key order."""
    node = nodes.load(root)
    start, stop = bisect_left(node.keys, low), bisect_left(node.keys, high)
    if node.level:
        for child in node.values[start : stop + 1]:
            yield from scan(nodes, child, low, high)
    else:
        yield from zip(node.keys[start:stop], node.values[start:stop])


Item = tuple[int, bytes, bytes]
"""Part of a tree: (level + 1, node id, b"") or (0, key, value)."""


def diff(
    nodes: Nodes, before: bytes, after: bytes, low: bytes = b"", high: bytes = SEPARATOR
) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    """(key, value before, value after) of each key in [low, high) that differs, in key order.

    Walks both trees together and never opens a subtree that both hold; two nodes that take each
    other's place are opened together, and their differing children loaded in one round trip.
    """
    if before == after:
        return
    span = (low, high)
    # What is left of each tree, next on top.
    left: list[Item] = [(nodes.load(before).level + 1, before, b"")]
    right: list[Item] = [(nodes.load(after).level + 1, after, b"")]
    while left or right:
        a = left[-1] if left else None
        b = right[-1] if right else None
        if a == b:
            left.pop(), right.pop()
        elif a and b and a[0] == b[0] > 0:
            _open_both(nodes, left, right, span)
        elif a and a[0] and (not b or a[0] > b[0]):
            left += _open(nodes, left.pop(), span)
        elif b and b[0]:
            right += _open(nodes, right.pop(), span)
        elif a and (not b or a[1] < b[1]):
            yield a[1], left.pop()[2], None
        elif b and (not a or b[1] < a[1]):
            yield b[1], None, right.pop()[2]
        else:
            yield left[-1][1], left.pop()[2], right.pop()[2]


def _open_both(nodes: Nodes, left: list[Item], right: list[Item], span: tuple[bytes, bytes]) -> None:
    """Replace the nodes on top of both stacks by what they hold; where their keys are the same, by what differs."""
    a, b = nodes.load(left.pop()[1]), nodes.load(right.pop()[1])
    if len(a.keys) == len(b.keys) and all(map(eq, a.keys, b.keys)):
        differing = [n for n in _places(a, span) if a.values[n] != b.values[n]]
        ours, theirs = _items(a, differing), _items(b, differing)
    else:
        ours, theirs = _items(a, _places(a, span)), _items(b, _places(b, span))
    nodes.load_many([id for level, id, _ in set(ours) ^ set(theirs) if level])
    left += ours
    right += theirs


def _open(nodes: Nodes, item: Item, span: tuple[bytes, bytes]) -> list[Item]:
    """What the node `item` holds of a range of keys, last first."""
    node = nodes.load(item[1])
    return _items(node, _places(node, span))


def _places(node: Node, span: tuple[bytes, bytes]) -> range:
    """The places in a node of what may hold keys of a range."""
    start, stop = bisect_left(node.keys, span[0]), bisect_left(node.keys, span[1])
    return range(start, min(stop + 1, len(node.keys)) if node.level else stop)


def _items(node: Node, places: Sequence[int]) -> list[Item]:
    """What stands at some places of a node, last first."""
    if node.level:
        return [(node.level, node.values[n], b"") for n in reversed(places)]
    return [(0, node.keys[n], node.values[n]) for n in reversed(places)]


def added(nodes: Nodes, before: bytes, after: bytes) -> Iterator[bytes]:
    """Ids of the nodes under `after` that are not under `before`."""
    old, new = {before}, {after}
    for level in range(max(nodes.load(before).level, nodes.load(after).level), -1, -1):
        old, new = old - new, new - old
        loaded = nodes.load_many(new)
        yield from (id for id in new if loaded[id].level == level)
        old, new = _expand(nodes, old, level), _expand(nodes, new, level)


def _expand(nodes: Nodes, ids: set[bytes], level: int) -> set[bytes]:
    """`ids` with each node of `level` replaced by its children."""
    loaded = nodes.load_many(ids)
    below = {id for id, node in loaded.items() if node.level < level}
    return below.union(*(node.values for node in loaded.values() if node.level == level > 0))


def apply(nodes: Nodes, root: bytes, edits: Mapping[bytes, bytes | None]) -> bytes:
    """Root id of the map `root` with `edits` applied; None deletes the key."""
    if not edits:
        return root
    for level in range(nodes.load(root).level + 1):
        edits = _edit_level(nodes, root, level, edits)
    entries = sorted((key, child) for key, child in edits.items() if child is not None)
    while len(entries) > 1:  # the old root split: grow
        level += 1
        closed, rest = _cut((key, child, mark(level, key)) for key, child in entries)
        entries = [(chunk[-1][0], nodes.save(Node.of(level, chunk))) for chunk in [*closed, rest] if chunk]
    root = entries[0][1] if entries else nodes.save(EMPTY)
    while (node := nodes.load(root)).level and len(node.keys) == 1:  # the old root emptied: shrink
        root = node.values[0]
    return root


def _edit_level(
    nodes: Nodes, root: bytes, level: int, edits: Mapping[bytes, bytes | None]
) -> dict[bytes, bytes | None]:
    """Rewrite the nodes of `level` that `edits` touch; return the edits this makes one level up."""
    above: dict[bytes, bytes | None] = {}
    keys = sorted(edits)
    done = 0
    while done < len(keys):
        node, last = _find(nodes, root, level, keys[done])
        stop = len(keys) if last else bisect_right(keys, node.keys[-1], done)
        replaced = node.replace(keys[done:stop], edits)
        if replaced:  # no key came or went, so no boundary moves
            above[node.keys[-1]] = nodes.save(replaced)
            done = stop
            continue
        rest: list[Marked] = []
        while True:  # until old and new boundaries coincide: nearly always after one node
            if node.keys:
                above[node.keys[-1]] = None
            stop = len(keys) if last else bisect_right(keys, node.keys[-1], done)
            closed, rest = _cut(rest + node.edit(keys[done:stop], edits))
            done = stop
            if last and rest:
                closed, rest = [*closed, rest], []
            for chunk in closed:
                above[chunk[-1][0]] = nodes.save(Node.of(level, chunk))
            if not rest:
                break
            node, last = _find(nodes, root, level, node.keys[-1] + b"\x00")
    return above


def _find(nodes: Nodes, root: bytes, level: int, key: bytes) -> tuple[Node, bool]:
    """The node of `level` whose range holds `key`, and whether it is the last of its level."""
    node, last = nodes.load(root), True
    while node.level > level:
        i = min(bisect_left(node.keys, key), len(node.keys) - 1)
        last = last and i == len(node.keys) - 1
        node = nodes.load(node.values[i])
    return node, last


def _cut(entries: Iterable[Marked]) -> tuple[list[list[Marked]], list[Marked]]:
    """Split `entries` at node boundaries into closed chunks and what follows the last boundary."""
    closed: list[list[Marked]] = []
    rest: list[Marked] = []
    for entry in entries:
        rest.append(entry)
        if entry[2] < THRESHOLDS[len(rest)]:
            closed.append(rest)
            rest = []
    return closed, rest


def is_closed(node: Node) -> bool | None:
    """Whether `node` ends at a boundary; None when it has one inside, so that no build makes such a node."""
    for count, hash in enumerate(node.marks, 1):
        if hash < THRESHOLDS[count]:  # the last threshold is above all hashes
            return True if count == len(node.keys) else None
    return False
