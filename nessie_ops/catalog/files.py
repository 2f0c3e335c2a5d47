"""Metadata files: immutable JSON, read through a cache and written once, on any file system fsspec knows.

Invariants: a file is never overwritten; on a local disk, `write` returns only when the file and its
folder entries would survive a power cut, so a commit that names the file may follow.  What `read`
returns is a JSON object that its check has passed, since it is sent to clients as it is.  Nothing outside
the warehouse and the allowed places is read, written or deleted, also not through symbolic links on a
local disk, as far as those were there when the file was asked for.  Knows no Iceberg.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable

import msgspec

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.outlines import Check
from nessie_ops.catalog.stores import AWS, S3, FileSystem, check_scheme
from nessie_ops.errors import BadRequest, MetadataUnavailable
from nessie_ops.store import Cache

CACHE_BYTES = 64 << 20  # a few thousand tables of ordinary size
MAX_METADATA_BYTES = 256 << 20  # about a million snapshots; more is an attack or a mistake
# Another catalog's `v1.metadata.json` is written anew once its table is dropped; a UUID is never used twice.
_NEVER_REUSED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*$", re.IGNORECASE)
_LOCAL = "file://"
FIELD = "metadata-location"
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = zlib.MAX_WBITS | 16

_log = logging.getLogger(__name__)


def is_immutable(location: str) -> bool:
    """Whether the metadata file at `location` is always the same: another catalog's may be written anew."""
    return _NEVER_REUSED.search(location) is not None


class MetadataFiles:
    """The metadata files of one warehouse."""

    def __init__(self, warehouse: Warehouse, s3: S3 = AWS, *, cache_bytes: int = CACHE_BYTES) -> None:
        """MachineNotReady, BadRequest when nothing here reads the kind of file system that a place is in."""
        for root in warehouse.roots:
            check_scheme(root, "warehouse" if root == warehouse.location else "allowed-location")
        self.warehouse = warehouse
        self.s3 = s3
        self._cache = Cache(cache_bytes)

    def read(self, location: str, check: Check) -> bytes:
        """The JSON text at `location`, unpacked.

        MetadataUnavailable; BadRequest outside the allowed places, or when `check` refuses the text.
        """
        location = self.warehouse.check(location, FIELD)
        cached = self._cache.get((check, location))
        if cached is not None:
            return bytes(cached)
        data = self.read_foreign(location)
        _check_json(data, location)
        check(data, location, self.warehouse)
        if is_immutable(location):
            self._cache.put((check, location), data, len(data))
        return data

    def read_as(self, location: str, check: Check, form: str, make: Callable[[bytes], bytes]) -> bytes:
        """What `make` makes of the text at `location`, remembered like the text itself; `form` names what `make` does.

        Raises what `read` raises.
        """
        made = self._cache.get((check, location, form))
        if made is None:
            made = make(self.read(location, check))
            if is_immutable(location):
                self._cache.put((check, location, form), made, len(made))
        return bytes(made)

    def read_foreign(self, location: str) -> bytes:
        """As `read`, for a file that no commit names yet: it is not checked, nor cached, since it may be changed."""
        location = self.warehouse.check(location, FIELD)
        try:
            raw = self._fetch(location)
        except BadRequest:
            raise
        except FileNotFoundError:
            raise MetadataUnavailable(f"The metadata file {location} does not exist.") from None
        except Exception as error:  # file systems raise the exceptions of their libraries
            raise MetadataUnavailable(f"The metadata file {location} cannot be read: {error}") from error
        return _unpack(raw, location)

    def write(self, location: str, data: bytes, check: Check) -> None:
        """Create the file at `location` with what `check` has passed; gzip-compressed when its name says so.

        MetadataUnavailable on failure; BadRequest outside the allowed places.
        """
        location = self.warehouse.check(location, FIELD)
        packed = _gzip(data) if ".gz." in location.rpartition("/")[2] else data
        try:
            if location.startswith(_LOCAL):
                _write_local(*_follow_links(location, self.warehouse), packed)
            else:
                FileSystem(location, self.s3).create(packed)
        except BadRequest:
            raise
        except Exception as error:
            raise MetadataUnavailable(f"The metadata file {location} cannot be written: {error}") from error
        self._cache.put((check, location), data, len(data))

    def check_links(self, places: Iterable[tuple[str, str]]) -> None:
        """BadRequest unless each folder, given with the field that names it, is allowed once links are followed."""
        for field, place in places:
            location = self.warehouse.check(place, field)
            if location.startswith(_LOCAL):
                _follow_links(location, self.warehouse, field)

    def prepare(self, location: str) -> None:
        """On a local disk, create the folder of the file that will be at `location`; MetadataUnavailable on failure."""
        location = self.warehouse.check(location, FIELD)
        if location.startswith(_LOCAL):
            path, _ = _follow_links(location, self.warehouse)
            try:
                _make_folders(os.path.dirname(path))
            except OSError as error:
                raise MetadataUnavailable(f"The folder of {location} cannot be created: {error}") from error

    def discard(self, location: str) -> None:
        """Delete a file that no commit names.  A failure is only logged: the garbage collector finds the file."""
        try:
            location = self.warehouse.check(location, FIELD)
            if location.startswith(_LOCAL):
                os.unlink(_follow_links(location, self.warehouse)[0])
            else:
                FileSystem(location, self.s3).remove()
        except Exception as error:
            _log.warning("could not delete the unused metadata file %s: %s", location, error)

    def _fetch(self, location: str) -> bytes:
        if location.startswith(_LOCAL):
            return _read_local(_follow_links(location, self.warehouse)[0])
        return FileSystem(location, self.s3).read(MAX_METADATA_BYTES + 1)


def _follow_links(location: str, warehouse: Warehouse, field: str = FIELD) -> tuple[str, str]:
    """The path of a local file without symbolic links, and that of the allowed folder which holds it; BadRequest."""
    path = os.path.realpath(location.removeprefix(_LOCAL))
    for root in warehouse.roots:
        folder = os.path.realpath(root.removeprefix(_LOCAL) or "/")
        if root.startswith(_LOCAL) and f"{path}/".startswith(folder.rstrip("/") + "/"):
            return path, folder
    raise BadRequest(f"{field}: '{location[:200]}' lies outside the warehouse: a symbolic link leads out of it.")


def _read_local(path: str) -> bytes:
    # A link put there since the last look is not followed, and nobody waits for the writer of a pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a file")
        return file.read(MAX_METADATA_BYTES + 1)


def _unpack(raw: bytes, location: str) -> bytes:
    if raw.startswith(_GZIP_MAGIC):
        try:
            raw = zlib.decompressobj(_GZIP_WINDOW).decompress(raw, MAX_METADATA_BYTES + 1)
        except zlib.error as error:
            raise MetadataUnavailable(f"The metadata file {location} is not valid gzip: {error}") from error
    if len(raw) > MAX_METADATA_BYTES:
        raise MetadataUnavailable(f"The metadata file {location} is longer than {MAX_METADATA_BYTES} bytes.")
    return raw


def _check_json(data: bytes, location: str) -> None:
    try:
        msgspec.json.decode(data, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MetadataUnavailable(f"The metadata file {location} is damaged: {error}") from error


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=_GZIP_WINDOW)
    return packer.compress(data) + packer.flush()


def _write_local(path: str, root: str, data: bytes) -> None:
    folder = os.path.dirname(path)
    _make_folders(folder)
    with open(path, "xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except OSError:  # such as a full disk
            os.unlink(path)
            raise
    # Up to the warehouse: a folder that was there may be another writer's, who has not synced its entry yet.
    while True:
        _sync_folder(folder)
        if len(folder) <= len(root):
            return
        folder = os.path.dirname(folder)


def _make_folders(folder: str) -> None:
    """Create `folder` and its missing ancestors, each recorded durably in the one above it."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    _make_folders(above)
    try:
        os.mkdir(folder)
    except FileExistsError:
        return  # another writer made it
    _sync_folder(above)


def _sync_folder(folder: str) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
