"""Locations: URLs of files and folders in one normal form, and the places that must hold them all.

Invariant: a location that `Warehouse.check` returns lies below the warehouse, or in an allowed place, whoever
reads it, also one who decodes percent-escapes or resolves dots.  Does no I/O, so it does not know symbolic links.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import unquote

from nessie_ops.errors import BadRequest

MAX_LOCATION = 2048  # characters; object stores end near 1,024 bytes of key
MAX_FOLDER_NAME = 100  # characters; file systems end at 255, of which a table's unique suffix takes 37
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
# Control characters, line separators and lone surrogates hide what a text says from those who read it.
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\\?#]")
_CHAIN = "::"  # by which fsspec strings file systems together: what follows it is a location of its own
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names of the same buckets
_NOT_STORES = {"http", "https", "ftp", "ftps", "data"}  # by these, whatever the server can reach could be fetched
_BUCKETS = {"s3", "gs", "gcs", "oss"}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9._-]*(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")
_CONTAINERS = {"abfs", "abfss", "wasb", "wasbs"}  # Azure's, whose authority is container@account
_SECRETS = re.compile(r"(?<=//)[^/]*(?=@)|(?<=\?).*", re.DOTALL)
_DECODINGS = 4  # a name still changing after so many percent-decodings is an attack, not a name
# What needs no closer look, since nearly all locations are so: no element begins with a dot.
_PLAIN = re.compile(r"[a-z][a-z0-9]*://[A-Za-z0-9.-]*(/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)+")


def normalize(text: str, field: str) -> str:
    """`scheme://authority/path` without a trailing slash; BadRequest naming `field` when that is not safe to do."""
    if not text or len(text) > MAX_LOCATION or _FORBIDDEN.search(text) or _CHAIN in text:
        raise BadRequest(
            f"{field}: {_shown(text)} is not a location (a URL without query, backslash, '::' or control character)."
        )
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", text)
    scheme = _SAME_STORE.get(scheme, scheme)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, _, path = rest[2:].partition("/")
        path = "/" + path
    if scheme == "file" and authority:
        raise BadRequest(f"{field}: {_shown(text)} names a host; write file:///{authority[:80]}/…")
    if not path.startswith("/") or (scheme != "file" and not authority):
        raise BadRequest(
            f"{field}: {_shown(text)} is not an absolute location such as file:///path or s3://bucket/path."
        )
    if scheme != "file":
        _check_authority(scheme, authority, text, field)
    inner = path[1:].removesuffix("/")  # no more than one: to an object store, s3://b//x is not s3://b/x
    names = inner.split("/") if inner else []
    for name in names:
        _check_name(name, text, field)
    return f"{scheme}://{authority}" + "".join("/" + name for name in names)


def _check_authority(scheme: str, authority: str, text: str, field: str) -> None:
    if scheme in _NOT_STORES:
        raise BadRequest(f"{field}: {_shown(text)} is not in a file system or an object store, such as s3://bucket.")
    if scheme in _BUCKETS:
        sound = bool(_BUCKET.fullmatch(authority)) and authority.lower() != "localhost" and not _is_address(authority)
    else:
        container, at, host = authority.rpartition("@")
        sound = bool(_HOST.fullmatch(host)) and (
            not at or (scheme in _CONTAINERS and bool(_BUCKET.fullmatch(container)))
        )
    if not sound:
        raise BadRequest(
            f"{field}: {_shown(text)} names no bucket: what follows the scheme is an address, or has a password."
        )


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _check_name(name: str, text: str, field: str) -> None:
    decoded = name
    for _ in range(_DECODINGS):
        if decoded in ("", ".", "..") or "/" in decoded or _FORBIDDEN.search(decoded):
            raise BadRequest(f"{field}: {_shown(text)} contains the unsafe path element {_shown(name)}.")
        try:
            decoded, before = unquote(decoded, errors="strict"), decoded
        except UnicodeDecodeError:  # an overlong dot or slash to decoders that are not strict
            raise BadRequest(f"{field}: {_shown(text)} contains {_shown(name)}, which is not UTF-8.") from None
        if decoded == before:
            return
    raise BadRequest(f"{field}: {_shown(text)} contains {_shown(name)}, which is percent-encoded too often.")


def folder_name(element: str) -> str:
    """A folder name that shows a key's element to people; it need not be unique."""
    return _UNSAFE_IN_NAME.sub("_", element)[:MAX_FOLDER_NAME].lstrip(".") or "_"


def _shown(text: str) -> str:
    """The beginning of `text` for a message, without what may be a password or a signature."""
    public = _SECRETS.sub("***", text[:MAX_LOCATION])[:80]
    return f"'{public.encode(errors='replace').decode()}'"


class Warehouse:
    """The folder or bucket below which the files of the catalog lie, and further places that are allowed."""

    def __init__(self, url: str, allowed: Sequence[str] = ()) -> None:
        """BadRequest when one of them is not a safe location, or an allowed one is the root of the file system."""
        self.location = normalize(url, "warehouse")
        self.allowed = tuple(normalize(place, "allowed-location") for place in allowed)
        if "file://" in self.allowed:
            raise BadRequest("allowed-location: 'file:///' would allow every file of this machine; name a folder.")
        self.roots = (self.location, *self.allowed)
        self._below = tuple(f"{root}/" for root in self.roots)

    def check(self, location: str, field: str) -> str:
        """`location` in normal form; BadRequest unless it lies below the warehouse, or at or below an allowed place."""
        if location.startswith(self._below) and len(location) <= MAX_LOCATION and _PLAIN.fullmatch(location):
            return location
        normal = normalize(location, field)
        if not (normal.startswith(self._below) or normal in self.allowed):
            raise BadRequest(
                f"{field}: {_shown(location)} lies outside the warehouse {self.location}"
                f"{' and the other allowed locations' if self.allowed else ''}."
            )
        return normal
