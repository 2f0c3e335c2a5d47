"""Why files are kept or dead: which version of which table holds them, or held them last.

Versions are read newest first, each metadata object once, so the first that names a file is the last that held it.
What is asked of the catalog's past has to be asked before the files are deleted: manifests go with what they name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple

import msgspec

from nessie_ops.catalog.livefiles import NAMES_OTHERS, DamagedFile, FileKind, LiveFile, expand
from nessie_ops.gc.expand import READERS
from nessie_ops.gc.history import Held, TooLong, list_held
from nessie_ops.gc.metadata import describe
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.source import Source, Version
from nessie_ops.gc.storage import StorageError, Stores
from nessie_ops.store.livesets import LiveSets

AUTO_VERSIONS = 1000  # dead versions that are read without being asked
AUTO_FILES = 200_000  # dead files whose reasons are held in memory without being asked
_WINDOW = 64  # versions read together
NEVER = "never committed"
NOT_KNOWN = "held by no version whose metadata can still be read"


class Reason(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Who held a file last, or holds it; without a commit nobody did, for sure when all versions could be read."""

    key: str = ""
    commit: str = ""
    reference: str = ""
    at: str = ""
    metadata_location: str = ""
    is_sure: bool = True

    def __str__(self) -> str:
        if not self.commit:
            return NEVER if self.is_sure else NOT_KNOWN
        when = f" ({self.at})" if self.at else ""
        return f"{self.key}, put by commit {self.commit[:16]}{when} of {self.reference}"


def reason_of(held: Held) -> Reason:
    return Reason(
        held.key,
        held.commit,
        held.reference,
        f"{held.time:%Y-%m-%dT%H:%M:%SZ}",
        held.version.metadata_location,
    )


class Tracer:
    """Walks versions in order, and tells the files of each that no earlier one has."""

    def __init__(
        self,
        stores: Stores,
        *,
        only_named: bool = False,
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._stores, self._only_named, self._progress = stores, only_named, progress
        self._seen: set[tuple[str, object]] = set()
        self.versions = 0
        self.unread = 0  # metadata objects that are gone or damaged, so that not all is known

    def trace(self, versions: Iterable[Version]) -> Iterator[tuple[int, str]]:
        """(number of the version, place of a file that it needs), in order of versions within each window."""
        numbered = enumerate(versions)
        with ThreadPoolExecutor(READERS, "nessie-ops-gc-trace") as pool:
            while window := list(islice(numbered, _WINDOW)):
                yield from self._trace(pool, window)
                self.versions += len(window)
                self._progress("versions of the past expanded", self.versions)

    def _trace(self, pool: ThreadPoolExecutor, window: Sequence[tuple[int, Version]]) -> Iterator[tuple[int, str]]:
        todo: list[tuple[int, LiveFile]] = []
        new = [(number, version) for number, version in window if self._is_new(version)]
        for (number, version), raw in zip(new, pool.map(self._read, (version.metadata_location for _, version in new))):
            yield from self._place(number, version.metadata_location)
            for file in self._describe(version, raw):
                yield from self._place(number, file.location)
                todo.append((number, file))
        for kind in (FileKind.MANIFEST_LIST, FileKind.MANIFEST):
            some = [(number, file) for number, file in todo if file.kind is kind and self._is_first(file)]
            for (number, file), raw in zip(some, pool.map(self._read, (file.location for _, file in some))):
                for found in self._expand(file, raw):
                    yield from self._place(number, found.location)
                    todo += [(number, found)] if found.kind in NAMES_OTHERS else []

    def _is_new(self, version: Version) -> bool:
        snapshot = version.snapshot_id if self._only_named else None
        return self._add((version.metadata_location, snapshot))

    def _is_first(self, file: LiveFile) -> bool:
        return self._add((file.location, file.kind))

    def _add(self, what: tuple[str, object]) -> bool:
        if what in self._seen:
            return False
        self._seen.add(what)
        return True

    def _read(self, location: str) -> bytes | None:
        try:
            return self._stores.of(location).read(location)
        except (FileNotFoundError, StorageError, NotAPlace):
            return None

    def _describe(self, version: Version, raw: bytes | None) -> list[LiveFile]:
        try:
            found = describe(raw) if raw is not None else None
        except DamagedFile:
            found = None
        if found is None:
            self.unread += 1
            return []
        ids = set(found.by_snapshot)
        if self._only_named and version.is_table:
            ids &= {found.current if version.snapshot_id < 0 else version.snapshot_id}
        files = [file for id in ids for file in found.by_snapshot[id]]
        return files if self._only_named else files + found.others

    def _expand(self, file: LiveFile, raw: bytes | None) -> list[LiveFile]:
        try:
            if raw is not None:
                return expand(file, raw)
        except DamagedFile:
            pass
        self.unread += 1
        return []

    def _place(self, number: int, location: str) -> Iterator[tuple[int, str]]:
        try:
            yield number, self._stores.physical(location)
        except NotAPlace:
            return


class Explained(NamedTuple):
    """For how many dead files it is known who held them last, or that nobody did; `why_not` when nothing was asked."""

    files: int
    why_not: str = ""


class Explainer:
    """Records the reasons of a live set's dead files; without `always` only where that costs little.

    With `also_live`, live versions are asked, too: they list snapshots that they do not need.
    """

    def __init__(
        self,
        stores: Stores,
        source: Source,
        *,
        always: bool = False,
        only_named: bool = False,
        also_live: bool = False,
        progress: Callable[[str, int], None] = lambda step, count: None,
    ) -> None:
        self._stores, self._source = stores, source
        self._also_live = also_live
        self._always, self._only_named, self._progress = always, only_named, progress

    def explain(self, sets: LiveSets, number: int) -> Explained:
        """Look up who held the files that are to be deleted."""
        files: dict[str, str] = {}
        for file in sets.list_files(number, ["pending", "failed"]):
            if not file.reason:
                files[self._stores.physical(file.location)] = file.location
            if len(files) > AUTO_FILES and not self._always:
                return Explained(0, f"there are more than {AUTO_FILES:,} files: use --explain")
        if not files:
            return Explained(0)
        live = {Version(row[0], bool(row[1]), row[2], row[3]) for row in sets.list_versions(number)}
        try:
            held = list_held(
                self._source,
                wanted=lambda version: self._also_live or version not in live,
                limit=None if self._always else AUTO_VERSIONS,
                progress=self._progress,
            )
        except TooLong:
            return Explained(0, f"there are more than {AUTO_VERSIONS:,} dead versions of tables: use --explain")
        return Explained(self._record(sets, number, files, held))

    def _record(self, sets: LiveSets, number: int, files: dict[str, str], held: Sequence[Held]) -> int:
        count = len(files)
        tracer = Tracer(self._stores, only_named=self._only_named, progress=self._progress)
        found: list[tuple[str, str]] = []
        for index, place in tracer.trace(one.version for one in held):
            location = files.pop(place, None)
            if location is not None:
                found.append((location, encode(reason_of(held[index]))))
        rest = encode(Reason(is_sure=not tracer.unread))
        sets.set_reasons(number, [*found, *((location, rest) for location in files.values())])
        return count


def encode(reason: Reason) -> str:
    return msgspec.json.encode(reason).decode()


def decode(text: str) -> Reason | None:
    """What `encode` made; None when the reason was not looked up."""
    return msgspec.json.decode(text, type=Reason) if text else None
