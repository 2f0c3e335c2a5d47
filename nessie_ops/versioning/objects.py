"""Commits, index nodes and contents as objects of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import NO_ANCESTOR, CommitHash, Content, decode_content, parse_hash
from nessie_ops.store import Kind, Objects, Transaction, WriteTransaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import Commit, decode_commit, digest_of, leaf_of, to_hash, to_id
from nessie_ops.versioning.tree import Node


class StoredNodes:
    """The nodes of a transaction, for `tree`.  The empty node is known, not stored."""

    def __init__(self, tx: Objects | Transaction) -> None:
        self._tx = tx

    def load(self, id: bytes) -> Node:
        found: Node | None = self._tx.peek(Kind.NODE, id)
        return found if found is not None else self.load_many((id,))[id]

    def load_many(self, ids: Iterable[bytes]) -> Mapping[bytes, Node]:
        wanted = set(ids)
        loaded = self._tx.load(Kind.NODE, wanted - {tree.EMPTY_ID}, Node.decode)
        if tree.EMPTY_ID in wanted:
            loaded[tree.EMPTY_ID] = tree.EMPTY
        if len(loaded) < len(wanted):
            raise _gone("Index node", next(iter(wanted - loaded.keys())))
        return loaded

    def save(self, node: Node) -> bytes:
        keys, values = node.encode_parts()
        id = tree.node_id(keys + values)
        if id != tree.EMPTY_ID:
            cast(WriteTransaction, self._tx).save(Kind.NODE, id, node, keys, values)
        return id


def load_commit(tx: Objects | Transaction, id: bytes | None) -> Commit | None:
    """The commit, None for "no commit"; ReferenceNotFound."""
    if id is None:
        return None
    found = tx.load(Kind.COMMIT, (id,), decode_commit)
    if id not in found:
        raise ReferenceNotFound(f"Commit '{id.hex()}' not found")
    return found[id]


def find_commit(tx: Objects | Transaction, commit: CommitHash) -> Commit | None:
    """The commit with this hash, None for NO_ANCESTOR; BadRequest when it cannot be one, ReferenceNotFound."""
    return load_commit(tx, parse_id(commit))


def parse_id(commit: CommitHash) -> bytes | None:
    """The id that a commit with this hash has; BadRequest, ReferenceNotFound."""
    commit = parse_hash(commit)
    if len(commit) != len(NO_ANCESTOR):  # abbreviations are not resolved: they would change meaning with time
        raise ReferenceNotFound(f"Commit '{commit}' not found")
    return to_id(commit)


def pin_commit(tx: WriteTransaction, commit: Commit) -> None:
    """Keep a purge under way from taking a commit that a write builds on; ReferenceNotFound when one has.

    Call it before writing what takes contents or ancestors from a commit that the locked branch may not lead to:
    the cache may have a commit that is gone.
    """
    if not tx.touch_commit(commit.id):
        raise ReferenceNotFound(f"Commit '{commit.hash}' not found")


def root_of(commit: Commit | None) -> bytes:
    """The index at a commit."""
    return commit.root if commit else tree.EMPTY_ID


def id_of(commit: Commit | None) -> bytes | None:
    return commit.id if commit else None


def hash_of(commit: Commit | None) -> CommitHash:
    return to_hash(id_of(commit))


def load_contents(tx: Objects | Transaction, leaves: Iterable[bytes]) -> dict[bytes, Content]:
    """Contents by encoded leaf value."""
    wanted = list(leaves)
    found = tx.load(Kind.CONTENT, {digest_of(leaf) for leaf in wanted}, decode_content)
    for leaf in wanted:
        if digest_of(leaf) not in found:
            raise _gone("Content", digest_of(leaf))
    return {leaf: found[digest_of(leaf)] for leaf in wanted}


def save_content(tx: WriteTransaction, content: Content) -> bytes:
    """Save a content that has its id; its encoded leaf value."""
    leaf, raw = leaf_of(content)
    tx.save(Kind.CONTENT, digest_of(leaf), content, raw)
    return leaf


def _gone(what: str, id: bytes) -> ReferenceNotFound:
    """For what a commit in memory needs and the database has no more."""
    return ReferenceNotFound(
        f"{what} '{id.hex()}' not found: its commit has been purged. If a reference leads to it, the store is damaged: "
        "run `nessie-ops store check`."
    )
