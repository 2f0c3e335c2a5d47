"""Deletes the recorded candidates of a live set, in batches, each after another look at the references.

The outcome of each file is recorded after its batch, so a run that was killed deletes the rest when it is started
again; what it had deleted already is then `gone`, which is no error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from nessie_ops.gc.expand import Broken
from nessie_ops.gc.recheck import Recheck
from nessie_ops.gc.storage import Stores
from nessie_ops.store.livesets import FileRecord, LiveSets

BATCH = 1000  # files of one look at the references; as many as S3 deletes by one request


class Outcome(NamedTuple):
    """Files by how they ended (`deleted`, `gone`, `failed`, `kept`), the bytes that were freed, and what stopped it."""

    files: Counter[str]
    freed_bytes: int
    broken: list[Broken]


def delete_candidates(
    stores: Stores,
    sets: LiveSets,
    number: int,
    recheck: Recheck,
    *,
    states: Iterable[str] = ("pending", "failed"),
    progress: Callable[[str, int], None] = lambda step, count: None,
) -> Outcome:
    """Delete the files of a live set that are in `states`."""
    counts: Counter[str] = Counter()
    freed = 0
    files = iter(list_grouped(sets, number, tuple(states)))
    while batch := list(islice(files, BATCH)):
        broken = recheck.refresh()
        if broken:
            return Outcome(counts, freed, broken)
        kept = [file.location for file in batch if recheck.is_live(file.location)]
        sizes = {file.location: file.size_bytes for file in batch if file.location not in set(kept)}
        ended = list(stores.delete(sizes))
        sets.set_states(
            number,
            [*((name, "kept", "became reachable") for name in kept), *((d.location, d.state, d.error) for d in ended)],
        )
        counts["kept"] += len(kept)
        counts.update(deleted.state for deleted in ended)
        freed += sum(sizes[deleted.location] for deleted in ended if deleted.state == "deleted")
        progress("files deleted", counts["deleted"])
    return Outcome(counts, freed, [])


def list_grouped(sets: LiveSets, number: int, states: tuple[str, ...]) -> Iterator[FileRecord]:
    """Files in these states as they are at the start, so that a file that fails again is not tried for ever."""
    return sets.list_files(number, states)
