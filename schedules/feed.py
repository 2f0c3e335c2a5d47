"""Where a sensor stands in the reference log: its cursor, and whether that still means what it meant.

Sequence numbers have no gaps.  A log that ends before the cursor, or lacks what follows it, is that of another
catalog, or of one that was restored or shortened: then the number says nothing of what has happened since.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from nessie_ops.client import NessieClient
from nessie_ops.model import ReferenceMove


class Cursor(NamedTuple):
    """The last number that was seen, None at first; and branches of which something is still to be done."""

    seq: int | None
    waiting: tuple[str, ...] = ()


class _Stored(msgspec.Struct, frozen=True):
    seq: int
    waiting: tuple[str, ...] = ()


class Page(NamedTuple):
    """What follows a cursor; `lost` says why the cursor means nothing, and then there are no moves.

    `last` is the number to go on from.
    """

    moves: Sequence[ReferenceMove]
    last: int
    lost: str = ""


def read_cursor(text: str | None) -> Cursor:
    """The cursor that `write_cursor` wrote; a first one for anything else."""
    if text and text.isdecimal():
        return Cursor(int(text))
    try:
        stored = msgspec.json.decode(text or "", type=_Stored)
    except msgspec.MsgspecError:
        return Cursor(None)
    return Cursor(stored.seq, stored.waiting)


def write_cursor(cursor: Cursor) -> str:
    """A number alone while nothing waits."""
    if not cursor.waiting:
        return str(cursor.seq or 0)
    return msgspec.json.encode(_Stored(cursor.seq or 0, cursor.waiting)).decode()


def read_moves(client: NessieClient, seq: int | None, limit: int) -> Page:
    """At most `limit` moves after `seq`; StoreUnavailable."""
    newest = get_newest(client)
    moves = [] if seq is None else client.list_moves(after_seq=seq, limit=limit)
    if lost := find_lost(seq, newest, moves[0].seq if moves else None):
        return Page((), newest, lost)
    return Page(moves, moves[-1].seq if moves else seq or 0)


def find_lost(seq: int | None, newest: int, first: int | None) -> str:
    """Why a cursor means nothing, when the log ends at `newest` and goes on after the cursor with `first`; or empty."""
    if seq is None:
        return "it has no cursor"
    if seq > newest:
        return f"the reference log ends at {newest}, before {seq}"
    return f"the reference log begins at {first}, after {seq}" if first is not None and first != seq + 1 else ""


def get_newest(client: NessieClient) -> int:
    """The number of the newest move; 0 when there is none."""
    moves = client.list_moves(limit=1, newest_first=True)
    return moves[0].seq if moves else 0
