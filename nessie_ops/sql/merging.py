"""MERGE: behaviours by key, and what ON CONFLICT makes of the keys that are in conflict."""

from __future__ import annotations

import msgspec

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, MergeConflict
from nessie_ops.model import (
    CommitHash,
    ContentKey,
    Detached,
    KeyMergeMode,
    Merge,
    MergeBehavior,
    MergeResult,
    NewCommit,
    Reference,
)
from nessie_ops.sql.statements import MergeReference, OnConflict, Resolution

_TRIES = 8  # others may write to the target meanwhile
_BEHAVIORS = {
    Resolution.OVERWRITE: MergeBehavior.FORCE,
    Resolution.DISCARD: MergeBehavior.DROP,
    Resolution.CANCEL: MergeBehavior.NORMAL,
}


def merge(
    client: NessieClient, source: Reference | Detached, into: str, wanted: MergeReference
) -> tuple[str, CommitHash | None]:
    """The target `into` and the commit where it ends then; None when a dry run would write one.  MergeConflict."""
    request = Merge(
        from_ref=source.name,
        from_hash=source.hash,
        meta=NewCommit(message=""),
        default_behavior=wanted.behavior,
        key_modes=tuple(KeyMergeMode(key=key, merge_behavior=behavior) for key, behavior in wanted.behaviors),
        dry_run=wanted.dry_run,
    )
    if wanted.on_conflict:
        result = _resolve(client, into, request, wanted.on_conflict)
    else:
        result = client.merge(into, None, request)
    return into, result.resultant_target_hash


def _resolve(client: NessieClient, into: str, request: Merge, rules: OnConflict) -> MergeResult:
    """Merge, each conflict resolved by its rule; only keys in conflict are overwritten or left out."""
    behaviors: dict[ContentKey, MergeBehavior] = {}
    exceptions = dict(rules.exceptions)
    for _ in range(_TRIES):
        modes = tuple(KeyMergeMode(key=key, merge_behavior=how) for key, how in sorted(behaviors.items()))
        try:
            return client.merge(into, None, msgspec.structs.replace(request, key_modes=modes))
        except MergeConflict as error:
            new = {
                conflict.key: _BEHAVIORS[exceptions.get(conflict.key, rules.default)]
                for conflict in error.conflicts
                if conflict.key and conflict.key not in behaviors
            }
            if not new or MergeBehavior.NORMAL in new.values():
                raise
            behaviors |= new
    raise BadRequest(f"MERGE: others changed {into} {_TRIES} times meanwhile; say it again.")
