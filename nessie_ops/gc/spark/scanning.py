"""Tasks that list folders: from folders to files, each with what becomes of it unless it is live.

A folder with many files is not listed to its end by one task, if it has folders that others can list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, NamedTuple

import pyarrow as pa

from nessie_ops.gc.bases import Blocked
from nessie_ops.gc.live import Exact, digest_of
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.spark.facts import Rows
from nessie_ops.gc.spark.workers import Opener, Task, in_order, open_once, rows_of
from nessie_ops.gc.storage import Folder, ListedFile, Storage, StorageError, Stores
from nessie_ops.gc.sweep import Folders, Judge, Limits

LISTERS = 4  # folders that a task lists at a time
SPLIT = 20_000  # files of a folder up to which it is listed by one task; as many are in memory for each lister
_MANY = 100  # files in each folder, below which a folder for itself is not worth a request
FILE, FOLDER, ERROR = "file", "folder", "error"
FOLDERS = pa.schema(
    [("base_no", pa.int32()), ("base", pa.string()), ("folder", pa.string()), ("inner", pa.list_(pa.string()))]
)
LISTED = pa.schema(
    [
        ("fact", pa.string()),
        ("base_no", pa.int32()),
        ("fate", pa.string()),
        ("folder_no", pa.int32()),  # 0: the base, else the place of the innermost content's folder among `inner`
        ("age", pa.int32()),
        ("location", pa.string()),  # of a folder, or a file that is dead unless it is live; of an error its text
        ("size", pa.int64()),
        ("modified", pa.int64()),
        ("digest", pa.binary()),
        ("base", pa.string()),  # of a folder, like what follows
        ("inner", pa.list_(pa.string())),
    ]
)


def scan(opener: Opener, blocked: Blocked, limits: Limits, split: int = SPLIT) -> Task:
    """A task from folders to files, and to the folders that are left to others."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        scanner = _Scanner(open_once(opener), blocked, limits, split)
        with ThreadPoolExecutor(LISTERS, "nessie-ops-gc-list") as pool:
            for row, entries in in_order(pool, scanner.look, rows_of(batches), LISTERS):
                yield from scanner.tell(row, entries)
        yield from scanner.rows.rest()

    return run


class _Failed(NamedTuple):
    error: StorageError


class _Scanner:
    """Lists folders, and collects the rows of one task."""

    def __init__(self, stores: Stores, blocked: Blocked, limits: Limits, split: int) -> None:
        self._stores, self._split = stores, split
        self._judge = Judge(stores, Exact(), blocked, limits)
        self.rows = Rows(LISTED)

    def look(self, row: dict[str, Any]) -> Iterable[ListedFile | Folder] | _Failed:
        """The entries of a folder; at least its first files are there then."""
        folder = row["folder"]
        try:
            storage = self._stores.of(folder)
            listing = storage.list_files(folder)
            first = list(islice(listing, self._split + 1))
            return first if len(first) <= self._split else self._divide(storage, folder, first, listing)
        except StorageError as error:
            return _Failed(error)

    def _divide(
        self, storage: Storage, folder: str, first: list[ListedFile], rest: Iterator[ListedFile]
    ) -> Iterable[ListedFile | Folder]:
        start = len(folder.rstrip("/")) + 1
        children = {name for file in first if "/" in (name := file.location[start:])}
        names = {name.partition("/")[0] for name in children}
        if names and len(names) <= max(1, self._split // _MANY):
            return storage.list_level(folder)
        return chain(first, rest)

    def tell(self, row: dict[str, Any], entries: Iterable[ListedFile | Folder] | _Failed) -> Iterator[pa.RecordBatch]:
        """Rows of the entries of a folder."""
        number, base, inner = row["base_no"], row["base"], row["inner"]
        numbers = {base: 0} | {folder: at for at, folder in enumerate(inner, start=1)}
        folders = Folders(base, inner)
        try:
            if isinstance(entries, _Failed):
                raise entries.error
            for entry in self._with_odd(entries):
                if isinstance(entry, Folder):
                    self.rows.add(FOLDER, number, None, None, None, entry.location, None, None, None, base, inner)
                else:
                    self._tell_file(number, numbers[folders.of(entry.location)], entry)
                yield from self.rows.full()
        except StorageError as error:
            told = str(error).encode(errors="backslashreplace").decode()
            self.rows.add(ERROR, number, None, None, None, told)

    def _with_odd(self, entries: Iterable[ListedFile | Folder]) -> Iterator[ListedFile | Folder]:
        """Entries, with the files of folders whose names are no text, so that they can be told to nobody else."""
        for entry in entries:
            if isinstance(entry, Folder) and not _is_text(entry.location):
                yield from self._stores.of(entry.location).list_files(entry.location)
            else:
                yield entry

    def _tell_file(self, number: int, folder_no: int, file: ListedFile) -> None:
        try:
            place = self._stores.physical(file.location)
            digest = digest_of(place)
        except (NotAPlace, UnicodeEncodeError):
            fate, digest = self._judge.judge(file), b""
        else:
            fate = self._judge.judge_dead(place, file)
        age = self._judge.age_of(file)
        location = file.location if fate == "dead" else None
        self.rows.add(FILE, number, fate, folder_no, age, location, file.size_bytes, file.modified_at, digest or None)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
