"""Sweep: lists the bases and finds what is to be deleted.  Deletes nothing itself.

Decided for each physical file over the live files of all contents: a file is a candidate when it is not live, lies
in no folder of a broken content, and was last changed before the limit.  Candidates are recorded base by base, so
that a sweep that was cut short goes on where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

from nessie_ops.gc.bases import Blocked
from nessie_ops.gc.live import LivePlaces
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.storage import ListedFile, StorageError, Stores
from nessie_ops.store.livesets import FileRecord, LiveSets

LISTERS = 8  # bases listed at a time
_BATCH = 5000  # candidates recorded by one transaction


class Verdict(NamedTuple):
    """What was found below one base: files and bytes by what is to become of them, or why it was not listed."""

    base: str
    files: Counter[str]
    size_bytes: Counter[str]
    error: str = ""


class Sweep:
    """Finds candidates for the live set `number`."""

    def __init__(
        self,
        stores: Stores,
        sets: LiveSets,
        number: int,
        live: LivePlaces,
        blocked: Blocked,
        *,
        max_modified_at: int,
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._stores, self._sets, self._number = stores, sets, number
        self._live, self._blocked = live, blocked
        self._max_modified_at = max_modified_at
        self._progress = progress

    def find(self, bases: Sequence[str]) -> list[Verdict]:
        """List `bases`, which must not overlap, and record the candidates below them."""
        listed = 0
        verdicts = []
        with ThreadPoolExecutor(LISTERS, "nessie-ops-gc-list") as pool:
            for verdict in pool.map(self._find, bases):
                listed += sum(verdict.files.values())
                self._progress("files listed", listed)
                verdicts.append(verdict)
        return verdicts

    def _find(self, base: str) -> Verdict:
        verdict = Verdict(base, Counter(), Counter())
        try:
            candidates = self._candidates(base, verdict)
            while batch := list(islice(candidates, _BATCH)):
                self._sets.add_files(self._number, [], batch)
        except StorageError as error:
            return verdict._replace(error=str(error))
        self._sets.add_files(self._number, [base], [])
        return verdict

    def _candidates(self, base: str, verdict: Verdict) -> Iterator[FileRecord]:
        for file in self._stores.of(base).list_files(base):
            fate = self._judge(file)
            verdict.files[fate] += 1
            verdict.size_bytes[fate] += file.size_bytes
            if fate == "dead":
                yield FileRecord(file.location, base, file.size_bytes, file.modified_at)

    def _judge(self, file: ListedFile) -> str:
        """`live`, `unclear`, `broken`, `young` or `dead`."""
        try:
            place = self._stores.physical(file.location)
        except NotAPlace:
            return "unclear"  # a name with dots as elements, which readers may take for another place
        if place in self._live:
            return "live"
        if self._blocked.holds(place):
            return "broken"
        return "young" if file.modified_at > self._max_modified_at else "dead"


def count_candidates(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """How many files are dead, and how many were listed."""
    return sum(verdict.files["dead"] for verdict in verdicts), sum(sum(verdict.files.values()) for verdict in verdicts)
