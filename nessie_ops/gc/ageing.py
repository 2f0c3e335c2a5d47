"""Old live sets are deleted, but for what a later run still needs: of each catalog the newest that was swept, which
knows all bases."""

from __future__ import annotations

from datetime import timedelta

from nessie_ops.gc.identify import EXPIRY_SUCCESS, Context, get_settings
from nessie_ops.store.livesets import LiveSets

KEEP = timedelta(days=90)


def age_out(sets: LiveSets, keep: timedelta, context: Context) -> list[str]:
    """Delete live sets that were made longer ago than `keep` and that nobody works on; their ids, newest first."""
    now = context.now()
    latest = now - keep // timedelta(microseconds=1)
    found = sets.list_live_sets()
    newest: dict[str, int] = {}
    for record in found:
        if record.status == EXPIRY_SUCCESS:
            newest.setdefault(get_settings(record).source, record.number)
    deleted = []
    for record in found:
        is_free = not record.owner or record.leased_until < now
        if record.created_at < latest and is_free and record.number not in newest.values():
            sets.delete(record.number)
            deleted.append(record.id)
    return deleted
