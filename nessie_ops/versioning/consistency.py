"""Whether commits can be read with all that they brought: their part of the index, and the contents that they put."""

from __future__ import annotations

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import CheckedCommit, CommitHash, Consistency, decode_content
from nessie_ops.store import Kind, Transaction
from nessie_ops.versioning import tree
from nessie_ops.versioning.codec import Commit, decode_changes, digest_of, meta_of
from nessie_ops.versioning.history import SMALL_CHUNK, list_ancestors
from nessie_ops.versioning.objects import StoredNodes, find_commit


def check_commit(tx: Transaction, commit: CommitHash) -> CheckedCommit:
    try:
        found = find_commit(tx, commit)
    except ReferenceNotFound:
        return CheckedCommit(commit, Consistency.COMMIT_INCONSISTENT, None)
    if found is None:
        return CheckedCommit(commit, Consistency.COMMIT_CONSISTENT, None)
    return CheckedCommit(commit, _check(tx, found), meta_of(found))


def check_log(tx: Transaction, at: CommitHash, limit: int) -> Consistency:
    try:
        results = {_check(tx, commit) for commit in list_ancestors(tx, find_commit(tx, at), limit, SMALL_CHUNK)}
    except ReferenceNotFound:
        return Consistency.COMMIT_INCONSISTENT
    return next((kind for kind in reversed(Consistency) if kind in results), Consistency.COMMIT_CONSISTENT)


def _check(tx: Transaction, commit: Commit) -> Consistency:
    changes = decode_changes(commit.operations)
    try:
        found = tree.get_many(StoredNodes(tx), commit.root, [b"", *(key for key, _ in changes)])
    except ReferenceNotFound:  # a node is missing
        return Consistency.COMMIT_INCONSISTENT
    if any(found.get(key) != leaf for key, leaf in changes):
        return Consistency.COMMIT_INCONSISTENT
    wanted = {digest_of(leaf) for _, leaf in changes if leaf}
    if len(tx.load(Kind.CONTENT, wanted, decode_content)) < len(wanted):
        return Consistency.COMMIT_CONTENT_INCONSISTENT
    return Consistency.COMMIT_CONSISTENT
