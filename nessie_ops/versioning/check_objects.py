"""Checks contents, nodes and commits: ids match bytes, what is pointed to is there, every index has its one shape.

Each object is read once, whatever the number of commits that share it: a node is judged by its own bytes and by what
is remembered of its children.  Memory: about 150 bytes for each node and each content.  Damage of any kind
is a fault, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from nessie_ops.errors import NessieOpsError
from nessie_ops.model import decode_content
from nessie_ops.store import Kind, Transaction, scan
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import (
    DIGEST_SIZE,
    Commit,
    Words,
    commit_id,
    decode_changes,
    decode_commit,
    digest_of,
    encode_changes,
    leaf_of,
)

Progress = Callable[[str, int], None]
"""Told what is being read, and how many of it have been."""

_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError, NessieOpsError)
_AT_ONCE = 500  # nodes


class Fault(msgspec.Struct, frozen=True, rename="camel"):
    """Something wrong: what it is in (`commit`, `node`, `content`, `reference`, ...), which one, and what is wrong."""

    kind: str
    id: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind} {self.id}: {self.problem}"


class _Shape(NamedTuple):
    """What a parent must know of a node; equal for all versions of a node that hold the same keys."""

    level: int
    is_open: bool  # it, or a node on its right edge, does not end at a boundary: right only at a tree's right edge
    first: bytes  # least key below
    last: bytes
    is_single: bool  # one entry: no root of an inner level


class Stored:
    """What is remembered of the objects that have been read."""

    def __init__(self) -> None:
        self.leaves: set[bytes] = set()  # leaf values of all contents
        self.shapes: dict[bytes, _Shape] = {}
        self._same: dict[Any, Any] = {}

    def add(self, id: bytes, shape: _Shape) -> None:
        keys = {name: self._same.setdefault(key, key) for name, key in (("first", shape.first), ("last", shape.last))}
        shape = shape._replace(**keys)
        self.shapes[id] = self._same.setdefault(shape, shape)


def check_objects(tx: Transaction, progress: Progress) -> Iterator[Fault]:
    """Faults of all contents, nodes and commits, reachable or not."""
    stored = Stored()
    yield from _check_contents(tx, stored, progress)
    yield from _check_nodes(tx, stored, progress)
    yield from _check_commits(tx, stored, progress)


def _check_contents(tx: Transaction, stored: Stored, progress: Progress) -> Iterator[Fault]:
    done = 0
    for batch in scan.scan_objects(tx, Kind.CONTENT):
        for id, raw in batch:
            try:
                if raw is None:
                    raise ValueError("cannot be unpacked")
                leaf, encoded = leaf_of(decode_content(raw))
                if blake2b(raw, digest_size=DIGEST_SIZE).digest() != id:
                    raise ValueError("its id is not the hash of its bytes")
                if encoded != raw:
                    raise ValueError("its bytes are not the canonical ones")
                stored.leaves.add(leaf)
            except _UNREADABLE as error:
                yield Fault("content", id.hex(), str(error))
        done += len(batch)
        progress("contents", done)


def _check_nodes(tx: Transaction, stored: Stored, progress: Progress) -> Iterator[Fault]:
    inner: dict[int, list[bytes]] = {}
    done = 0
    for batch in scan.scan_objects(tx, Kind.NODE):
        for id, raw in batch:
            try:
                node = _decode(id, raw)
            except _UNREADABLE as error:
                yield Fault("node", id.hex(), str(error))
                continue
            if node.level:
                inner.setdefault(node.level, []).append(id)
            else:
                yield from _check_leaves(tx, id, node, stored)
                stored.add(id, _shape(node, node.keys[0], False))
        done += len(batch)
        progress("nodes", done)
    for level in sorted(inner):
        for start in range(0, len(inner[level]), _AT_ONCE):
            some = inner[level][start : start + _AT_ONCE]
            for id, node in tx.load(Kind.NODE, some, tree.Node.decode).items():
                yield from _check_children(id, node, stored)
            progress(f"links of nodes of level {level}", start + len(some))


def _decode(id: bytes, raw: bytes | None) -> tree.Node:
    """The node; ValueError unless its bytes are those that `tree` would write."""
    if raw is None:
        raise ValueError("cannot be unpacked")
    if tree.node_id(raw) != id:
        raise ValueError("its id is not the hash of its bytes")
    node = tree.Node.decode(raw)
    if not node.keys or len(node.keys) != len(node.values) or node.encode() != raw:
        raise ValueError("its bytes are not those of a node")
    if any(a >= b for a, b in zip(node.keys, node.keys[1:])):
        raise ValueError("its keys are not in order")
    if tree.is_closed(node) is None:
        raise ValueError("it goes on behind a boundary, so its shape is not canonical")
    return node


def _shape(node: tree.Node, first: bytes, is_open_below: bool) -> _Shape:
    return _Shape(node.level, is_open_below or not tree.is_closed(node), first, node.keys[-1], len(node.keys) == 1)


def _check_leaves(tx: Transaction, id: bytes, node: tree.Node, stored: Stored) -> Iterator[Fault]:
    for key, leaf in zip(node.keys, node.values):
        if leaf not in stored.leaves:
            yield Fault("node", id.hex(), f"key {_text(key)}: {_blame(tx, leaf)}")


def _blame(tx: Transaction, leaf: bytes) -> str:
    """Why a leaf value is not that of a content."""
    digest = digest_of(leaf)
    if not scan.exists(tx, Kind.CONTENT, digest):
        return f"its content {digest.hex()} does not exist"
    return f"it has another type or content id than its content {digest.hex()}, or that is damaged"


def _check_children(id: bytes, node: tree.Node, stored: Stored) -> Iterator[Fault]:
    children = [stored.shapes.get(child) for child in node.values]
    before = b""
    for i, (key, child_id, child) in enumerate(zip(node.keys, node.values, children)):
        problem = _blame_child(node, i, before, key, child)
        if problem:
            yield Fault("node", id.hex(), f"its child {child_id.hex()} {problem}")
        before = key
    if children[0] and children[-1]:
        stored.add(id, _shape(node, children[0].first, children[-1].is_open))


def _blame_child(node: tree.Node, i: int, before: bytes, key: bytes, child: _Shape | None) -> str:
    if child is None:
        return "does not exist or is damaged"
    if child.level != node.level - 1:
        return f"has level {child.level}, not {node.level - 1}"
    if child.last != key:
        return f"ends with key {_text(child.last)}, not {_text(key)}"
    if i and child.first <= before:
        return f"begins with key {_text(child.first)}, before the end of the child on its left"
    if child.is_open and i < len(node.keys) - 1:
        return "does not end at a boundary, so the shape is not canonical"
    return ""


def _check_commits(tx: Transaction, stored: Stored, progress: Progress) -> Iterator[Fault]:
    done = 0
    for batch in scan.scan_commits(tx):
        for kin in batch:
            commit = decode_commit(kin.row)
            for problem in _blame_commit(tx, commit, kin, stored):
                yield Fault("commit", bytes(commit.id).hex(), problem)
        done += len(batch)
        progress("commits", done)


def _blame_commit(tx: Transaction, commit: Commit, kin: scan.CommitWithKin, stored: Stored) -> Iterator[str]:
    hashed = (commit.parent, commit.merge_parent, commit.time, commit.root, commit.meta, commit.operations)
    if commit_id(*hashed) != commit.id:
        yield "its id is not the hash of its bytes"
    for name, id, found in (
        ("parent", commit.parent, kin.parent),
        ("merge parent", commit.merge_parent, kin.merge_parent),
    ):
        if id is not None and found is None:
            yield f"its {name} {id.hex()} does not exist"
    if commit.parent is None or kin.parent:
        yield from _blame_derived(commit, kin)
    yield from _blame_root(commit.root, stored)
    try:
        msgspec.json.decode(commit.meta, type=Words)
        changes = decode_changes(commit.operations)
        if encode_changes(changes) != commit.operations:
            yield "its operations are not in the canonical form"
    except _UNREADABLE as error:
        yield f"its words or operations cannot be read: {error}"
        return
    for key, leaf in changes:
        if leaf is not None and leaf not in stored.leaves:
            yield f"operation on {_text(key)}: {_blame(tx, leaf)}"


def _blame_derived(commit: Commit, kin: scan.CommitWithKin) -> Iterator[str]:
    parent = kin.parent
    generations = [row.generation for row in (parent, kin.merge_parent) if row]
    expected = {
        "depth": 1 + (parent.depth if parent else 0),
        "generation": 1 + max(generations, default=0),
    }
    for name, value in expected.items():
        if getattr(commit, name) != value:
            yield f"its {name} is {getattr(commit, name)}, not {value}"
    if parent and commit.time < parent.time:
        yield "its time is before that of its parent"
    if parent is None or parent.jump is None or kin.parent_jump:  # else the parent is at fault
        jump = _expected_jump(kin)
        if commit.jump != jump:
            yield f"its jump pointer is {_hex(commit.jump)}, not {_hex(jump)}"


def _expected_jump(kin: scan.CommitWithKin) -> bytes | None:
    """Docs/format.md: where two jumps of equal length meet, one twice as long; else the parent."""
    if kin.parent is None:
        return None
    first, second = kin.parent_jump, kin.parent_jump_jump
    middle, far = (first.depth if first else 0), (second.depth if second else 0)
    if kin.parent.depth - middle == middle - far:
        return bytes(second.id) if second else None
    return bytes(kin.parent.id)


def _blame_root(root: bytes, stored: Stored) -> Iterator[str]:
    if root == tree.EMPTY_ID:
        return
    shape = stored.shapes.get(root)
    if shape is None:
        yield f"its index {root.hex()} does not exist or is damaged"
    elif shape.level and shape.is_single:
        yield f"its index {root.hex()} has a level too many, so its shape is not canonical"


def _text(key: bytes) -> str:
    return repr(key.replace(b"\x00", b".").decode(errors="replace"))


def _hex(id: bytes | None) -> str:
    return id.hex() if id else "none"
