"""Files of a store: read, listed below a base and deleted, by the location that the store itself uses.

Three kinds: local folders, S3, and whatever else fsspec opens.  A listing gives each file once and is never held
in memory as a whole.  What is not a file (folders, a store's markers of them, symbolic links) is never listed.
`physical` says which locations are one file; it errs on the side of "the same", which keeps files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import fsspec

from nessie_ops.gc.places import place_of

MAX_METADATA_BYTES = 1 << 30  # of a metadata file, list or manifest; ordinary ones have 8 MB


class ListedFile(NamedTuple):
    """A file as its store lists it; `modified_at` is in microseconds since 1970, UTC."""

    location: str
    size_bytes: int
    modified_at: int


class Deleted(NamedTuple):
    """How the deletion of a file ended: `deleted`, `gone` (it was not there any more), or `failed` with the reason."""

    location: str
    state: str
    error: str = ""


class StorageError(Exception):
    """A file that cannot be read, or a folder that cannot be listed, though it may be there."""


class Storage(Protocol):
    """One kind of store.  Safe for threads."""

    def physical(self, location: str) -> str:
        """The place of a file or folder: equal for locations that may be the same file.  NotAPlace."""

    def base(self, location: str) -> str:
        """A folder's location as `list_files` takes it: equal for what gives equal listings.  NotAPlace."""

    def read(self, location: str) -> bytes:
        """The bytes of a file; FileNotFoundError, StorageError."""

    def list_files(self, base: str) -> Iterator[ListedFile]:
        """All files below a folder; none when it is not there.  StorageError."""

    def stat(self, location: str) -> ListedFile | None:
        """A file as it is now; None when it is gone.  StorageError."""

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        """Delete files; raises nothing for a single file."""


class LocalFiles:
    """Files of this machine.  Folders that are reached by symbolic links are one with what they link to."""

    def __init__(self) -> None:
        self._real = lru_cache(maxsize=100_000)(os.path.realpath)

    def physical(self, location: str) -> str:
        path = _path_of(location)
        folder, name = os.path.split(path)
        return f"file://{os.path.join(self._real(folder), name) if name else self._real(folder)}"

    def base(self, location: str) -> str:
        return f"file://{self._real(_path_of(location))}".rstrip("/")

    def read(self, location: str) -> bytes:
        try:
            with open(_path_of(location), "rb") as file:
                return file.read(MAX_METADATA_BYTES)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(location) from error
        except OSError as error:
            raise StorageError(f"{location}: {error.strerror}") from error

    def list_files(self, base: str) -> Iterator[ListedFile]:
        folders = [_path_of(base)]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif entry.is_file(follow_symlinks=False):
                            yield from _stat(entry)
            except FileNotFoundError:
                continue  # deleted meanwhile, or a base that nothing was ever written to
            except OSError as error:
                raise StorageError(f"{folder}: {error.strerror}") from error

    def stat(self, location: str) -> ListedFile | None:
        try:
            found = os.stat(_path_of(location), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"{location}: {error.strerror}") from error
        return ListedFile(location, found.st_size, found.st_mtime_ns // 1000)

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        return [self._delete(location) for location in locations]

    def _delete(self, location: str) -> Deleted:
        try:
            os.unlink(_path_of(location))
        except (FileNotFoundError, NotADirectoryError):
            return Deleted(location, "gone")
        except OSError as error:
            return Deleted(location, "failed", str(error.strerror))
        return Deleted(location, "deleted")


def _stat(entry: os.DirEntry[str]) -> Iterator[ListedFile]:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    yield ListedFile("file://" + entry.path, found.st_size, found.st_mtime_ns // 1000)


def _path_of(location: str) -> str:
    return place_of(location).removeprefix("file://") or "/"


class OtherFiles:
    """Files of a store that fsspec opens by `scheme`; `options` are those of its file system."""

    def __init__(self, scheme: str, **options: Any) -> None:
        self._fs: Any = fsspec.filesystem(scheme, **options)
        self._scheme = scheme

    def physical(self, location: str) -> str:
        return place_of(location)

    def base(self, location: str) -> str:
        return place_of(location)

    def read(self, location: str) -> bytes:
        try:
            return bytes(self._fs.cat_file(self._fs._strip_protocol(location), start=0, end=MAX_METADATA_BYTES))
        except FileNotFoundError:
            raise
        except Exception as error:  # file systems raise the exceptions of their libraries
            raise StorageError(f"{location}: {type(error).__name__}: {str(error)[:200]}") from error

    def list_files(self, base: str) -> Iterator[ListedFile]:
        folders = [self._fs._strip_protocol(base)]
        while folders:
            try:
                rows = self._fs.ls(folders.pop(), detail=True, refresh=True)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise StorageError(f"{base}: {type(error).__name__}: {str(error)[:200]}") from error
            for row in rows:
                if row["type"] == "directory":
                    folders.append(row["name"])
                elif row["type"] == "file" and not row["name"].endswith("/"):
                    yield ListedFile(self._fs.unstrip_protocol(row["name"]), int(row["size"] or 0), _modified(row))

    def stat(self, location: str) -> ListedFile | None:
        try:
            row = self._fs.info(self._fs._strip_protocol(location), refresh=True)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise StorageError(f"{location}: {type(error).__name__}: {str(error)[:200]}") from error
        return ListedFile(location, int(row["size"] or 0), _modified(row))

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        return [self._delete(location) for location in locations]

    def _delete(self, location: str) -> Deleted:
        try:
            self._fs.rm_file(self._fs._strip_protocol(location))
        except FileNotFoundError:
            return Deleted(location, "gone")
        except Exception as error:
            return Deleted(location, "failed", f"{type(error).__name__}: {str(error)[:200]}")
        return Deleted(location, "deleted")


def _modified(row: dict[str, Any]) -> int:
    """When a file was changed; one whose store does not say counts as changed now, so that it is kept."""
    found = next(
        (row[name] for name in ("mtime", "last_modified", "LastModified", "updated", "created") if row.get(name)), None
    )
    if isinstance(found, str):
        found = datetime.fromisoformat(found)
    if isinstance(found, datetime):
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return int((found if found is not None else datetime.now(UTC).timestamp()) * 1_000_000)


class Stores:
    """The storage of each location: `by_scheme` gives those of schemes that are opened in a special way."""

    def __init__(self, by_scheme: dict[str, Storage] | None = None) -> None:
        self._by_scheme: dict[str, Storage] = {"file": LocalFiles()} | (by_scheme or {})

    def of(self, location: str) -> Storage:
        """The storage of a location; NotAPlace."""
        scheme = place_of(location).partition("://")[0]
        if scheme not in self._by_scheme:
            self._by_scheme[scheme] = OtherFiles(scheme)
        return self._by_scheme[scheme]

    def physical(self, location: str) -> str:
        """Equal for locations that may be the same file; NotAPlace."""
        return self.of(location).physical(location)

    def delete(self, locations: Iterable[str]) -> Iterator[Deleted]:
        """Delete files, those of each store together."""
        groups: dict[str, list[str]] = {}
        for location in locations:
            groups.setdefault(location.partition("://")[0], []).append(location)
        for group in groups.values():
            yield from self.of(group[0]).delete(group)
