"""The reference log as events: each row with the commits that it added.  Reads only; knows no subscriber.

Rows come in the order of their sequence numbers, which is that of the database's commits and has no gaps, so
a reader who goes on after the last number it has seen misses nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import msgspec

from nessie_ops.errors import ReferenceNotFound
from nessie_ops.model import (
    ContentKey,
    Event,
    EventCommit,
    EventKind,
    EventOperation,
    ReferenceMove,
)
from nessie_ops.store import Transaction
from nessie_ops.versioning import references
from nessie_ops.versioning.codec import Change, Commit, Leaf, decode_changes, meta_of
from nessie_ops.versioning.objects import find_commit, load_commit
from nessie_ops.versioning.references import RepositoryInfo

MAX_COMMITS = 10  # told of one event
MAX_OPERATIONS = 100  # told of one event, over all its commits
MAX_BYTES = 64 << 10  # of the commits in one event: receivers limit what they read

_KINDS = {
    references.CREATED: EventKind.REFERENCE_CREATED,
    references.DELETED: EventKind.REFERENCE_DELETED,
    references.CHANGED: EventKind.REFERENCE_PROPERTIES,
    references.COMMITTED: EventKind.COMMIT,
    references.MERGED: EventKind.MERGE,
    references.TRANSPLANTED: EventKind.TRANSPLANT,
    references.REVERTED: EventKind.REVERT,
}
_ADDS_COMMITS = {EventKind.COMMIT, EventKind.MERGE, EventKind.TRANSPLANT, EventKind.REVERT}


class EventPage(NamedTuple):
    """Events, and the sequence number of the last row that was looked at: the next page begins after it."""

    events: list[Event]
    last_seq: int


def kind_of(move: ReferenceMove) -> EventKind:
    """A move by any other name than those known is one to another commit."""
    return _KINDS.get(move.action, EventKind.REFERENCE_UPDATED)


def event_id(info: RepositoryInfo, seq: int) -> str:
    """The same for the same row of the same repository, wherever and whenever it is asked for."""
    return f"evt_{uuid5(NAMESPACE_URL, f'nessie-ops:{info.created_at.isoformat()}/{info.default_branch}#{seq}').hex}"


def list_events(
    tx: Transaction,
    info: RepositoryInfo,
    name: str | None,
    after_seq: int,
    limit: int,
    accepts: Callable[[ReferenceMove], bool] | None,
) -> EventPage:
    moves = references.list_moves(tx, name, after_seq, limit, newest_first=False)
    events = [_to_event(tx, info, move) for move in moves if accepts is None or accepts(move)]
    return EventPage(events, moves[-1].seq if moves else after_seq)


def _to_event(tx: Transaction, info: RepositoryInfo, move: ReferenceMove) -> Event:
    kind = kind_of(move)
    commits, has_more = _list_commits(tx, move) if kind in _ADDS_COMMITS else ((), False)
    return Event(
        id=event_id(info, move.seq),
        seq=move.seq,
        kind=kind,
        time=move.at,
        reference=move.name,
        reference_type=move.type,
        hash_before=move.before,
        hash_after=move.after,
        commits=commits,
        has_more=has_more,
    )


def _list_commits(tx: Transaction, move: ReferenceMove) -> tuple[tuple[EventCommit, ...], bool]:
    """The commits between the heads, oldest first, and whether some are left out."""
    found: list[Commit] = []
    try:
        commit = find_commit(tx, move.after) if move.after else None
        while commit and commit.hash != move.before and len(found) < MAX_COMMITS:
            found.append(commit)
            commit = load_commit(tx, commit.parent)
        has_more = commit is not None and commit.hash != move.before
    except ReferenceNotFound:  # purged since
        has_more = True
    room = MAX_OPERATIONS
    commits = []
    for commit in reversed(found):
        commits.append(_to_event_commit(commit, room))
        room -= len(commits[-1].operations)
    if sum(len(msgspec.json.encode(commit)) for commit in commits) > MAX_BYTES:
        return (), True
    return tuple(commits), has_more


def _to_event_commit(commit: Commit, room: int) -> EventCommit:
    changes = decode_changes(commit.operations)
    return EventCommit(meta_of(commit), tuple(_to_operation(change) for change in changes[:room]), len(changes) > room)


def _to_operation(change: Change) -> EventOperation:
    key, value = change
    if value is None:
        return EventOperation("DELETE", ContentKey.from_bytes(key))
    leaf = Leaf.decode(value)
    return EventOperation("PUT", ContentKey.from_bytes(key), leaf.type, leaf.content_id)
