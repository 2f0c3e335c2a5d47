"""Looks for live files among the recorded candidates of a live set, without the mark that found them.

What heads show is read anew, so a mistake of the mark's about a head would be seen here.  Older commits that
policies keep are the mark's alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from nessie_ops.gc.bases import Blocked
from nessie_ops.gc.expand import Broken, Expander, Wanted, find_lost
from nessie_ops.gc.expire import known_of, make_recheck, read_settings
from nessie_ops.gc.live import Exact
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.source import Source
from nessie_ops.gc.storage import Deleted, Stores
from nessie_ops.store.livesets import LiveSetRecord, LiveSets

OPEN = ("pending", "failed")


class Verified(NamedTuple):
    """Candidates, those among them that a head needs, and those of which that cannot be known."""

    candidates: int
    live: list[str]
    unsure: list[str]
    broken: list[Broken]
    live_files: int
    """Files that heads need."""


def verify(sets: LiveSets, record: LiveSetRecord, source: Source, stores: Stores) -> Verified:
    """Read all heads as they are now, and compare what they need with what is to be deleted."""
    settings = read_settings(record)
    heads = {put.version for reference in list(source.references()) for put in source.visible(reference.hash)}
    live = Exact()
    expander = Expander(stores, live, only_named=settings.only_named)
    found = expander.expand(Wanted(*version) for version in heads)
    if found.missing:
        for lost in find_lost(stores, (Wanted(*version) for version in heads), found.missing):
            found.note(lost)
    blocked = Blocked(stores, found, known_of(sets, record))
    count = 0
    alive, unsure = [], []
    for location, place in _candidates(sets, record, stores):
        count += 1
        if place is None or blocked.holds(place):
            unsure.append(location)
        elif place in live:
            alive.append(location)
    return Verified(count, alive, unsure, list(found.broken.values()), len(live))


def keep_revived(sets: LiveSets, record: LiveSetRecord, source: Source, stores: Stores) -> int:
    """Keep the candidates that became reachable since the mark; how many.  The rest stays to be deleted."""
    recheck = make_recheck(sets, record, source, stores, read_settings(record))
    recheck.refresh()
    revived = [
        Deleted(location, "kept", "became reachable")
        for location, _ in _candidates(sets, record, stores)
        if recheck.judge(location) == "live"
    ]
    sets.set_states(record.number, revived)
    return len(revived)


def _candidates(sets: LiveSets, record: LiveSetRecord, stores: Stores) -> Iterator[tuple[str, str | None]]:
    for file in sets.list_files(record.number, OPEN):
        try:
            yield file.location, stores.physical(file.location)
        except NotAPlace:
            yield file.location, None
