"""Locations: URLs of files and folders in one normal form, and the warehouse that must hold them all.

Invariant: a location that `Warehouse.check` returns lies at or below the warehouse whoever reads it,
also one who decodes percent-escapes or resolves dots.  Does no I/O, so it does not know symbolic links.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from nessie_ops.errors import BadRequest

MAX_LOCATION = 2048  # characters; object stores end near 1,024 bytes of key
MAX_FOLDER_NAME = 100  # characters; file systems end at 255, of which a table's unique suffix takes 37
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\?#]")
_UNSAFE_IN_NAME = re.compile(r"[^A-Za-z0-9._-]")
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names of the same buckets
_DECODINGS = 4  # a name still changing after so many percent-decodings is an attack, not a name


def normalize(text: str, field: str) -> str:
    """`scheme://authority/path` without a trailing slash; BadRequest naming `field` when that is not safe to do."""
    if not text or len(text) > MAX_LOCATION or _FORBIDDEN.search(text):
        raise BadRequest(
            f"{field}: '{text[:80]}' is not a location (a URL without query, backslash or control character)."
        )
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("file", text)
    scheme = _SAME_STORE.get(scheme, scheme)
    authority, path = "", rest
    if rest.startswith("//"):
        authority, _, path = rest[2:].partition("/")
        path = "/" + path
    if scheme == "file" and authority:
        raise BadRequest(f"{field}: '{text[:80]}' names the host '{authority[:80]}'; write file:///{authority[:80]}/…")
    if not path.startswith("/") or (scheme != "file" and not authority):
        raise BadRequest(
            f"{field}: '{text[:80]}' is not an absolute location such as file:///path or s3://bucket/path."
        )
    names = path.strip("/").split("/") if path.strip("/") else []
    for name in names:
        _check_name(name, text, field)
    return f"{scheme}://{authority}" + "".join("/" + name for name in names)


def _check_name(name: str, text: str, field: str) -> None:
    decoded = name
    for _ in range(_DECODINGS):
        if decoded in ("", ".", "..") or "/" in decoded or _FORBIDDEN.search(decoded):
            raise BadRequest(f"{field}: '{text[:80]}' contains the unsafe path element '{name[:80]}'.")
        decoded, before = unquote(decoded), decoded
        if decoded == before:
            return
    raise BadRequest(f"{field}: '{text[:80]}' contains '{name[:80]}', which is percent-encoded too often.")


def folder_name(element: str) -> str:
    """A folder name that shows a key's element to people; it need not be unique."""
    return _UNSAFE_IN_NAME.sub("_", element)[:MAX_FOLDER_NAME].lstrip(".") or "_"


class Warehouse:
    """The folder or bucket below which every file of the catalog lies."""

    def __init__(self, url: str) -> None:
        self.location = normalize(url, "warehouse")

    def check(self, location: str, field: str) -> str:
        """`location` in normal form; BadRequest unless it lies below the warehouse."""
        normal = normalize(location, field)
        if not normal.startswith(self.location + "/"):
            raise BadRequest(f"{field}: '{location[:200]}' lies outside the warehouse {self.location}.")
        return normal
