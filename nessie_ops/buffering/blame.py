"""Who is in the way of a transaction: the newest commits that changed its keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from nessie_ops.errors import TransactionConflict
from nessie_ops.model import Change, CommitHash, Conflict, ContentKey, LogEntry

MAX_LOG = 1_000  # commits looked through for who changed a key
_SHOWN = 5  # conflicts told in the message


def find_changes(log: Iterable[LogEntry], keys: Collection[ContentKey], since: CommitHash) -> dict[ContentKey, Change]:
    """For each key the newest commit of a log with operations, newest first, that changed it after `since`."""
    found: dict[ContentKey, Change] = {}
    for entry in log:
        meta = entry.commit_meta
        if meta.hash == since or len(found) == len(keys):
            break
        for operation in entry.operations or ():
            if operation.key in keys and operation.key not in found:
                author = meta.authors[0] if meta.authors else meta.committer
                found[operation.key] = Change(
                    key=str(operation.key),
                    commit_hash=meta.hash,
                    author=author,
                    time=meta.commit_time,
                    message=meta.message,
                )
    return found


def tell(
    who: str, target: str, conflicts: Sequence[Conflict], changes: Mapping[ContentKey, Change]
) -> TransactionConflict:
    """The error that names the tables and says who changed them."""
    told = [_tell(conflict, changes.get(conflict.key) if conflict.key else None) for conflict in conflicts]
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return TransactionConflict(
        f"{who} conflicts with others' commits to {target}: {'; '.join(told[:_SHOWN])}{more}.",
        tuple(conflicts),
        tuple(changes[key] for key in sorted(changes)),
    )


def _tell(conflict: Conflict, change: Change | None) -> str:
    if change is None:
        return conflict.message
    author = change.author or "somebody"
    return f"{conflict.message} by {author} in {change.commit_hash[:16]} at {change.time:%Y-%m-%d %H:%M:%S}Z"
