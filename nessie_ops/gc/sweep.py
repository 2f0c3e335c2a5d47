"""Sweep: lists the bases and finds what is to be deleted.  Deletes nothing itself.

Decided for each physical file over the live files of all contents: a file is a candidate when it is not live, lies
in no folder of a broken content, and was last changed before the limit.  Candidates are recorded as they are found,
and what was found below a base when it has been listed to its end, so that a sweep that was cut short goes on where
it stopped, and knows what it had found.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import NamedTuple

import msgspec

from nessie_ops.gc.bases import Bases, Blocked
from nessie_ops.gc.engine import Engine
from nessie_ops.gc.live import LivePlaces
from nessie_ops.gc.places import NotAPlace, list_folders
from nessie_ops.gc.recorder import Recorder
from nessie_ops.gc.storage import ListedFile, StorageError, Stores
from nessie_ops.store.livesets import FileRecord, ListingRecord, LiveSets

LISTERS = 8  # bases listed at a time
AGES = (1, 7, 30, 90, 365)  # days before the mark, between which files are counted
FATES = ("live", "dead", "young", "broken", "unclear")
_TELL = 1000  # files between two looks at whether progress is to be told
_BATCH = 1000  # candidates handed over to be recorded
_DAY = 86_400_000_000
_Found = tuple[list[FileRecord], list[ListingRecord]]


class Tally(msgspec.Struct, rename="camel"):
    """Files and their bytes."""

    files: int = 0
    size_bytes: int = 0

    def add(self, files: int, size_bytes: int) -> None:
        self.files += files
        self.size_bytes += size_bytes


class Verdict(msgspec.Struct):
    """What was found below one base, by what is to become of it, or why it was not listed to its end.

    `by_folder` has tallies by fate for each table's own folder in the base; `by_age` for each age: the number of
    `AGES` that a file is not younger than.
    """

    base: str
    by_folder: dict[str, dict[str, Tally]] = {}
    by_age: dict[int, dict[str, Tally]] = {}
    error: str = ""

    def add(self, folder: str, age: int, fate: str, files: int, size_bytes: int) -> None:
        for group in (self.by_folder.setdefault(folder, {}), self.by_age.setdefault(age, {})):
            group.setdefault(fate, Tally()).add(files, size_bytes)

    def count(self, fate: str) -> Tally:
        """All files of this fate."""
        total = Tally()
        for group in self.by_folder.values():
            found = group.get(fate, Tally())
            total.add(found.files, found.size_bytes)
        return total


class Limits(NamedTuple):
    """Microseconds since 1970: files changed later than `max_modified_at` stay; ages count back from `marked_at`."""

    max_modified_at: int
    marked_at: int


class Judge:
    """Decides what is to become of a file."""

    def __init__(self, stores: Stores, live: LivePlaces, blocked: Blocked, limits: Limits) -> None:
        self._stores, self._live, self.blocked, self.limits = stores, live, blocked, limits

    def judge(self, file: ListedFile) -> str:
        """`live`, `unclear`, `broken`, `young` or `dead`."""
        try:
            place = self._stores.physical(file.location)
            place.encode()
        except (NotAPlace, UnicodeEncodeError):
            # A name with dots as elements, which readers may take for another place, or one that is no text.
            return "unclear"
        return "live" if place in self._live else self.judge_dead(place, file)

    def judge_dead(self, place: str, file: ListedFile) -> str:
        """The same for a file that is at `place` and not live."""
        if self.blocked.holds(place):
            return "broken"
        return "young" if file.modified_at > self.limits.max_modified_at else "dead"

    def judge_again(self, location: str) -> str:
        """`dead` for a recorded candidate unless it is `live` or `broken` by what is known now."""
        return self.judge(ListedFile(location, 0, self.limits.max_modified_at))

    def age_of(self, file: ListedFile) -> int:
        """The number of `AGES` that the file is not younger than."""
        return bisect(AGES, (self.limits.marked_at - file.modified_at) / _DAY)


class Sweep:
    """Finds candidates for the live set `number`."""

    def __init__(
        self,
        stores: Stores,
        sets: LiveSets,
        number: int,
        judge: Judge,
        bases: Bases,
        listers: int = LISTERS,
        progress: Callable[[str, int], None] = lambda step, count: None,
        engine: Engine | None = None,
    ) -> None:
        self._stores, self._sets, self._number, self._judge = stores, sets, number, judge
        self._folders = {base: Folders(base, inner) for base, inner in group_folders(bases).items()}
        self._bases, self._listers, self._engine = bases, listers, engine
        self._progress = progress
        self._listed = count()

    def find(self, bases: Sequence[str]) -> list[Verdict]:
        """List `bases`, which must not overlap, and record the candidates below them."""
        if self._engine:
            return self._engine.find(self._sets, self._number, self._judge, self._bases, bases, self._progress)
        with (
            Recorder(self._record) as recorder,
            ThreadPoolExecutor(self._listers, "nessie-ops-gc-list") as pool,
        ):
            verdicts = list(pool.map(lambda base: self._find(base, recorder), bases))
        self._progress("files listed", count_candidates(verdicts)[1])
        return verdicts

    def _record(self, found: list[_Found]) -> None:
        files = (file for files, _ in found for file in files)
        self._sets.add_files(self._number, files, *(listing for _, listings in found for listing in listings))

    def _find(self, base: str, recorder: Recorder[_Found]) -> Verdict:
        verdict = Verdict(base)
        try:
            candidates = self._candidates(base, verdict)
            while batch := list(islice(candidates, _BATCH)):
                recorder.put((batch, []))
        except StorageError as error:
            verdict.error = str(error)
            return verdict
        recorder.put(([], [ListingRecord(base, msgspec.json.encode(verdict).decode())]))
        return verdict

    def _candidates(self, base: str, verdict: Verdict) -> Iterator[FileRecord]:
        folders = self._folders[base]
        counts: dict[tuple[str, int, str], list[int]] = {}
        try:
            for file in self._stores.of(base).list_files(base):
                fate = self._judge.judge(file)
                listed = next(self._listed) + 1  # one step of the interpreter, so that threads need no lock
                if listed % _TELL == 0:
                    self._progress("files listed", listed)
                count = counts.setdefault((folders.of(file.location), self._judge.age_of(file), fate), [0, 0])
                count[0] += 1
                count[1] += file.size_bytes
                if fate == "dead":
                    yield FileRecord(file.location, base, file.size_bytes, file.modified_at)
        finally:  # what was found before a failure counts, too
            for (folder, age, fate), (files, size_bytes) in counts.items():
                verdict.add(folder, age, fate, files, size_bytes)


def group_folders(bases: Bases) -> dict[str, list[str]]:
    """By base that is listed: the folders of contents in it, but not the base itself, sorted."""
    found: dict[str, list[str]] = {base: [] for base in bases.listed}
    for folder in sorted(bases.owners.keys() - found.keys()):
        base = next((above for above in list_folders(folder) if above in found), None)
        if base is not None:
            found[base].append(folder)
    return found


class Folders:
    """The folders of contents that lie in a base."""

    def __init__(self, base: str, inner: Iterable[str]) -> None:
        self._base = base
        self._known = set(inner)

    def of(self, location: str) -> str:
        """The innermost folder of a content that holds the file, if there is none the base."""
        if not self._known:
            return self._base
        return next((folder for folder in list_folders(location) if folder in self._known), self._base)


def read_verdicts(sets: LiveSets, number: int) -> list[Verdict]:
    """What earlier runs found below the bases that they listed to the end."""
    return [msgspec.json.decode(row.figures, type=Verdict) for row in sets.list_listings(number)]


def count_candidates(verdicts: Sequence[Verdict]) -> tuple[int, int]:
    """How many files are dead, and how many were listed."""
    total = {fate: sum(verdict.count(fate).files for verdict in verdicts) for fate in FATES}
    return total["dead"], sum(total.values())
