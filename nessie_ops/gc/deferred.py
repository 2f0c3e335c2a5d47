"""Deletes what a sweep recorded, as a run of its own: it may be stopped at any moment and started again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nessie_ops.gc import identify as runs
from nessie_ops.gc.deletion import Deletion, Outcome
from nessie_ops.gc.expire import make_recheck, read_settings
from nessie_ops.gc.identify import Context
from nessie_ops.gc.lease import Heartbeat
from nessie_ops.gc.source import Source
from nessie_ops.gc.storage import Stores
from nessie_ops.store.livesets import LiveSets


def delete_recorded(
    sets: LiveSets,
    id: str,
    source: Source,
    stores: Stores,
    context: Context,
    *,
    statuses: Sequence[str] = (runs.EXPIRY_SUCCESS,),
    is_dry_run: bool = False,
    on_batch: Callable[[str, int], None] = lambda base, count: None,
) -> Outcome:
    """Delete the recorded files of a live set, but for those that became reachable or were written anew since.

    BadRequest when its status is none of `statuses`.
    """
    record = runs.take(sets, id, statuses, context)
    try:
        with Heartbeat(lambda: runs.renew(sets, record, context)) as heartbeat:
            return Deletion(
                stores,
                sets,
                record.number,
                make_recheck(sets, record, source, stores, read_settings(record)),
                looks_again=True,
                is_dry_run=is_dry_run,
                before_batch=heartbeat.check,
                on_batch=on_batch,
                progress=context.progress,
            ).run()
    finally:
        sets.change(record.number, expected={"owner": record.owner}, owner="")
