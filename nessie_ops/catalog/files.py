"""Metadata files: immutable JSON, read through a cache and written once, on any file system fsspec knows.

Invariants: a file is never overwritten; on a local disk, `write` returns only when the file and its
folder entries would survive a power cut, so a commit that names the file may follow.  What `read`
returns is a JSON object, since it is sent to clients as it is.  Knows no Iceberg.
"""

from __future__ import annotations

import logging
import os
import re
import zlib
from collections.abc import Callable

import fsspec
import msgspec

from nessie_ops.catalog.locations import Warehouse
from nessie_ops.errors import MetadataUnavailable
from nessie_ops.store import Cache

CACHE_BYTES = 64 << 20  # a few thousand tables of ordinary size
MAX_METADATA_BYTES = 256 << 20  # about a million snapshots; more is an attack or a mistake
# Another catalog's `v1.metadata.json` is written anew once its table is dropped; a UUID is never used twice.
_NEVER_REUSED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[^/]*$", re.IGNORECASE)
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = zlib.MAX_WBITS | 16

_log = logging.getLogger(__name__)


class MetadataFiles:
    """The metadata files of one warehouse."""

    def __init__(self, warehouse: Warehouse, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.warehouse = warehouse
        self._cache = Cache(cache_bytes)

    def read(self, location: str) -> bytes:
        """The JSON text at `location`, unpacked; MetadataUnavailable, or BadRequest outside the warehouse."""
        location = self.warehouse.check(location, "metadata-location")
        cached = self._cache.get(location)
        if cached is not None:
            return bytes(cached)
        data = self.read_foreign(location)
        _check_json(data, location)
        if _NEVER_REUSED.search(location):
            self._cache.put(location, data, len(data))
        return data

    def read_as(self, location: str, form: str, make: Callable[[bytes], bytes]) -> bytes:
        """What `make` makes of the text at `location`, remembered like the text itself; `form` names what `make` does.

        Raises what `read` raises.
        """
        made = self._cache.get((location, form))
        if made is None:
            made = make(self.read(location))
            if _NEVER_REUSED.search(location):
                self._cache.put((location, form), made, len(made))
        return bytes(made)

    def read_foreign(self, location: str) -> bytes:
        """As `read`, for a file that no commit names yet: it may still be changed, so it is not cached."""
        location = self.warehouse.check(location, "metadata-location")
        try:
            fs, path = fsspec.url_to_fs(location)
            raw: bytes = fs.cat_file(path, start=0, end=MAX_METADATA_BYTES + 1)
        except FileNotFoundError:
            raise MetadataUnavailable(f"The metadata file {location} does not exist.") from None
        except Exception as error:  # file systems raise the exceptions of their libraries
            raise MetadataUnavailable(f"The metadata file {location} cannot be read: {error}") from error
        return _unpack(raw, location)

    def write(self, location: str, data: bytes) -> None:
        """Create the file at `location`; gzip-compressed when its name says so.  MetadataUnavailable on failure."""
        location = self.warehouse.check(location, "metadata-location")
        packed = _gzip(data) if ".gz." in location.rpartition("/")[2] else data
        try:
            if location.startswith("file://"):
                root = self.warehouse.location.removeprefix("file://")
                _write_local(location.removeprefix("file://"), packed, root)
            else:
                fs, path = fsspec.url_to_fs(location)
                fs.pipe_file(path, packed, mode="create")
        except Exception as error:
            raise MetadataUnavailable(f"The metadata file {location} cannot be written: {error}") from error
        self._cache.put(location, data, len(data))

    def prepare(self, location: str) -> None:
        """On a local disk, create the folder of the file that will be at `location`; MetadataUnavailable on failure."""
        location = self.warehouse.check(location, "metadata-location")
        if location.startswith("file://"):
            try:
                _make_folders(os.path.dirname(location.removeprefix("file://")))
            except OSError as error:
                raise MetadataUnavailable(f"The folder of {location} cannot be created: {error}") from error

    def discard(self, location: str) -> None:
        """Delete a file that no commit names.  A failure is only logged: the garbage collector finds the file."""
        try:
            fs, path = fsspec.url_to_fs(location)
            fs.rm_file(path)
        except Exception as error:
            _log.warning("could not delete the unused metadata file %s: %s", location, error)


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


def _write_local(path: str, data: bytes, root: str) -> None:
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
