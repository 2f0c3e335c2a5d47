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

from nessie_ops.gc.places import NotAPlace, place_of

_HOSTS = {"hdfs", "webhdfs", "viewfs"}  # schemes with a host in front of the path: one cluster has several names
MAX_METADATA_BYTES = 1 << 30  # of a metadata file, list or manifest; ordinary ones have 8 MB


class ListedFile(NamedTuple):
    """A file as its store lists it; `modified_at` is in microseconds since 1970, UTC."""

    location: str
    size_bytes: int
    modified_at: int


class Folder(NamedTuple):
    """A folder as its store lists it, as `list_files` takes it."""

    location: str


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

    def list_level(self, base: str) -> Iterator[ListedFile | Folder]:
        """The same files, but for those in folders that are given instead.  StorageError."""

    def stat(self, location: str) -> ListedFile | None:
        """A file as it is now; None when it is gone.  StorageError."""

    def is_gone(self, location: str) -> bool:
        """Whether a file that could not be found is surely not there: asked anew.  StorageError."""

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        """Delete files; raises nothing for a single file."""


class LocalFiles:
    """Files of this machine.  What is reached by symbolic links is one with what they link to."""

    def __init__(self) -> None:
        self._real = lru_cache(maxsize=100_000)(os.path.realpath)

    def physical(self, location: str) -> str:
        path = _path_of(location)
        folder, name = os.path.split(path)
        found = os.path.join(self._real(folder), name) if name else self._real(folder)
        return f"file://{os.path.realpath(found) if os.path.islink(found) else found}"

    def base(self, location: str) -> str:
        return f"file://{self._real(_path_of(location))}".rstrip("/")

    def read(self, location: str) -> bytes:
        try:
            with open(_path_of(location), "rb") as file:
                return _whole(location, file.read(MAX_METADATA_BYTES + 1))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise FileNotFoundError(location) from error
        except OSError as error:
            raise StorageError(f"{location}: {error.strerror}") from error

    def list_files(self, base: str) -> Iterator[ListedFile]:
        return _descend(self, base)

    def list_level(self, base: str) -> Iterator[ListedFile | Folder]:
        folder = _path_of(base)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        yield Folder("file://" + entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        yield from _stat(entry)
        except FileNotFoundError:
            return  # deleted meanwhile, or a base that nothing was ever written to
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

    def is_gone(self, location: str) -> bool:
        return self.stat(location) is None

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


def _descend(storage: Storage, base: str) -> Iterator[ListedFile]:
    """The files of all levels below a folder."""
    folders = [base]
    while folders:
        for found in storage.list_level(folders.pop()):
            if isinstance(found, Folder):
                folders.append(found.location)
            else:
                yield found


def _path_of(location: str) -> str:
    if "\0" in location:
        raise NotAPlace("a location has a zero byte, which no name of a file has")
    return place_of(location).removeprefix("file://") or "/"


def _whole(location: str, raw: bytes) -> bytes:
    if len(raw) > MAX_METADATA_BYTES:
        raise StorageError(f"{location}: has more than {MAX_METADATA_BYTES:,} bytes")
    return raw


class OtherFiles:
    """Files of a store that fsspec opens by `scheme`; `options` are those of its file system.

    Each host, account or container of a location has a file system of its own.  These name files in a way of their
    own, so what is listed gets the location of the base that it lies below.
    """

    def __init__(self, scheme: str, **options: Any) -> None:
        self._scheme, self._options = scheme, options

    def physical(self, location: str) -> str:
        scheme, _, rest = place_of(location).partition("://")
        authority, slash, path = rest.partition("/")
        if scheme == "abfs":
            authority = authority.partition("@")[0]  # a container, whose account need not be named
        elif scheme in _HOSTS:
            authority = ""
        return f"{scheme}://{authority}{slash}{path}"

    def base(self, location: str) -> str:
        return place_of(location)

    def read(self, location: str) -> bytes:
        fs, path = self._open(location)
        try:
            return _whole(location, bytes(fs.cat_file(path, start=0, end=MAX_METADATA_BYTES + 1)))
        except (FileNotFoundError, StorageError):
            raise
        except Exception as error:  # file systems raise the exceptions of their libraries
            raise _failed(location, error) from error

    def list_files(self, base: str) -> Iterator[ListedFile]:
        return _descend(self, base)

    def list_level(self, base: str) -> Iterator[ListedFile | Folder]:
        fs, root = self._open(base)
        below = root.rstrip("/") + "/"
        try:
            rows = fs.ls(root, detail=True, refresh=True)
        except FileNotFoundError:
            return
        except Exception as error:
            raise _failed(base, error) from error
        for row in rows:
            name = str(row["name"])
            if not name.startswith(below):
                if row["type"] == "directory" and name.rstrip("/") + "/" == below:
                    continue  # the folder itself
                raise StorageError(f"{base}: the file system lists {name[:200]}, which is not below {below}")
            location = f"{base.rstrip('/')}/{name[len(below) :]}"
            if row["type"] == "directory":
                yield Folder(location.rstrip("/"))
            elif row["type"] == "file" and not name.endswith("/"):
                yield ListedFile(location, int(row["size"] or 0), _modified(row))

    def stat(self, location: str) -> ListedFile | None:
        fs, path = self._open(location)
        try:
            row = fs.info(path, refresh=True)
        except FileNotFoundError:
            return None
        except Exception as error:
            raise _failed(location, error) from error
        return ListedFile(location, int(row["size"] or 0), _modified(row))

    def is_gone(self, location: str) -> bool:
        return self.stat(location) is None

    def delete(self, locations: Sequence[str]) -> list[Deleted]:
        return [self._delete(location) for location in locations]

    def _delete(self, location: str) -> Deleted:
        try:
            fs, path = self._open(location)
            fs.rm_file(path)
        except FileNotFoundError:
            return Deleted(location, "gone")
        except StorageError as error:
            return Deleted(location, "failed", str(error))
        except Exception as error:
            return Deleted(location, "failed", str(_failed(location, error)))
        return Deleted(location, "deleted")

    def _open(self, location: str) -> tuple[Any, str]:
        """The file system of a location, and the name that it has there; StorageError."""
        place = place_of(location)
        try:
            kind: Any = fsspec.get_filesystem_class(self._scheme)
            # The location's own host or account comes first: another one has other files of the same names.
            return kind(**self._options | kind._get_kwargs_from_urls(place)), str(kind._strip_protocol(place))
        except Exception as error:  # no such file system, or its package, its credentials, its host
            raise _failed(location, error) from error


def _failed(location: str, error: Exception) -> StorageError:
    return StorageError(f"{location}: {type(error).__name__}: {str(error)[:200]}")


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
