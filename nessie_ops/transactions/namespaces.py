"""Namespaces that a transaction and somebody else created: a merge would take one of them without a word.

Of two that create the same namespace with a merge, the source's properties win.  A transaction loses nobody's update,
so here the second one conflicts, as it does with tables.
"""

from __future__ import annotations

from nessie_ops.model import CommitHash, Conflict, ConflictType, ContentKey, ContentType
from nessie_ops.store import Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import type_of
from nessie_ops.versioning.objects import StoredNodes, find_commit, root_of


def find_created_twice(tx: Transaction, base: CommitHash, branch: CommitHash, target: CommitHash) -> list[Conflict]:
    """A conflict for each namespace that both `branch` and `target` have created since `base`, in key order."""
    if base in (branch, target):
        return []
    nodes, [base_root, own_root, head_root] = (
        StoredNodes(tx),
        (root_of(find_commit(tx, at)) for at in (base, branch, target)),
    )
    created = {raw: leaf for raw, before, leaf in tree.diff(nodes, base_root, own_root) if before is None and leaf}
    own = {raw: leaf for raw, leaf in created.items() if type_of(leaf) is ContentType.NAMESPACE}
    found = tree.get_many(nodes, head_root, own)
    return [
        Conflict(ConflictType.KEY_EXISTS, (key := ContentKey.from_bytes(raw)), f"key '{key}' already exists")
        for raw, leaf in sorted(found.items())
        if type_of(leaf) is ContentType.NAMESPACE and leaf != own[raw]
    ]
