"""URL paths in which a name may contain a slash.

A slash inside a path segment arrives as `%2F`.  ASGI servers decode it before routing, so a reference
`run/7` would become two segments.  `SlashPaths` decodes the raw path itself and puts the private-use
character U+E000 in place of every `%2F`; handlers get names back with `restore`.  For Nessie's API it
does the same for a raw slash in a reference that is followed by `@`, as in `/trees/run/7@/entries`.

Paths that cannot be meant (empty segments, bad UTF-8, a literal U+E000) answer an empty 404; below `/iceberg` an error
that says so.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote_to_bytes

SLASH = "\ue000"
ICEBERG = b"/iceberg/"
UNREADABLE = f"{ICEBERG.decode()}{SLASH}"
"""Stands for every path below `/iceberg` that cannot be meant; no route matches it."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_REF = r"[^/]+|[^@]+@[^@/]*"
_TREES = re.compile(
    rf"/api/v2/trees/(?P<ref>{_REF})"
    rf"(?:/entries|/contents(?:/[^/]+)?|/history(?:/[a-z]+)?|/recent-changes|/properties|/diff/(?P<to>{_REF}))?"
)


def restore(segment: str) -> str:
    """The text of a path parameter as the client meant it, slashes included."""
    return segment.replace(SLASH, "/")


def decode_path(raw: bytes) -> str | None:
    """The path to route by, one segment per parameter; None when no route can match."""
    if b"%" not in raw and b"//" not in raw and raw.isascii():
        return _join_raw_slashes(raw.decode())
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw.split(b"/")]
    except UnicodeDecodeError:
        return None
    if any(SLASH in segment for segment in segments) or "" in segments[1:-1]:
        return None
    path = "/".join(segment.replace("/", SLASH) for segment in segments)
    return _join_raw_slashes(path)


def _join_raw_slashes(path: str) -> str:
    match = _TREES.fullmatch(path) if "@" in path else None
    if not match:
        return path
    for group in ("to", "ref"):  # back to front, so that positions stay true; both keep their length
        if match[group] and "/" in match[group]:
            start, end = match.span(group)
            path = path[:start] + match[group].replace("/", SLASH) + path[end:]
    return path


class SlashPaths:
    """ASGI middleware: routes see one segment per parameter."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = decode_path(scope["raw_path"])
        if path is None and scope["raw_path"].startswith(ICEBERG):
            path = UNREADABLE  # its clients read errors: let the router refuse it
        if path is None:
            await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app({**scope, "path": path}, receive, send)
