"""Which branches of runs nobody needs any more; every call may be repeated.  Knows neither Dagster nor Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from assets.run_branches import OPENED_AT, PREFIX, QUARANTINED_AT, Clock, quarantine, utc_now
from nessie_ops.client import NessieClient
from nessie_ops.errors import ReferenceConflict, ReferenceNotFound
from nessie_ops.mergerequests.leases import parse_time
from nessie_ops.model import QUARANTINED, Branch


def reap(
    client: NessieClient,
    is_live: Callable[[str], bool | None],
    keep: timedelta,
    clock: Clock = utc_now,
) -> tuple[list[str], list[str]]:
    """Delete the runs' branches that nobody needs; returns the names (quarantined now, deleted).

    `is_live` tells of a root run id whether a run of it may still write; None when it does not know the run, which
    may be another instance's.  A branch of an ended run is quarantined first, and deleted when it has been so for
    `keep`; one of an unknown run is deleted `keep` after its opening.
    """
    marked, deleted = [], []
    for branch in client.list_references(prefix=PREFIX):
        live = is_live(branch.name.removeprefix(PREFIX))
        if not isinstance(branch, Branch) or live:
            continue
        with suppress(ReferenceConflict, ReferenceNotFound):  # somebody works on it, or has deleted it
            if live is False and QUARANTINED not in branch.properties:
                quarantine(client, branch.name, "the run has ended without publishing or being quarantined", clock)
                marked.append(branch.name)
            elif _age(branch.properties, clock()) >= keep:
                client.delete_reference(branch.name, branch.hash)
                deleted.append(branch.name)
    return marked, deleted


def _age(properties: Mapping[str, str], now: datetime) -> timedelta:
    times = (parse_time(properties.get(name, "")) for name in (QUARANTINED_AT, OPENED_AT))
    since = next(filter(None, times), None)
    # A branch that says nothing of its time was not opened here, so it is not ours to delete.
    return now - since if since else timedelta.min
