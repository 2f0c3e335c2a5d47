"""What a commit of somebody else's branch would bring to another branch, told by the catalog alone; knows no Spark.

A commit is looked at by its hash, so it does not matter that its branch moves on meanwhile.  Its branch may be in
quarantine: it is looked at to find out whether it may leave it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from assets.runs import content_key_of
from assets.transforms.audits import Audit
from assets.transforms.months import FIRST, Month
from assets.transforms.rules import bronze_rules, gold_rules, silver_rules
from assets.transforms.tables import TABLES, Table
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceConflict, ReferenceNotFound
from nessie_ops.model import (
    DETACHED,
    CommitHash,
    DiffEntry,
    IcebergTable,
    Merge,
    MergeResult,
    Namespace,
    NewCommit,
)

_BY_KEY = {content_key_of(table): table for table in TABLES.values()}


class Change(NamedTuple):
    """A table of the pipeline that differs from the merge base; `is_plain`: in its files alone, not in its columns."""

    table: Table
    is_new: bool
    is_gone: bool
    is_plain: bool


class Work(NamedTuple):
    """What a commit would bring to the target, by what differs from the merge base; `is_empty` when nothing does.

    `tables` are the pipeline's at the commit, `others` are changed keys without rules, and `behind` the tables that
    rules of changed ones read, that the branch left alone and that the target has changed since.
    """

    commit: CommitHash
    base: CommitHash
    changes: tuple[Change, ...]
    tables: frozenset[Table]
    others: tuple[str, ...]
    behind: tuple[Table, ...]
    is_empty: bool


def look(client: NessieClient, branch: str, commit: CommitHash, target: str) -> Work:
    """What a merge of `commit` of `branch` into `target` as it is now would bring; ReferenceNotFound, BadRequest."""
    head = client.get_reference(target).hash
    base = _find_base(client, branch, commit, target, head)
    differing = client.diff(base, commit)
    changes = tuple(_change(row) for row in differing if row.key in _BY_KEY)
    others = tuple(str(row.key) for row in differing if row.key not in _BY_KEY and not _is_namespace(row))
    ours = {change.table for change in changes}
    theirs = {_BY_KEY[row.key] for row in client.diff(base, head) if row.key in _BY_KEY}
    behind = sorted(theirs & (read_with(ours) - ours), key=lambda table: table.name)
    return Work(commit, base, changes, _existing(client, commit), others, tuple(behind), not differing)


def is_empty(client: NessieClient, branch: str, commit: CommitHash, target: str) -> bool:
    """Whether `commit` of `branch` brings nothing to `target`; ReferenceNotFound, BadRequest."""
    base = _find_base(client, branch, commit, target, client.get_reference(target).hash)
    return not client.diff(base, commit, limit=1)


def read_with(tables: set[Table]) -> set[Table]:
    """All tables that the rules read which read one of `tables`."""
    month = Month.parse(FIRST)
    rules: list[Audit] = [*bronze_rules(month, {}), *silver_rules(month), *gold_rules(month)]
    return {table for audit in rules if tables & set(audit.reads) for table in audit.reads}


def _find_base(client: NessieClient, branch: str, commit: CommitHash, target: str, head: CommitHash) -> CommitHash:
    """Where a merge of `commit` into `target` begins: by trying, which changes nothing, one the other way round.

    That is not forbidden while the branch is in quarantine.
    """
    with suppress(ReferenceNotFound, ReferenceConflict):
        back = _try(client, branch, target, head)
        if back.effective_target_hash == commit and back.common_ancestor is not None:
            return back.common_ancestor
    result = _try(client, target, DETACHED, commit)  # the branch has moved on
    if result.common_ancestor is None:
        raise BadRequest(f"commit: {commit} has no commit in common with '{target}'.")
    return result.common_ancestor


def _try(client: NessieClient, into: str, source: str, commit: CommitHash) -> MergeResult:
    words = NewCommit(message="")
    wanted = Merge(from_ref=source, from_hash=commit, meta=words, dry_run=True, conflicts_as_result=True)
    return client.merge(into, None, wanted)


def _existing(client: NessieClient, commit: CommitHash) -> frozenset[Table]:
    found = client.get_contents(commit, list(_BY_KEY))
    return frozenset(_BY_KEY[key] for key, content in found.items() if isinstance(content, IcebergTable))


def _change(row: DiffEntry) -> Change:
    before, after, table = row.before, row.after, _BY_KEY[row.key]
    if isinstance(before, IcebergTable) and isinstance(after, IcebergTable):
        is_plain = before.schema_id == after.schema_id and before.snapshot_id != after.snapshot_id
        return Change(table, is_new=False, is_gone=False, is_plain=is_plain)
    is_new, is_gone = not isinstance(before, IcebergTable), not isinstance(after, IcebergTable)
    return Change(table, is_new=is_new, is_gone=is_gone, is_plain=is_new)


def _is_namespace(row: DiffEntry) -> bool:
    return isinstance(row.after or row.before, Namespace)
