"""From live versions to live files: metadata, then manifest lists, then manifests, then what they name.

Every metadata object is read once, however many versions, snapshots or tables name it, many at a time.  A table
of which something cannot be read is broken: it is named with all that is known of where its files lie, so that
nothing is deleted there.  Metadata, a manifest list or a manifest that is not there any more was collected by an
earlier run, for nobody can read what it named; unless a head needs it: then its table is broken.  That it is gone is
asked twice: one that a store cannot find for a moment makes its table broken, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from nessie_ops.catalog.livefiles import NAMES_OTHERS, DamagedFile, FileKind, LiveFile, expand
from nessie_ops.gc.ahead import map_ahead
from nessie_ops.gc.live import Exact, LivePlaces
from nessie_ops.gc.metadata import Described, describe
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.storage import StorageError, Stores

READERS = 16  # objects read at a time
_TELL = 100  # objects between two looks at whether progress is to be told
Owners = frozenset[str]


class Wanted(NamedTuple):
    """A live version to expand; `others` are the snapshots that it needs beside its own, None: all that it lists.

    `has_log`: it also needs the previous metadata files that it lists.
    """

    content_id: str
    is_table: bool
    metadata_location: str
    snapshot_id: int
    others: frozenset[int] | None = None
    has_log: bool = True


class Broken(NamedTuple):
    """Why the files of a content are not all known."""

    content_id: str
    location: str
    why: str


class Expansion:
    """What was found, by content: `locations` and other `paths` where its files are written, as metadata has them."""

    def __init__(self) -> None:
        self.locations: dict[str, set[str]] = {}
        self.paths: dict[str, set[str]] = {}
        self.broken: dict[str, Broken] = {}
        self.outside: dict[str, set[str]] = {}  # by content: where its files lie in none of its folders
        self.missing: dict[str, Owners] = {}  # metadata objects that are gone, with the contents of which they were
        self.reads: dict[FileKind, int] = {}
        self.read_bytes = 0

    def note(self, broken: Broken) -> None:
        """Note the first reason for which a content is broken."""
        self.broken.setdefault(broken.content_id, broken)


class Expander:
    """Adds the places of all live files to `live`.

    With `only_named` a version needs its own snapshot alone, as in nessie-gc; else all that its metadata lists.
    """

    def __init__(
        self,
        stores: Stores,
        live: LivePlaces,
        *,
        only_named: bool = False,
        readers: int = READERS,
        lost: Collection[str] = (),
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._stores, self._live = stores, live
        self._only_named = only_named
        self._lost = lost  # objects that are known to be gone
        self._readers = readers
        self._progress = progress
        self._seen: set[tuple[FileKind, str]] = set()
        self._own: dict[Owners, tuple[str, ...]] = {}
        self._confirmed: set[str] = set()  # of those that are missing
        self._noted: dict[Owners, set[str]] = {}  # what metadata of these contents named already: each names it all
        self.result = Expansion()

    def expand(self, wanted: Iterable[Wanted]) -> Expansion:
        """Expand versions; may be called again for more, which reads nothing twice."""
        with ThreadPoolExecutor(self._readers, "nessie-ops-gc-read") as pool:
            lists, manifests = self._expand_metadata(pool, _group(wanted))
            for owners, files in self._open(pool, FileKind.MANIFEST_LIST, lists):
                _merge(manifests, files, owners)
                self._add(files, owners)
            for owners, files in self._open(pool, FileKind.MANIFEST, manifests):
                self._add(files, owners)
            self._confirm(pool)
        return self.result

    def _confirm(self, pool: ThreadPoolExecutor) -> None:
        """Look once more for what could not be found; what is there after all breaks its tables."""
        todo = [name for name in self.result.missing if name not in self._confirmed and name not in self._lost]
        for location, error in zip(todo, pool.map(partial(confirm_gone, self._stores), todo)):
            if error:
                self.break_(self.result.missing.pop(location), location, error)
            else:
                self._confirmed.add(location)

    def _expand_metadata(
        self, pool: ThreadPoolExecutor, versions: Mapping[str, Versions]
    ) -> tuple[dict[str, Owners], dict[str, Owners]]:
        """Read metadata files; the manifest lists and manifests that are live, with the contents that own them."""
        found: dict[FileKind, dict[str, Owners]] = {FileKind.MANIFEST_LIST: {}, FileKind.MANIFEST: {}}
        for location, described in self._read(pool, FileKind.METADATA, list(versions)):
            wanted = versions[location]
            owners = frozenset(wanted.owners)
            if isinstance(described, Described):  # first, so that it is known whether the file lies within
                self._locate(owners, described)
            if isinstance(described, FileNotFoundError):
                self.result.missing[location] = owners
                continue
            self._live.add(self._places([location], owners))
            if isinstance(described, Exception):
                self.break_(owners, location, described)
            else:
                assert isinstance(described, Described)
                if fault := check_location(described, wanted):
                    self.break_(owners, location, fault)
                named = self._name(described, wanted, owners)
                self._add(named, owners)
                for kind, files in found.items():
                    _merge(files, (file for file in named if file.kind is kind), owners)
        self._noted.clear()
        return found[FileKind.MANIFEST_LIST], found[FileKind.MANIFEST]

    def _locate(self, owners: Owners, described: Described) -> None:
        for owner in owners:
            self.result.locations.setdefault(owner, set()).update({described.location} - {""})
            self.result.paths.setdefault(owner, set()).update(described.paths)
        self._own.pop(owners, None)

    def _name(self, described: Described, wanted: Versions, owners: Owners) -> list[LiveFile]:
        """The files that a metadata file makes live, but for those that an earlier one of its contents did already."""
        noted = self._noted.setdefault(owners, set())
        files = list_named(described, wanted, only_named=self._only_named)
        new = {file.location: file for file in files if file.location not in noted}
        noted.update(new)
        return list(new.values())

    def _open(
        self, pool: ThreadPoolExecutor, kind: FileKind, todo: Mapping[str, Owners]
    ) -> Iterator[tuple[Owners, list[LiveFile]]]:
        for location, files in self._read(pool, kind, [name for name in todo if (kind, name) not in self._seen]):
            self._seen.add((kind, location))
            if isinstance(files, FileNotFoundError):
                self.result.missing[location] = todo[location]
            elif isinstance(files, Exception):
                self.break_(todo[location], location, files)
            else:
                assert isinstance(files, list)
                yield todo[location], files

    def _read(
        self, pool: ThreadPoolExecutor, kind: FileKind, locations: list[str]
    ) -> Iterator[tuple[str, Described | list[LiveFile] | Exception]]:
        """Read and decode files, in order; a bounded number of them is in memory."""

        def read(location: str) -> tuple[int, Described | list[LiveFile] | Exception]:
            return read_object(self._stores, kind, location, self._lost)

        for location, (size, outcome) in map_ahead(pool, self._readers, read, locations):
            count = self.result.reads[kind] = self.result.reads.get(kind, 0) + 1
            self.result.read_bytes += size
            if count % _TELL == 0:
                self._progress(f"{kind} files read", count)
            yield location, outcome
        if locations:
            self._progress(f"{kind} files read", self.result.reads[kind])

    def _add(self, files: Iterable[LiveFile], owners: Owners) -> None:
        self._live.add(self._places((file.location for file in files), owners))

    def _places(self, locations: Iterable[str], owners: Owners) -> Iterator[str]:
        folders = self._own_folders(owners)
        for location in locations:
            try:
                place = self._stores.physical(location)
            except NotAPlace as error:
                self.break_(owners, location, error)
                continue
            if not place.startswith(folders):
                for owner in owners:
                    self.result.outside.setdefault(owner, set()).add(place.rpartition("/")[0])
            yield place

    def _own_folders(self, owners: Owners) -> tuple[str, ...]:
        """Places of folders in which files of all these contents lie, with a slash at the end."""
        if owners not in self._own:
            found = self.result
            names = [found.locations.get(name, set()) | found.paths.get(name, set()) for name in owners]
            self._own[owners] = own_folders(self._stores, names)
        return self._own[owners]

    def break_(self, owners: Owners, location: str, error: Exception) -> None:
        """Note that not all files of these contents are known."""
        for owner in owners:
            self.result.note(Broken(owner, location, describe_fault(error)))


def read_object(
    stores: Stores, kind: FileKind, location: str, lost: Collection[str] = ()
) -> tuple[int, Described | list[LiveFile] | Exception]:
    """The size and content of a metadata object, or why it cannot be had: FileNotFoundError when it is not there."""
    if location in lost:
        return 0, FileNotFoundError(location)
    try:
        raw = stores.of(location).read(location)
        return len(raw), describe(raw) if kind is FileKind.METADATA else expand(LiveFile(kind, location), raw)
    except (FileNotFoundError, StorageError, DamagedFile, NotAPlace) as error:
        return 0, error


def confirm_gone(stores: Stores, location: str) -> Exception | None:
    """Why it is not sure that an object is gone which could not be found."""
    try:
        is_gone = stores.of(location).is_gone(location)
    except (StorageError, NotAPlace) as error:
        return error
    return None if is_gone else StorageError("could not be found at first, and is there")


def check_location(described: Described, wanted: Versions) -> Exception | None:
    """What is wrong with the place of a table."""
    return DamagedFile("has no location") if wanted.is_table and not described.location else None


def list_named(described: Described, wanted: Versions, *, only_named: bool) -> Iterator[LiveFile]:
    """The files that a metadata file makes live for the versions that name it."""
    ids = set(described.by_snapshot)
    if wanted.is_table and (only_named or not wanted.is_whole):
        # Writers that know no snapshot say -1, and mean the current one.
        ids &= {described.current if id < 0 else id for id in wanted.snapshots}
    if wanted.has_log and not only_named:
        yield from described.others
    for id in ids:
        yield from described.by_snapshot[id]


def own_folders(stores: Stores, names: Sequence[AbstractSet[str]]) -> tuple[str, ...]:
    """Places, with a slash at the end, of the folders that several contents have in common."""
    places = []
    for name in frozenset.intersection(*map(frozenset, names)):
        try:
            places.append(stores.physical(name) + "/")
        except NotAPlace:
            continue  # then every file counts as outside
    return tuple(places)


def describe_fault(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def find_lost(stores: Stores, heads: Iterable[Wanted], lost: Collection[str]) -> list[Broken]:
    """Which of the versions that heads show cannot be read: the objects `lost` are gone, others may be by now."""
    return list_lost(Expander(stores, Exact(), only_named=True, lost=lost).expand(heads))


def list_lost(found: Expansion) -> list[Broken]:
    """What cannot be read of an expansion of heads, named snapshots alone."""
    why = "a head needs it, and it is missing"
    missing = [Broken(owner, name, why) for name, owners in found.missing.items() for owner in sorted(owners)]
    return [*missing, *found.broken.values()]


@dataclass
class Versions:
    """The live versions that name one metadata file."""

    owners: set[str] = field(default_factory=set)
    snapshots: set[int] = field(default_factory=set)
    is_table: bool = False
    is_whole: bool = False
    has_log: bool = False


def _group(wanted: Iterable[Wanted]) -> dict[str, Versions]:
    found: dict[str, Versions] = {}
    for version in wanted:
        row = found.setdefault(version.metadata_location, Versions())
        row.owners.add(version.content_id)
        row.snapshots.add(version.snapshot_id)
        row.snapshots.update(version.others or ())
        row.is_table |= version.is_table
        row.is_whole |= version.others is None
        row.has_log |= version.has_log
    return found


def _merge(todo: dict[str, Owners], files: Iterable[LiveFile], owners: Owners) -> None:
    for file in files:
        if file.kind in NAMES_OTHERS:
            known = todo.get(file.location)
            if known is None:
                todo[file.location] = owners
            elif not owners <= known:
                todo[file.location] = known | owners
