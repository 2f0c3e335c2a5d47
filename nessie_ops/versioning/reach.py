"""What can be reached from commits: their ancestors over both parents, and the objects that each one added.

Every parent has a smaller generation than its child, so a walk by falling generation meets a commit after all its
descendants, and needs no memory of where it has been.
"""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.store import Kind, Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import Commit, decode_commit, digest_of
from nessie_ops.versioning.objects import StoredNodes

AT_ONCE = 100  # commits whose indexes are compared by the same queries
_CHUNK = 250  # ancestors loaded by one query
_NODES = 500  # leaves in memory at once
T = TypeVar("T")


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """`items` in lists of `size`, the last one shorter."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def walk(tx: Transaction, roots: Iterable[bytes], known: Container[bytes] = ()) -> Iterator[Commit]:
    """Commits `roots` and all their ancestors that are not `known`, each once, by falling generation, then id.

    ReferenceNotFound when one is missing.  Memory: some hundred commits for each line of history that is open.
    """
    commits = _Ancestors(tx)
    queue = [(-commit.generation, commit.id) for commit in commits.load({id for id in roots if id not in known})]
    heapq.heapify(queue)
    last = None
    while queue:
        _, id = heapq.heappop(queue)
        if id == last:  # two ways led to it
            continue
        last = id
        commit = commits.take(id)
        for parent in (commit.parent, commit.merge_parent):
            if parent is not None and parent not in known:
                heapq.heappush(queue, (-commits.get(parent).generation, parent))
        yield commit


class _Ancestors:
    """Commits that the walk has yet to meet.  Loads those behind a commit along with it, more each time."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._loaded: dict[bytes, Commit] = {}
        self._size = 1

    def load(self, ids: set[bytes]) -> Iterable[Commit]:
        self._loaded = self._tx.load(Kind.COMMIT, ids, decode_commit)
        for id in ids - self._loaded.keys():
            raise ReferenceNotFound(f"Commit '{id.hex()}' not found")
        return list(self._loaded.values())

    def get(self, id: bytes) -> Commit:
        if id not in self._loaded:
            self._loaded |= {commit.id: commit for commit in self._tx.load_ancestors(id, self._size, decode_commit)}
            self._size = min(2 * self._size, _CHUNK)
        if id not in self._loaded:
            raise ReferenceNotFound(f"Commit '{id.hex()}' not found")
        return self._loaded[id]

    def take(self, id: bytes) -> Commit:
        commit = self.get(id)
        del self._loaded[id]
        return commit


def list_added(tx: Transaction, commits: Sequence[Commit]) -> Iterator[tuple[Kind, list[bytes]]]:
    """Ids of the nodes and contents that the indexes of `commits` hold and those of their parents do not.

    In groups, which may repeat an id, and name some that the parents hold, too.  One round trip per level for all.
    """
    parents = tx.load(Kind.COMMIT, {commit.parent for commit in commits if commit.parent}, decode_commit)
    for parent in {commit.parent for commit in commits if commit.parent} - parents.keys():
        raise ReferenceNotFound(f"Commit '{parent.hex()}' not found")
    pairs = [(parents[c.parent].root if c.parent else tree.EMPTY_ID, c.root) for c in commits]
    nodes = StoredNodes(tx)
    roots = nodes.load_many({root for pair in pairs for root in pair})
    work = [({before}, {after}) for before, after in pairs if before != after]
    for level in range(max((node.level for node in roots.values()), default=0), 0, -1):
        loaded = nodes.load_many({id for pair in work for ids in pair for id in ids})
        yield Kind.NODE, [id for _, new in work for id in new if loaded[id].level == level]
        expanded = [(_expand(loaded, old, level), _expand(loaded, new, level)) for old, new in work]
        work = [(old - new, new - old) for old, new in expanded]
    for old, new in work:
        yield from _list_added_leaves(nodes, old, new)


def _expand(loaded: Mapping[bytes, tree.Node], ids: set[bytes], level: int) -> set[bytes]:
    """`ids` with each node of `level` replaced by its children."""
    below = {id for id in ids if loaded[id].level < level}
    return below.union(*(loaded[id].values for id in ids if loaded[id].level == level))


def _list_added_leaves(nodes: StoredNodes, old: set[bytes], new: set[bytes]) -> Iterator[tuple[Kind, list[bytes]]]:
    few = old if len(old) <= _NODES else set()
    known = {leaf for node in nodes.load_many(few).values() for leaf in node.values}
    for some in batches(new - {tree.EMPTY_ID}, _NODES):
        yield Kind.NODE, some
        leaves = {leaf for node in nodes.load_many(some).values() for leaf in node.values}
        yield Kind.CONTENT, [digest_of(leaf) for leaf in leaves - known]
