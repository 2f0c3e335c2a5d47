"""Table metadata without its history: what a client gets that asks for the snapshots of branches and tags alone.

Works on the JSON text, so that nothing but the snapshots changes and the rest is not parsed.  Pure.
"""

from __future__ import annotations

import msgspec


class _Ref(msgspec.Struct, frozen=True, rename="kebab"):
    snapshot_id: int


class _Used(msgspec.Struct, frozen=True, rename="kebab"):
    """The parts that say which snapshots are referenced, and the snapshots."""

    refs: dict[str, _Ref] | None = None
    current_snapshot_id: int | None = None
    snapshots: list[msgspec.Raw] | None = None


def only_referenced_snapshots(raw: bytes) -> bytes:
    """Metadata with those snapshots alone that a branch or tag of the table points to; the logs stay whole."""
    given = msgspec.json.decode(raw, type=_Used)
    used = {ref.snapshot_id for ref in (given.refs or {}).values()} | {given.current_snapshot_id}
    kept = [text for text in given.snapshots or () if msgspec.json.decode(text, type=_Ref).snapshot_id in used]
    parts = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**parts, "snapshots": kept})
