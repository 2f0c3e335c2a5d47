"""Tasks that read metadata, manifest lists and manifests: from objects to facts about the files that they name.

Objects come sorted by the contents that own them, each once.  What objects of the same contents name again is left
out as far as that is seen within a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from nessie_ops.catalog.livefiles import NAMES_OTHERS, FileKind
from nessie_ops.gc.expand import (
    Owners,
    Versions,
    check_location,
    confirm_gone,
    describe_fault,
    list_named,
    own_folders,
    read_object,
)
from nessie_ops.gc.live import digest_of
from nessie_ops.gc.metadata import Described
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.spark.facts import BROKEN, FOLDER, MISSING, NAMED, OUTSIDE, PATH, READ, Facts
from nessie_ops.gc.spark.workers import Opener, Task, in_order, open_once, rows_of
from nessie_ops.gc.storage import Stores

READERS = 8  # objects that a task reads at a time
Row = dict[str, Any]


def read_metadata(opener: Opener, lost: frozenset[str], *, only_named: bool) -> Task:
    """A task from metadata files with the versions that name them to facts."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = _Reader(open_once(opener), lost)
        for row, outcome in reader.read(batches):
            if isinstance(outcome, FileNotFoundError):
                continue
            reader.name(FileKind.METADATA, row["location"], row["owners"])
            if isinstance(outcome, Described):
                versions = Versions(
                    set(row["owners"]), set(row["snapshots"]), row["is_table"], row["is_whole"], row["has_log"]
                )
                reader.locate(outcome, versions, row)
                for file in list_named(outcome, versions, only_named=only_named):
                    reader.name(file.kind, file.location, row["owners"])
            yield from reader.facts.full()
        yield from reader.end()

    return run


def read_objects(opener: Opener, lost: frozenset[str], folders: Mapping[str, frozenset[str]]) -> Task:
    """A task from files that are live to facts: of lists and manifests what they name, of all their places.

    `folders` are where each content's files are written; `lost` objects are known to be gone.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stores = open_once(opener)
        reader, placer = _Reader(stores, lost), _Placer(stores, folders)
        for row, outcome in reader.read(batches):
            owners = frozenset(row["owners"])
            placer.place(row["location"], owners, reader.facts)
            for file in outcome if isinstance(outcome, list) else ():
                if file.kind in NAMES_OTHERS:
                    reader.name(file.kind, file.location, row["owners"])
                else:
                    placer.place(file.location, owners, reader.facts)
            yield from reader.facts.full()
        yield from reader.end()

    return run


class _Reader:
    """Reads objects, and collects the facts of one task."""

    def __init__(self, stores: Stores, lost: frozenset[str]) -> None:
        self._stores, self._lost = stores, lost
        self._counts: dict[str, tuple[int, int]] = {}
        self._noted: set[tuple[FileKind, str]] = set()
        self._owners: list[str] | None = None
        self.facts = Facts()

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Row, Any]]:
        """Each object with its content, or why it cannot be had; None for what is not read."""
        with ThreadPoolExecutor(READERS, "nessie-ops-gc-read") as pool:
            for row, (size, outcome) in in_order(pool, self._read, rows_of(batches), 2 * READERS):
                if outcome is not None:
                    objects, total = self._counts.get(row["kind"], (0, 0))
                    self._counts[row["kind"]] = (objects + 1, total + size)
                if isinstance(outcome, FileNotFoundError):
                    self.facts.add(MISSING, row["kind"], row["location"], row["owners"])
                elif isinstance(outcome, Exception):
                    self.facts.add(BROKEN, row["kind"], row["location"], row["owners"], describe_fault(outcome))
                yield row, outcome

    def _read(self, row: Row) -> tuple[int, Any]:
        if not row["is_read"]:
            return 0, None
        location = row["location"]
        size, outcome = read_object(self._stores, FileKind(row["kind"]), location, self._lost)
        if isinstance(outcome, FileNotFoundError) and location not in self._lost:
            return size, confirm_gone(self._stores, location) or outcome
        return size, outcome

    def locate(self, described: Described, versions: Versions, row: Row) -> None:
        """Tell where the files of contents are written."""
        self.facts.add(FOLDER, None, described.location, row["owners"])
        for path in described.paths:
            self.facts.add(PATH, None, path, row["owners"])
        if fault := check_location(described, versions):
            self.facts.add(BROKEN, row["kind"], row["location"], row["owners"], describe_fault(fault))

    def name(self, kind: FileKind, location: str, owners: list[str]) -> None:
        """Note a file that is live, and may name others."""
        if owners != self._owners:
            self._owners = owners
            self._noted.clear()
        if (kind, location) not in self._noted:
            self._noted.add((kind, location))
            self.facts.add(NAMED, str(kind), location, owners)

    def end(self) -> Iterator[pa.RecordBatch]:
        """The last facts."""
        for kind, (objects, size) in self._counts.items():
            self.facts.add(READ, kind, None, None, None, None, objects, size)
        yield from self.facts.rest()


class _Placer:
    """Finds the places of files, and tells where they lie in none of their contents' folders."""

    def __init__(self, stores: Stores, folders: Mapping[str, frozenset[str]]) -> None:
        self._stores, self._folders = stores, folders
        self._own: dict[Owners, tuple[str, ...]] = {}
        self._outside: set[tuple[Owners, str]] = set()

    def place(self, location: str, owners: Owners, facts: Facts) -> None:
        try:
            place = self._stores.physical(location)
        except NotAPlace as error:
            facts.add(BROKEN, None, location, sorted(owners), describe_fault(error))
            return
        facts.add_live(digest_of(place))
        if owners not in self._own:
            names = [self._folders.get(owner, frozenset()) for owner in owners]
            self._own[owners] = own_folders(self._stores, names)
        if not place.startswith(self._own[owners]):
            outside = place.rpartition("/")[0]
            if (owners, outside) not in self._outside:
                self._outside.add((owners, outside))
                facts.add(OUTSIDE, None, outside, sorted(owners))
