"""Commits: read the operations against the expected commit, check them against the head, write.

Order of checks, as Nessie has it: rules of the request and of content ids (BadRequest, against the
expected commit), then namespaces, then keys (ReferenceConflict, against the head).  All conflicts of
a stage are reported at once.  Nothing is saved before every check has passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from nessie_ops.errors import BadRequest, ReferenceNotFound
from nessie_ops.model import (
    AddedContent,
    Branch,
    CommitHash,
    CommitResult,
    Conflict,
    ConflictType,
    Content,
    ContentId,
    ContentKey,
    Delete,
    NewCommit,
    Operation,
    Put,
    Unchanged,
    UnchangedRange,
    parse_content_id,
    with_id,
)
from nessie_ops.store import WriteTransaction
from nessie_ops.versioning import references, tree
from nessie_ops.versioning.codec import (
    Change,
    Commit,
    Leaf,
    Words,
    commit_id,
    encode_changes,
    encode_words,
    leaf_of,
    to_micros,
    type_of,
)
from nessie_ops.versioning.conflicts import (
    compare_leaves,
    differs,
    does_not_exist,
    get_namespace_conflicts,
    raise_conflicts,
)
from nessie_ops.versioning.history import is_ancestor, key_span
from nessie_ops.versioning.objects import StoredNodes, find_commit, load_commit, root_of, save_content
from nessie_ops.versioning.ranges import Range, find_range_conflicts

MAX_OPERATIONS = 100_000  # in one commit: bounds the time for which a branch is locked


class _Edit(NamedTuple):
    """What one key of a commit expects and becomes.  Values are encoded leaves."""

    key: ContentKey
    expected: bytes | None
    content: Content | None = None  # with id; None deletes
    is_check: bool = False  # Unchanged: expects, and changes nothing
    is_created: bool = False  # new or renamed: its namespace must exist
    is_added: bool = False  # has an id drawn here


def commit(
    tx: WriteTransaction,
    branch: str,
    expected: CommitHash,
    meta: NewCommit,
    operations: Sequence[Operation],
    clock: Callable[[], datetime],
    new_id: Callable[[], str],
) -> CommitResult:
    deletes, puts, checks, ranges = _sort_operations(operations)
    check_meta(meta)
    record = references.get_branch_record(tx, branch, "commit")
    head = load_commit(tx, record.head)
    base = get_expected(tx, branch, expected, head)
    keys = [operation.key.to_bytes() for kind in (deletes, puts, checks) for operation in kind]
    nodes = StoredNodes(tx)
    at_base = tree.get_many(nodes, root_of(base), keys)
    at_head = at_base if base == head else tree.get_many(nodes, root_of(head), keys)

    edits = _plan(deletes, puts, checks, at_base, new_id)
    changes = [(edit.key.to_bytes(), leaf_of(edit.content)[0] if edit.content else None) for edit in edits]
    real = [change for change, edit in zip(changes, edits) if not edit.is_check]
    created = [edit.key.to_bytes() for edit in edits if edit.is_created]
    raise_conflicts(get_namespace_conflicts(tx, root_of(head), real, created, at_head))
    raise_conflicts(
        (
            *_get_key_conflicts(edits, at_head, base == head),
            *find_range_conflicts(nodes, root_of(base), root_of(head), ranges),
        )
    )

    contents = [edit.content for edit in edits if edit.content]
    written = write_commit(tx, head, None, meta, real, contents, clock())
    references.move_head(tx, record, written.id, references.COMMITTED, clock())
    added = tuple(AddedContent(e.key, ContentId(str(e.content.id))) for e in edits if e.is_added and e.content)
    return CommitResult(Branch(branch, written.hash), added or None)


def check_meta(meta: NewCommit) -> None:
    """BadRequest when the author's time could be stored, but not shown again."""
    time = meta.author_time
    if time is None:
        return
    if time.utcoffset() is None:
        raise BadRequest(f"author_time: {time} has no time zone; give one, such as UTC.")
    try:
        time.astimezone(UTC)
    except OverflowError:
        raise BadRequest(f"author_time: {time} is out of range: in UTC it is before year 1 or after 9999.") from None


def get_expected(tx: WriteTransaction, branch: str, expected: CommitHash, head: Commit | None) -> Commit | None:
    """The expected commit, which must be on the branch; ReferenceNotFound."""
    base = find_commit(tx, expected)
    if not is_ancestor(tx, base, head):
        raise ReferenceNotFound(f"Could not find commit '{expected}' in reference '{branch}'.")
    return base


def _sort_operations(
    operations: Sequence[Operation],
) -> tuple[list[Delete], list[Put], list[Unchanged], list[Range]]:
    """Operations by kind; BadRequest when there are none, too many, or two for one key.

    The one pair allowed for a key is Delete, then Put without id: drop and create.
    """
    if not operations:
        raise BadRequest("operations: a commit needs at least one operation.")
    if len(operations) > MAX_OPERATIONS:
        raise BadRequest(f"operations: {len(operations)} operations; at most {MAX_OPERATIONS} fit one commit.")
    deletes: list[Delete] = []
    puts: list[Put] = []
    checks: list[Unchanged] = []
    ranges: list[Range] = []
    seen: dict[ContentKey, Operation] = {}
    for operation in operations:
        if isinstance(operation, UnchangedRange):
            ranges.append(Range(*key_span(operation.prefix, operation.first, operation.last), operation.with_content))
            continue
        operation.key.validated()
        before = seen.get(operation.key)
        replaces = isinstance(before, Delete) and isinstance(operation, Put) and operation.content.id is UNSET
        if before is not None and not replaces:
            raise BadRequest(f"Duplicate key in commit operations: {operation.key}")
        seen[operation.key] = operation
        if isinstance(operation, Put):
            puts.append(operation)
        elif isinstance(operation, Delete):
            deletes.append(operation)
        else:
            checks.append(operation)
    return deletes, puts, checks, ranges


def _plan(
    deletes: Sequence[Delete],
    puts: Sequence[Put],
    checks: Sequence[Unchanged],
    at_base: Mapping[bytes, bytes],
    new_id: Callable[[], str],
) -> list[_Edit]:
    """What each key expects and becomes, by its state at the expected commit; BadRequest for a wrong content id."""
    dropped = {delete.key: at_base.get(delete.key.to_bytes()) for delete in deletes}
    movable = {Leaf.decode(leaf).content_id: leaf for leaf in dropped.values() if leaf}
    edits = []
    replaced = set()
    for put in puts:
        base = at_base.get(put.key.to_bytes())
        if put.key in dropped:
            replaced.add(put.key)
            edits.append(_Edit(put.key, base, with_id(put.content, new_id()), is_added=True, is_created=base is None))
        elif base is None:
            edits.append(_plan_new(put, movable, new_id))
        else:
            edits.append(_plan_update(put, base))
    edits += [_Edit(key, leaf) for key, leaf in dropped.items() if key not in replaced]
    return edits + [_Edit(check.key, at_base.get(check.key.to_bytes()), is_check=True) for check in checks]


def _plan_new(put: Put, movable: dict[ContentId, bytes], new_id: Callable[[], str]) -> _Edit:
    if put.content.id is UNSET:
        return _Edit(put.key, None, with_id(put.content, new_id()), is_added=True, is_created=True)
    content_id = parse_content_id(put.content.id)
    source = movable.pop(content_id, None)  # popped: a content moves to one place
    if source is None:
        raise BadRequest(f"New value for key '{put.key}' must not have a content ID")
    _check_type(put, source)
    return _Edit(put.key, None, with_id(put.content, content_id), is_created=True)


def _plan_update(put: Put, base: bytes) -> _Edit:
    if put.content.id is UNSET:
        raise BadRequest(f"New value to update existing key '{put.key}' has no content ID")
    content_id = parse_content_id(put.content.id)
    existing = Leaf.decode(base).content_id
    if content_id != existing:
        raise BadRequest(
            f"Key '{put.key}' already exists with content ID '{existing}', "
            f"which is different from the content ID '{content_id}' in the operation"
        )
    _check_type(put, base)
    return _Edit(put.key, base, with_id(put.content, content_id))


def _check_type(put: Put, leaf: bytes) -> None:
    existing = type_of(leaf)
    if put.content.type != existing:
        raise BadRequest(
            f"Key '{put.key}': a {existing} cannot become a {put.content.type} with the same content ID; "
            "delete it and put the new content without ID."
        )


def _get_key_conflicts(edits: Iterable[_Edit], at_head: Mapping[bytes, bytes], is_current: bool) -> Iterable[Conflict]:
    """Conflicts of values; `is_current`: the expected commit is the head."""
    for edit in edits:
        head = at_head.get(edit.key.to_bytes())
        if edit.expected is None and not edit.is_created:  # a Delete or Unchanged of what was not there
            if head is not None:
                yield differs(ConflictType.PAYLOAD_DIFFERS, edit.key)
            elif not (edit.is_check and is_current):
                yield does_not_exist(edit.key)
        elif conflict := compare_leaves(edit.key, head, edit.expected):
            yield conflict


def write_commit(
    tx: WriteTransaction,
    head: Commit | None,
    merged: Commit | None,
    meta: NewCommit,
    changes: Sequence[Change],
    contents: Iterable[Content],
    now: datetime,
) -> Commit:
    """Save contents, index nodes and the commit on top of `head`; no check, no reference moved."""
    for content in contents:
        save_content(tx, content)
    root = tree.apply(StoredNodes(tx), root_of(head), dict(changes))
    time = max(to_micros(now), head.time if head else 0)  # so that times can be searched
    author_time = to_micros(meta.author_time) if meta.author_time else time
    words = encode_words(
        Words(
            meta.committer,
            meta.authors or (meta.committer,),
            meta.signed_off_by,
            meta.message,
            author_time,
            {name: tuple(values) for name, values in meta.properties.items()},
        )
    )
    operations = encode_changes(changes)
    parent, merge_parent = head.id if head else None, merged.id if merged else None
    written = Commit(
        id=commit_id(parent, merge_parent, time, root, words, operations),
        parent=parent,
        merge_parent=merge_parent,
        jump=_get_jump(tx, head),
        depth=head.depth + 1 if head else 1,
        generation=1 + max(head.generation if head else 0, merged.generation if merged else 0),
        time=time,
        root=root,
        meta=words,
        operations=operations,
    )
    columns = msgspec.structs.asdict(written)
    tx.save_commit(columns.pop("id"), written, columns)
    return written


def _get_jump(tx: WriteTransaction, parent: Commit | None) -> bytes | None:
    """Myers' skew-binary pointer: where two jumps of equal length meet, one twice as long; else the parent."""
    if parent is None:
        return None
    first = load_commit(tx, parent.jump)
    second = load_commit(tx, first.jump) if first else None
    middle, far = (first.depth if first else 0), (second.depth if second else 0)
    return (second.id if second else None) if parent.depth - middle == middle - far else parent.id
