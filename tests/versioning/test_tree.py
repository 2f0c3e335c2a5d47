"""Laws of the key index: it is the map, whatever the order of edits; equal maps share their nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nessie_ops.versioning import tree
from nessie_ops.versioning.tree import Node


class Memory:
    """Nodes in a dict, counting the round trips."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.trips = 0

    def load(self, id: bytes) -> Node:
        return self.load_many((id,))[id]

    def load_many(self, ids: Iterable[bytes]) -> Mapping[bytes, Node]:
        self.trips += 1
        return {id: tree.EMPTY if id == tree.EMPTY_ID else Node.decode(self.rows[id]) for id in ids}

    def save(self, node: Node) -> bytes:
        raw = node.encode()
        id = tree.node_id(raw)
        self.rows[id] = raw
        return id


@pytest.fixture(autouse=True, scope="module")
def small_nodes() -> Iterator[None]:
    """Nodes of about four entries, so that few keys make a tree of several levels."""
    before = list(tree.THRESHOLDS)
    tree.THRESHOLDS[:] = tree._thresholds(4)
    yield
    tree.THRESHOLDS[:] = before


keys = st.text("abc\x00é", max_size=4).map(str.encode)
values = st.integers(0, 5).map(lambda n: bytes([n]) * tree.VALUE_SIZE)
Edits = dict[bytes, bytes | None]
batches = st.lists(st.dictionaries(keys, st.none() | values, max_size=40), max_size=6)


def build(nodes: Memory, history: list[Edits]) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """(root, map) after each batch of edits."""
    root, model = nodes.save(tree.EMPTY), dict[bytes, bytes]()
    states = [(root, dict(model))]
    for edits in history:
        root = tree.apply(nodes, root, edits)
        for key, value in edits.items():
            if value is None:
                model.pop(key, None)
            else:
                model[key] = value
        states.append((root, dict(model)))
    return states


@settings(max_examples=300, deadline=None)
@given(batches)
def test_a_tree_is_its_map_and_its_shape_depends_on_nothing_else(history: list[Edits]) -> None:
    nodes = Memory()
    for root, model in build(nodes, history):
        assert list(tree.scan(nodes, root)) == sorted(model.items())
        assert root == tree.apply(nodes, tree.EMPTY_ID, model)


@settings(max_examples=200, deadline=None)
@given(batches, st.lists(keys, max_size=8), keys, keys)
def test_lookups_and_ranges(history: list[Edits], wanted: list[bytes], low: bytes, high: bytes) -> None:
    nodes = Memory()
    for root, model in build(nodes, history):
        assert tree.get_many(nodes, root, wanted) == {key: model[key] for key in wanted if key in model}
        for key in wanted:
            assert tree.get(nodes, root, key) == model.get(key)
        assert list(tree.scan(nodes, root, low, high)) == sorted(
            item for item in model.items() if low <= item[0] < high
        )


@settings(max_examples=150, deadline=None)
@given(batches, keys, keys)
def test_diff_and_added(history: list[Edits], low: bytes, high: bytes) -> None:
    nodes = Memory()
    states = build(nodes, history)

    def ids(root: bytes) -> set[bytes]:
        node = nodes.load(root)
        return {root}.union(*(ids(child) for child in node.values)) if node.level else {root}

    for before, old in states:
        for after, new in states:
            want = sorted((key, old.get(key), new.get(key)) for key in old.keys() | new.keys())
            want = [row for row in want if row[1] != row[2]]
            assert list(tree.diff(nodes, before, after)) == want
            assert list(tree.diff(nodes, before, after, low, high)) == [row for row in want if low <= row[0] < high]
            got = list(tree.added(nodes, before, after))
            assert len(got) == len(set(got)) and set(got) == ids(after) - ids(before)


@given(st.dictionaries(keys, values, max_size=60))
def test_nodes_survive_encoding(entries: dict[bytes, bytes]) -> None:
    node = Node(0, sorted(entries), [entries[key] for key in sorted(entries)])
    decoded = Node.decode(node.encode())
    assert (decoded.level, list(decoded.keys), list(decoded.values)) == (0, list(node.keys), list(node.values))


def test_many_lookups_take_one_round_trip_per_level() -> None:
    nodes = Memory()
    root = tree.apply(nodes, tree.EMPTY_ID, {b"%05d" % n: bytes(tree.VALUE_SIZE) for n in range(2000)})
    depth = nodes.load(root).level + 1
    nodes.trips = 0
    assert len(tree.get_many(nodes, root, [b"%05d" % n for n in range(0, 2000, 7)])) == 286
    assert nodes.trips == depth
