"""The endpoint that tells the heads that a reference had lately, and whether they and its log can be read."""

from __future__ import annotations

from datetime import timedelta

from litestar import Response, get

from nessie_ops.model import CommitHash, Consistency, ReferenceMove
from nessie_ops.model.wire import RecentChanges
from nessie_ops.server.parameters import Segment, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.responses import json_response
from nessie_ops.server.specs import parse_plain_ref
from nessie_ops.versioning.references import CREATED

MAX_RECENT_HEADS = 20  # Nessie's limits: so many, and none that was left so long before the last move
RECENT = timedelta(minutes=5)
MAX_RECENT_MOVES = 200  # rows of the log in which they are looked for; changes of properties are rows as well
MAX_SCAN = 1000  # commits of the log that are checked


@get("/trees/{ref:str}/recent-changes", sync_to_thread=True)
def get_recent_changes(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    """Former heads of a reference, newest first, from the reference log since it was created."""
    scan = min(Query(request).integer("scan-commits") or 0, MAX_SCAN)
    reference = store.get_reference(parse_plain_ref(store, ref))
    moves = store.list_moves(name=reference.name, newest_first=True, limit=MAX_RECENT_MOVES)
    current, *previous = store.check_commits([reference.hash, *list_former_heads(moves)])
    changes = RecentChanges(
        reference=reference,
        current=current,
        previous=tuple(previous),
        commit_log_consistency=store.check_log(reference.hash, scan) if scan > 0 else Consistency.NOT_CHECKED,
    )
    return json_response(changes)


def list_former_heads(moves: list[ReferenceMove]) -> list[CommitHash]:
    """The heads that a reference had lately, newest first, from its moves, newest first."""
    heads: list[CommitHash] = []
    last = None
    for move in moves:
        if move.action == CREATED or len(heads) == MAX_RECENT_HEADS:
            break  # before its creation there was another reference of that name
        if move.before and move.before != move.after:
            last = last or move.at
            if last - move.at > RECENT:
                break
            heads.append(move.before)
    return heads


HANDLERS = [get_recent_changes]
