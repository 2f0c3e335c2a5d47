"""Reading: commits and the graph between them, what they hold, and how they differ."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import (
    Ancestor,
    AsOf,
    Branch,
    CommitHash,
    CommitMeta,
    Content,
    ContentKey,
    Delete,
    Detached,
    DiffEntry,
    Entry,
    LogEntry,
    PutLog,
    Reference,
    ReferenceSpec,
    Tag,
)
from nessie_ops.store import Kind, Objects, Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import (
    Change,
    Commit,
    content_id_of,
    decode_changes,
    decode_commit,
    meta_of,
    to_hash,
    to_micros,
    type_of,
)
from nessie_ops.versioning.objects import (
    StoredNodes,
    find_commit,
    hash_of,
    load_commit,
    load_contents,
    root_of,
)
from nessie_ops.versioning.references import get_reference

LOG_CHUNK = 250  # commits per recursive query
SMALL_CHUNK = 32  # of the first query where few may be enough


class Divergence(NamedTuple):
    """Commits on one side only, along direct parents, where the sides part, and the length of the first."""

    ahead: int
    behind: int
    common_ancestor: CommitHash
    total: int


def resolve(tx: Transaction, spec: ReferenceSpec) -> Reference | Detached:
    """The reference with the commit that `spec` names as its hash."""
    if spec.name is None:
        assert spec.hash is not None  # the parser's promise
        return Detached(_follow(tx, find_commit(tx, spec.hash), spec))
    reference = get_reference(tx, spec.name)
    start = find_commit(tx, spec.hash or reference.hash)
    found = _follow(tx, start, spec)
    kind = Branch if isinstance(reference, Branch) else Tag
    return kind(reference.name, found, reference.properties)


def _follow(tx: Transaction, commit: Commit | None, spec: ReferenceSpec) -> CommitHash:
    for step in spec.steps:
        if commit is None:
            break
        if isinstance(step, Ancestor):
            commit = get_ancestor(tx, commit, commit.depth - step.n)
        elif isinstance(step, AsOf):
            commit = _get_as_of(tx, commit, step.time)
        elif step.n == 1:
            commit = load_commit(tx, commit.parent)
        else:
            commit = load_commit(tx, commit.merge_parent) if step.n == 2 else None
    return hash_of(commit)


def get_ancestor(tx: Transaction, commit: Commit, depth: int) -> Commit | None:
    """The direct ancestor at `depth`; None at 0 or less.  Reads O(log depth) rows."""
    current: Commit | None = commit if depth > 0 else None
    while current and current.depth > depth:
        jump = load_commit(tx, current.jump)
        current = jump if jump and jump.depth >= depth else load_commit(tx, current.parent)
    return current


def _get_as_of(tx: Transaction, commit: Commit, time: datetime) -> Commit | None:
    """The nearest direct ancestor, or itself, not younger than `time`.  Commit times never decrease along parents."""
    limit = to_micros(time)
    current: Commit | None = commit
    while current and current.time > limit:
        jump = load_commit(tx, current.jump)
        current = jump if jump and jump.time > limit else load_commit(tx, current.parent)
    return current


def is_ancestor(tx: Transaction, ancestor: Commit | None, commit: Commit | None) -> bool:
    """Whether `ancestor` is `commit` or one of its direct ancestors; "no commit" is everyone's."""
    if ancestor is None:
        return True
    if commit is None or ancestor.depth > commit.depth:
        return False
    return get_ancestor(tx, commit, ancestor.depth) == ancestor


def get_commit(tx: Transaction, commit: CommitHash) -> CommitMeta:
    found = find_commit(tx, commit)
    if found is None:
        raise ReferenceNotFound(f"Commit '{commit}' not found")
    return meta_of(found)


def get_merge_base(tx: Transaction, a: CommitHash, b: CommitHash) -> CommitHash | None:
    base = find_merge_base(tx, find_commit(tx, a), find_commit(tx, b))
    return base.hash if base else None


def find_merge_base(tx: Transaction, a: Commit | None, b: Commit | None) -> Commit | None:
    """The common ancestor over direct and merge parents with the greatest generation.

    Best-first from both heads.  A generation is greater than those of all parents, so a commit is
    met only after all its descendants, and the first one that both sides reach is the best.
    """
    if a is None or b is None:
        return None
    if is_ancestor(tx, a, b):  # the usual cases, in O(log depth) reads
        return a
    if is_ancestor(tx, b, a):
        return b
    if get_ancestor(tx, a, 1) != get_ancestor(tx, b, 1):
        return None  # merging needs a common ancestor, so all ways back from a commit end at one root
    graph = _Graph(tx)
    sides = {a.id: 1, b.id: 2}
    queue = [(-a.generation, a.id), (-b.generation, b.id)]
    heapq.heapify(queue)
    while queue:
        id = heapq.heappop(queue)[1]
        if sides[id] == 3:
            return load_commit(tx, id)
        for parent in graph.load(id).parents:
            if parent not in sides:
                heapq.heappush(queue, (-graph.load(parent).generation, parent))
            sides[parent] = sides.get(parent, 0) | sides[id]
    return None


class _Vertex(NamedTuple):
    generation: int
    parents: tuple[bytes, ...]


class _Graph:
    """Commits without what they hold.

    Loads those behind a commit that is not in memory along with it, as many as there were before.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._vertices: dict[bytes, _Vertex] = {}

    def load(self, id: bytes) -> _Vertex:
        if id not in self._vertices:
            cached = self._tx.peek(Kind.COMMIT, id)
            size = min(max(1, len(self._vertices)), LOG_CHUNK)
            for commit in [cached] if cached else self._tx.load_ancestors(id, size, decode_commit):
                parents = tuple(parent for parent in (commit.parent, commit.merge_parent) if parent)
                self._vertices[commit.id] = _Vertex(commit.generation, parents)
        return self._vertices[id]


def compare(tx: Transaction, a: CommitHash, b: CommitHash) -> Divergence:
    left, right = find_commit(tx, a), find_commit(tx, b)
    base = _get_fork(tx, left, right)
    depth = base.depth if base else 0
    total = left.depth if left else 0
    return Divergence(total - depth, (right.depth if right else 0) - depth, hash_of(base), total)


def _get_fork(tx: Transaction, a: Commit | None, b: Commit | None) -> Commit | None:
    """The last common commit along direct parents."""
    if a is None or b is None:
        return None
    left, right = get_ancestor(tx, a, b.depth), get_ancestor(tx, b, a.depth)
    while left and right and left != right:
        # Equal depths have jumps of equal length.
        if left.jump != right.jump:
            left, right = load_commit(tx, left.jump), load_commit(tx, right.jump)
        else:
            left, right = load_commit(tx, left.parent), load_commit(tx, right.parent)
    return left if right else None


def get_contents(tx: Objects | Transaction, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
    wanted = {key.to_bytes(): key for key in keys}
    nodes, root = StoredNodes(tx), root_of(find_commit(tx, at))
    if len(wanted) == 1:  # nearly always
        leaves = {raw: leaf for raw in wanted if (leaf := tree.get(nodes, root, raw))}
    else:
        leaves = tree.get_many(nodes, root, wanted)
    contents = load_contents(tx, leaves.values())
    return {key: contents[leaves[raw]] for raw, key in wanted.items() if raw in leaves}


def key_span(prefix: ContentKey | None, first: ContentKey | None, last: ContentKey | None) -> tuple[bytes, bytes]:
    """Half-open range of key bytes: `prefix` and all below it, cut to `first` ... `last` inclusive."""
    low = first.to_bytes() if first else b""
    high = last.to_bytes() + b"\x00" if last else tree.SEPARATOR  # the next possible key, below its children
    if prefix:
        own = prefix.to_bytes()
        low, high = max(low, own), min(high, own + b"\x01")  # no element holds a character below 0x20
    return low, high


def list_entries(
    tx: Transaction,
    at: CommitHash,
    prefix: ContentKey | None,
    first: ContentKey | None,
    last: ContentKey | None,
    limit: int,
    with_content: bool,
) -> list[Entry]:
    root = root_of(find_commit(tx, at))
    low, high = key_span(prefix, first, last)
    rows = list(islice(tree.scan(StoredNodes(tx), root, low, high), limit))
    contents = load_contents(tx, (leaf for _, leaf in rows)) if with_content else {}
    return [
        Entry(type_of(leaf), ContentKey.from_bytes(key), content_id_of(leaf), contents.get(leaf)) for key, leaf in rows
    ]


def diff(
    tx: Transaction,
    before: CommitHash,
    after: CommitHash,
    prefix: ContentKey | None,
    first: ContentKey | None,
    last: ContentKey | None,
    limit: int,
) -> list[DiffEntry]:
    roots = root_of(find_commit(tx, before)), root_of(find_commit(tx, after))
    low, high = key_span(prefix, first, last)
    rows = list(islice(tree.diff(StoredNodes(tx), *roots, low, high), limit))
    contents = load_contents(tx, (leaf for _, *leaves in rows for leaf in leaves if leaf))
    return [
        DiffEntry(ContentKey.from_bytes(key), contents.get(old or b""), contents.get(new or b""))
        for key, old, new in rows
    ]


def list_ancestors(tx: Transaction, commit: Commit | None, limit: int, chunk: int) -> Iterator[Commit]:
    """A commit and its direct ancestors, at most `limit`; ReferenceNotFound when one is missing.

    Those that are not in memory come by the chunk, each of which is longer than the one before.
    """
    while commit and limit > 0:
        yield commit
        limit -= 1
        if commit.parent is None or not limit:
            return
        cached = tx.peek(Kind.COMMIT, commit.parent)
        if cached is None:
            loaded = tx.load_ancestors(commit.parent, min(chunk, limit), decode_commit)
            if not loaded:
                raise ReferenceNotFound(f"Commit '{commit.parent_hash}' not found")
            yield from loaded[:-1]
            limit -= len(loaded) - 1
            cached, chunk = loaded[-1], min(2 * chunk, LOG_CHUNK)
        commit = cached


def list_log(
    tx: Transaction,
    at: CommitHash,
    limit_hash: CommitHash | None,
    limit: int,
    with_operations: bool,
    max_operations: int | None,
) -> list[LogEntry]:
    commits: list[Commit] = []
    changes: dict[bytes, list[Change]] = {}
    room = max_operations
    for commit in list_ancestors(tx, find_commit(tx, at), limit, SMALL_CHUNK if with_operations else LOG_CHUNK):
        commits.append(commit)
        if with_operations:
            changes[commit.id] = decode_changes(commit.operations)
            room = None if room is None else room - len(changes[commit.id])
        if commit.hash == limit_hash or (room is not None and room <= 0):
            break
    contents = load_contents(tx, (leaf for some in changes.values() for _, leaf in some if leaf))
    return [
        LogEntry(
            meta_of(commit),
            to_hash(commit.parent),
            tuple(_log_operation(key, leaf, contents) for key, leaf in changes[commit.id]) if with_operations else None,
        )
        for commit in commits
    ]


def _log_operation(key: bytes, leaf: bytes | None, contents: dict[bytes, Content]) -> PutLog | Delete:
    name = ContentKey.from_bytes(key)
    return PutLog(name, contents[leaf]) if leaf else Delete(name)
