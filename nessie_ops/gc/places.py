"""Physical places: one spelling of a location for each file of a store, so that files can be compared.

`s3`, `s3a` and `s3n` are one store; `file:/x`, `file:///x` and `/x` one file; runs of slashes are one slash, and
a folder's last slash does not count.  Nothing is decoded: `%2F` or a blank in a name is part of the name, and
partition values bring them.  Unlike locations that clients give (catalog.locations) nothing is refused for how
it looks, because files are compared here, not opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_SLASHES = re.compile(r"/{2,}")
_SAME_STORE = {  # names of the same bucket or container
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "abfss": "abfs",
    "wasb": "abfs",
    "wasbs": "abfs",
}
_BLOB, _DFS = ".blob.core.", ".dfs.core."  # two hosts of one account of Azure's
_PLAIN = {"s3", "gs"}  # schemes of which a location is its place, if there is nothing odd about its slashes


class NotAPlace(ValueError):
    """A location that names no file of any store: relative, or with `.` or `..` in its path."""


def place_of(location: str) -> str:
    """`scheme://authority/path` of a file or folder, without a trailing slash; NotAPlace."""
    scheme, _, path = location.partition("://")
    if scheme in _PLAIN and "/." not in path and "//" not in path and path[-1:] not in ("", "/") and path[0] != "/":
        return location  # as nearly all are
    match = _URL.fullmatch(location)
    scheme, authority, path = (match[1].lower(), match[2] or "", match[3]) if match else ("file", "", location)
    if not path.startswith("/") and not (match and match[2] is not None and not path):
        raise NotAPlace(f"'{location[:200]}' is not an absolute location")
    if scheme == "file" and authority not in ("", "localhost"):
        raise NotAPlace(f"'{location[:200]}' lies on the host {authority[:80]}")
    path = _SLASHES.sub("/", path).rstrip("/")
    if {".", ".."} & set(path.split("/")):
        raise NotAPlace(f"'{location[:200]}' has a dot as a path element")
    scheme = _SAME_STORE.get(scheme, scheme)
    if scheme == "abfs":
        authority = authority.replace(_BLOB, _DFS)
    return f"{scheme}://{'' if scheme == 'file' else authority}{path}"


def is_within(place: str, folder: str) -> bool:
    """Whether `place` is `folder` or lies below it; both as `place_of` gives them."""
    return place == folder or place.startswith(folder if folder.endswith("/") else folder + "/")


def list_folders(place: str) -> Iterator[str]:
    """`place` and the folders above it, innermost first, down to the root of its store."""
    yield place
    start = place.index("://") + 3
    end = len(place)
    while (end := place.rfind("/", start, end)) >= 0:
        yield place[:end]


def outermost(folders: Iterable[str]) -> list[str]:
    """Those of `folders` that lie in no other, sorted: to list them is to list them all, nothing twice."""
    known = set(folders)
    return sorted(
        place for place in known if not any(above in known for above in list_folders(place) if above != place)
    )
