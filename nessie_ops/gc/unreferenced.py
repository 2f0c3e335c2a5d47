"""Contents that no kept commit knows: dropped tables, and what only thrown-away branches had.

Found from history: the lines of all references beyond their cutoffs, and the commits at which references were
before they were moved or deleted, as far as the catalog still has both.  A content that any reference showed, or any
commit put, within the age that is asked for is left alone.  What is reported are the places where files of the others
lie; whether a file there is live is decided as for any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import NamedTuple

from nessie_ops.catalog.livefiles import DamagedFile
from nessie_ops.errors import ReferenceNotFound
from nessie_ops.gc.expand import READERS
from nessie_ops.gc.mark import Marker, Pinned
from nessie_ops.gc.metadata import describe
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.source import Put, Source
from nessie_ops.gc.storage import StorageError, Stores
from nessie_ops.model import CommitHash


class Dropped(NamedTuple):
    """A content that is gone: what was last put of it as far as the walk met it, and by which commit."""

    put: Put
    commit: CommitHash
    time: datetime


def find_unreferenced(
    source: Source,
    pinned: Sequence[Pinned],
    held_since: datetime,
    progress: Callable[[str, int], None] = lambda step, count: None,
) -> dict[str, Dropped]:
    """Contents, by id, that neither `pinned` references keep nor any reference held at or after `held_since`."""
    past = list(source.past())
    marker = Marker(source, progress)
    kept: set[str] = set()
    for reference in pinned:
        kept.update(live.put.version.content_id for live in marker.mark(reference).live)
    recent = Marker(source)
    roots = [Pinned(reference.name, reference.hash, held_since) for reference in pinned]
    roots += [Pinned("", move.hash, held_since) for move in past if move.until >= held_since]
    looked: set[CommitHash] = set()
    for root in roots:
        try:
            marked = recent.mark(root)
            kept.update(live.put.version.content_id for live in marked.live)
            if (before := recent.before(marked.last, held_since)) and before not in looked:
                # What the oldest of these commits dropped was held until then.
                looked.add(before)
                kept.update(put.version.content_id for put in source.visible(before))
        except ReferenceNotFound:
            continue  # purged: what is not there any more holds nothing
    found: dict[str, Dropped] = {}
    for hash in dict.fromkeys([*(reference.hash for reference in pinned), *(move.hash for move in past)]):
        _collect(marker, hash, kept, found)
    return found


def locate(stores: Stores, dropped: Mapping[str, Dropped]) -> list[tuple[str, str]]:
    """(content id, location) of contents whose metadata can still be read."""

    def read(found: Dropped) -> str | None:
        location = found.put.version.metadata_location
        try:
            return describe(stores.of(location).read(location)).location or None
        except (FileNotFoundError, StorageError, DamagedFile, NotAPlace):
            return None  # earlier live sets may remember where its files lie

    with ThreadPoolExecutor(READERS, "nessie-ops-gc-read") as pool:
        return [(id, place) for id, place in zip(dropped, pool.map(read, dropped.values())) if place]


def _collect(marker: Marker, hash: CommitHash, kept: set[str], found: dict[str, Dropped]) -> None:
    try:
        for commit in marker.rest(hash):
            for put in commit.puts:
                id = put.version.content_id
                if id not in kept and (id not in found or found[id].time < commit.time):
                    found[id] = Dropped(put, commit.hash, commit.time)
    except ReferenceNotFound:
        return
