"""Whether files exist, and their bytes: looks at nothing but the warehouse and allowed places, and changes nothing.

Names come from metadata that anybody may have written, so a name is compared with the warehouse before a
file system sees it, and is never read as an fsspec chain (`a::http://b`).  Unlike locations that clients
give, names of data may hold `%2F`, `#` or `?`, which partition values bring; no decoding is done here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.stores import AWS, S3, open_file_system

ASKED_FIRST = 32  # files of a table asked for one by one before its folder is listed, 1,000 names a request
ASKED_SHARE = 10  # and at least one in so many of the table's: 16 threads ask for 800 files while 10,000 are listed
MAX_LISTED = 200_000  # files of a table that is listed at all, 240 MB while s3fs lists them, 40 MB afterwards
MAX_FILE_BYTES = 1 << 30  # of a manifest or manifest list; ordinary ones have 8 MB
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(/.*)", re.DOTALL)
_LOCAL = "file://"
_SLASHES = re.compile(r"/{2,}")
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


class Fault(StrEnum):
    MISSING = "missing"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"  # it may be there: the store or a permission stands between
    OUTSIDE = "outside"  # of the warehouse, so it was not looked at


class FileFault(Exception):
    """What is wrong with a file."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault


class Place(NamedTuple):
    """Where a file is: a file system of fsspec, and the path by which that knows the file."""

    fs: Any
    path: str
    is_local: bool


class WarehouseFiles:
    """The files of one warehouse and the places allowed besides, by location; may be used by many threads."""

    def __init__(self, warehouse: Warehouse, s3: S3 = AWS) -> None:
        self._places = {f"{root}/": open_file_system(root, s3) for root in warehouse.roots}
        self._names = ", ".join(warehouse.roots)
        self.is_local = all(root.startswith(_LOCAL) for root in self._places)

    def locate(self, location: str) -> Place:
        """Where `location` is; FileFault (OUTSIDE)."""
        match = _URL.fullmatch(location if ":" in location.partition("/")[0] else f"file:{location}")
        normal = ""
        if match:
            scheme = match[1].lower()
            # To an object store, a//b is not a/b.
            path = _SLASHES.sub("/", match[3]) if scheme == "file" else match[3]
            normal = f"{_SAME_STORE.get(scheme, scheme)}://{match[2] or ''}{path}"
        if not {".", ".."} & set(normal.split("/")):
            for root, fs in self._places.items():
                if normal.startswith(root):
                    return Place(fs, str(fs._strip_protocol(normal)), normal.startswith(_LOCAL))
        raise FileFault(Fault.OUTSIDE, f"lies outside the warehouse {self._names}")

    def read(self, location: str) -> bytes:
        """The bytes of a file; FileFault."""
        fs, path, _ = self.locate(location)
        raw = _call(lambda: fs.cat_file(path, start=0, end=MAX_FILE_BYTES + 1))
        if len(raw) > MAX_FILE_BYTES:
            raise FileFault(Fault.DAMAGED, f"is longer than {MAX_FILE_BYTES} bytes")
        return bytes(raw)


def size_of(place: Place) -> int:
    """The size in bytes of a file; FileFault."""
    info = _call(lambda: place.fs.info(place.path))
    if info["type"] != "file":
        raise FileFault(Fault.MISSING, f"is a {info['type']}")
    return int(info["size"] or 0)


def list_sizes(folder: Place) -> dict[str, int]:
    """Sizes in bytes of all files below `folder`, by path, as they are now; FileFault."""
    found = _call(lambda: folder.fs.find(folder.path, detail=True))
    return {path: int(info["size"] or 0) for path, info in found.items()}


def _call(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except FileNotFoundError:
        raise FileFault(Fault.MISSING, "does not exist") from None
    except IsADirectoryError:
        raise FileFault(Fault.MISSING, "is a directory") from None
    except Exception as error:  # file systems raise the exceptions of their libraries
        raise FileFault(Fault.UNREADABLE, f"{type(error).__name__}: {str(error)[:200]}") from error


class TablePresence:
    """Whether the files of one table exist; many are looked up in one listing of the table's folder.

    Its memory is that listing, which is not made of a table that is said to have more than MAX_LISTED files.
    A local disk is never listed, since there it is cheaper to ask.  What a listing does not have is asked
    for, so that it may be older.
    """

    def __init__(self, files: WarehouseFiles, folder: str, expected: int) -> None:
        """`expected` is about how many files the table has: how many must be asked for before they are listed."""
        self._files = files
        self._lock = threading.Lock()
        self._asked = 0
        self._ask_first = max(ASKED_FIRST, expected // ASKED_SHARE)
        self._sizes: dict[str, int] | None = None
        self._folder: Place | None = None
        try:
            place = files.locate(folder.rstrip("/"))
            self._folder = None if place.is_local or expected > MAX_LISTED else place
        except FileFault:
            pass  # files are elsewhere, or the folder is the warehouse, which may be any size

    def check(self, location: str, size_bytes: int | None) -> None:
        """FileFault unless the file exists and has `size_bytes` (None: any size)."""
        place = self._files.locate(location)
        size = self._listed(place)
        if size is None or size_bytes not in (None, size):
            size = size_of(place)
        if size_bytes is not None and size != size_bytes:
            raise FileFault(Fault.DAMAGED, f"has {size:,} bytes instead of {size_bytes:,}")

    def _listed(self, place: Place) -> int | None:
        folder = self._folder
        if folder is None or place.fs is not folder.fs or not place.path.startswith(folder.path + "/"):
            return None
        with self._lock:
            self._asked += 1
            if self._asked > self._ask_first and self._sizes is None:
                try:
                    self._sizes = list_sizes(folder)
                except FileFault:
                    self._sizes = {}  # listing may be forbidden where reading is not
            return self._sizes.get(place.path) if self._sizes else None
