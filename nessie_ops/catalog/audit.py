"""Audits contents: every live file of tables and views exists, and can be read where it names others.

Each metadata file, manifest list and manifest is read once, however many tables, snapshots and references
share it; what was wrong with it is then told for each of them.  Memory: 16 bytes and a set's slot for each
of those files, WINDOW manifest lists and manifests, the names in one of each, the listing of one table's
folder, and MAX_PROBLEMS problems.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, Self

from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.livefiles import NAMES_OTHERS, DamagedFile, FileKind, LiveFile, expand, read_table, read_view
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.presence import Fault, FileFault, TablePresence, WarehouseFiles, size_of
from nessie_ops.catalog.stores import AWS, S3
from nessie_ops.errors import BadRequest, MetadataUnavailable

MAX_PROBLEMS = 10_000  # kept to be told in full; more are counted
THREADS = 16  # an object store answers in tens of milliseconds; a local disk gains nothing from threads
WINDOW = THREADS  # files read ahead of the walk
BATCH = 1000  # files asked for ahead of the answers

Progress = Callable[[str, int], None]


class Problem(NamedTuple):
    """What is wrong with one file."""

    fault: Fault
    kind: FileKind
    file: str
    detail: str


class Audit:
    """One audit of a warehouse; `counts` says how many files of each kind it has looked at."""

    def __init__(self, warehouse: Warehouse, progress: Progress = lambda what, count: None, s3: S3 = AWS) -> None:
        self._metadata = MetadataFiles(warehouse, s3, cache_bytes=0)
        self._files = WarehouseFiles(warehouse, s3)
        self._pool = ThreadPoolExecutor(THREADS, "audit")
        self._map: Any = map if self._files.is_local else self._pool.map
        self._progress = progress
        self._seen: set[bytes] = set()
        self._faulty: dict[bytes, list[Problem]] = {}
        self.counts: Counter[FileKind] = Counter()
        self.unlisted = 0  # problems beyond MAX_PROBLEMS
        self._listed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def check(self, location: str, *, is_table: bool) -> list[Problem]:
        """What is wrong with the metadata file of a table or view, and for a table with any file below it."""
        head = LiveFile(FileKind.METADATA, location)
        if self._is_new(head):
            self.counts[head.kind] += 1
            try:
                raw = self._read_metadata(location)
                if is_table:
                    table = read_table(raw)
                    presence = TablePresence(self._files, table.folder, table.added)
                    self._visit(table.files, presence)
                    self._keep(head, [], table.files)
                else:
                    read_view(raw)
            except (FileFault, DamagedFile) as error:
                self._keep(head, [_problem(head, error)], [])
        return self._faulty.get(_digest(head), [])

    def _read_metadata(self, location: str) -> bytes:
        try:
            return self._metadata.read_foreign(location)
        except BadRequest as error:
            raise FileFault(Fault.OUTSIDE, error.message) from error
        except MetadataUnavailable as error:
            size_of(self._files.locate(location))  # tells what is missing from what is damaged
            raise FileFault(Fault.DAMAGED, error.message) from error

    def _visit(self, files: Iterable[LiveFile], presence: TablePresence) -> None:
        """Look at those of `files` that are new, and at all that they name; `_faulty` has the problems afterwards."""
        new = (file for file in files if self._is_new(file))
        for window in _batches(new, WINDOW):
            looks = self._map(lambda file: self._look(file, presence), window)
            for file, found in zip(window, looks):
                self.counts[file.kind] += 1
                if isinstance(found, Problem):
                    self._keep(file, [found], [])
                elif found is not None:
                    self._follow(file, found, presence)
                self._progress("files", self.counts.total())

    def _look(self, file: LiveFile, presence: TablePresence) -> bytes | Problem | None:
        """The bytes of a file that names others; of one that does not, what is wrong with it."""
        if file.kind not in NAMES_OTHERS:
            return _check_presence(file, presence)
        try:
            return self._files.read(file.location)
        except FileFault as fault:
            return _problem(file, fault)

    def _follow(self, file: LiveFile, raw: bytes, presence: TablePresence) -> None:
        try:
            names = dict.fromkeys(expand(file, raw))  # deletion vectors of many data files share one file
        except DamagedFile as error:
            self._keep(file, [_problem(file, error)], [])
            return
        if file.kind != FileKind.MANIFEST:
            self._visit(names, presence)
            self._keep(file, [], names)
            return
        problems: list[Problem] = []
        for batch in _batches(names, BATCH):  # data files are not remembered: a table may have millions
            found = self._map(lambda name: _check_presence(name, presence), batch)
            problems += [problem for problem in found if problem]
            self.counts.update(name.kind for name in batch)
            self._progress("files", self.counts.total())
        self._keep(file, problems, [])

    def _keep(self, file: LiveFile, own: Sequence[Problem], names: Iterable[LiveFile]) -> None:
        found = list(own[: MAX_PROBLEMS - self._listed])
        self._listed += len(found)
        self.unlisted += len(own) - len(found)
        if self._faulty:
            found += [problem for name in names for problem in self._faulty.get(_digest(name), ())]
        if found:
            self._faulty[_digest(file)] = list(dict.fromkeys(found))

    def _is_new(self, file: LiveFile) -> bool:
        digest = _digest(file)
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True


def _batches(files: Iterable[LiveFile], size: int) -> Iterator[list[LiveFile]]:
    rest = iter(files)
    while batch := list(islice(rest, size)):
        yield batch


def _check_presence(file: LiveFile, presence: TablePresence) -> Problem | None:
    try:
        presence.check(file.location, file.size_bytes)
        return None
    except FileFault as fault:
        return _problem(file, fault)


def _problem(file: LiveFile, error: FileFault | DamagedFile) -> Problem:
    fault = error.fault if isinstance(error, FileFault) else Fault.DAMAGED
    return Problem(fault, file.kind, file.location, str(error))


def _digest(file: LiveFile) -> bytes:
    return hashlib.blake2b(f"{file.kind}\0{file.location}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
