"""Which conflicts a write meets at the head of its branch.  Pure but for `get_namespace_conflicts`, which reads.

Conflicts are decided by value: content type, then content id, then digest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence

from nessie_ops.errors import ReferenceConflict
from nessie_ops.model import Conflict, ConflictType, ContentKey, ContentType
from nessie_ops.store import Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import Change, Leaf, type_of
from nessie_ops.versioning.objects import StoredNodes

_DIFFERS = {
    ConflictType.PAYLOAD_DIFFERS: "payload of existing and expected content for key '{}' are different",
    ConflictType.CONTENT_ID_DIFFERS: "content IDs of existing and expected content for key '{}' are different",
    ConflictType.VALUE_DIFFERS: "values of existing and expected content for key '{}' are different",
}


def compare_leaves(key: ContentKey, head: bytes | None, expected: bytes | None) -> Conflict | None:
    """The conflict between the value at the head and the expected one, both encoded leaves."""
    if head == expected:
        return None
    if expected is None:
        return Conflict(ConflictType.KEY_EXISTS, key, f"key '{key}' already exists")
    if head is None:
        return does_not_exist(key)
    found, wanted = Leaf.decode(head), Leaf.decode(expected)
    if found.type != wanted.type:
        kind = ConflictType.PAYLOAD_DIFFERS
    elif found.content_id != wanted.content_id:
        kind = ConflictType.CONTENT_ID_DIFFERS
    else:
        kind = ConflictType.VALUE_DIFFERS
    return differs(kind, key)


def differs(kind: ConflictType, key: ContentKey) -> Conflict:
    return Conflict(kind, key, _DIFFERS[kind].format(key))


def does_not_exist(key: ContentKey) -> Conflict:
    return Conflict(ConflictType.KEY_DOES_NOT_EXIST, key, f"key '{key}' does not exist")


def raise_conflicts(conflicts: Iterable[Conflict]) -> None:
    """ReferenceConflict with all of `conflicts`, if there are any."""
    found = tuple(conflicts)
    if len(found) == 1:
        text = found[0].message
        raise ReferenceConflict(text[0].upper() + text[1:] + ".", found)
    if found:
        texts = ", ".join(conflict.message for conflict in found)
        raise ReferenceConflict(
            f"There are multiple conflicts that prevent committing the provided operations: {texts}.", found
        )


def get_namespace_conflicts(
    tx: Transaction,
    head_root: bytes,
    changes: Iterable[Change],
    created: Iterable[bytes],
    head: Mapping[bytes, bytes],
) -> list[Conflict]:
    """Violations of "a key's parent is a namespace" that `changes` would cause at the head.

    Checks the parents of the `created` keys, and the children of namespaces that vanish.  `head` has
    the values at the head of the changed keys.
    """
    edits = dict(changes)
    nodes = StoredNodes(tx)
    gone = [key for key in sorted(edits) if _is_namespace(head.get(key)) and not _is_namespace(edits[key])]
    puts = sorted(key for key, leaf in edits.items() if leaf is not None)
    conflicts = _get_missing_parents(nodes, head_root, sorted(created), edits, set(gone))
    return conflicts + [_not_empty(key) for key in gone if _has_child(nodes, head_root, key, edits, puts)]


def _get_missing_parents(
    nodes: StoredNodes, root: bytes, created: list[bytes], edits: Mapping[bytes, bytes | None], gone: Collection[bytes]
) -> list[Conflict]:
    ancestors = {parent for key in created for parent in _parents(key)}
    values: dict[bytes, bytes | None] = dict(tree.get_many(nodes, root, ancestors))
    values |= {key: leaf for key, leaf in edits.items() if key in ancestors}
    conflicts: dict[bytes, Conflict] = {}
    for key in created:
        for parent in _parents(key):
            leaf = values.get(parent)
            name = ContentKey.from_bytes(parent)
            if parent in gone:
                continue  # reported as a namespace that is not empty
            if leaf is None:
                text = f"namespace '{name}' must exist"
                conflicts[parent] = Conflict(ConflictType.NAMESPACE_ABSENT, name, text)
                continue
            if not _is_namespace(leaf):
                text = (
                    f"expecting the key '{name}' to be a namespace, but is not a namespace (using a content "
                    "object that is not a namespace as a namespace is forbidden)"
                )
                conflicts[parent] = Conflict(ConflictType.NOT_A_NAMESPACE, name, text)
            break
    return list(conflicts.values())


def _parents(key: bytes) -> list[bytes]:
    """Keys of the namespaces around a key, nearest first."""
    elements = key.split(b"\x00")
    return [b"\x00".join(elements[:n]) for n in range(len(elements) - 1, 0, -1)]


def _is_namespace(leaf: bytes | None) -> bool:
    return leaf is not None and type_of(leaf) == ContentType.NAMESPACE


def _has_child(
    nodes: StoredNodes, root: bytes, namespace: bytes, edits: Mapping[bytes, bytes | None], puts: Sequence[bytes]
) -> bool:
    """Whether something is left in a namespace; `puts` are the keys that `edits` put, sorted."""
    low, high = namespace + b"\x00", namespace + b"\x01"
    if bisect_left(puts, low) < bisect_left(puts, high):
        return True
    return any(edits.get(key, b"") is not None for key, _ in tree.scan(nodes, root, low, high))


def _not_empty(key: bytes) -> Conflict:
    name = ContentKey.from_bytes(key)
    return Conflict(ConflictType.NAMESPACE_NOT_EMPTY, name, f"namespace '{name}' is not empty")
