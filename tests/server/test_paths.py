"""Which path the routes see: one segment per name, whatever the name holds."""

from __future__ import annotations

import pytest

from nessie_ops.server.paths import SLASH, decode_path, restore


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/api/v2/trees/main", "/api/v2/trees/main"),
        ("/api/v2/trees/a%2Fb", f"/api/v2/trees/a{SLASH}b"),
        ("/api/v2/trees/a%2fb%40x/entries", f"/api/v2/trees/a{SLASH}b@x/entries"),
        ("/api/v2/trees/a/b@/entries", f"/api/v2/trees/a{SLASH}b@/entries"),
        ("/api/v2/trees/a/b%40x/entries", f"/api/v2/trees/a{SLASH}b@x/entries"),
        ("/api/v2/trees/a/b@x", f"/api/v2/trees/a{SLASH}b@x"),
        ("/api/v2/trees/a/b/entries", "/api/v2/trees/a/b/entries"),
        ("/api/v2/trees/a/b@x/history/commit", f"/api/v2/trees/a{SLASH}b@x/history/commit"),
        ("/api/v2/trees/a/b@x/diff/c/d@y", f"/api/v2/trees/a{SLASH}b@x/diff/c{SLASH}d@y"),
        ("/api/v2/trees/a/diff/c/d@y", f"/api/v2/trees/a/diff/c{SLASH}d@y"),
        ("/api/v2/trees/a/diff/b@y", "/api/v2/trees/a/diff/b@y"),
        ("/api/v2/trees/main/contents/a@b", "/api/v2/trees/main/contents/a@b"),
        ("/api/v2/trees/main/contents/a+b%2B%20c", "/api/v2/trees/main/contents/a+b+ c"),
        ("/iceberg/run%2F7/v1/config", f"/iceberg/run{SLASH}7/v1/config"),
        ("/api/v2/trees/", "/api/v2/trees/"),
        ("/", "/"),
    ],
)
def test_a_slash_inside_a_name_is_no_separator(raw: str, path: str) -> None:
    decoded = decode_path(raw.encode())
    assert decoded == path
    assert restore(decoded).count(SLASH) == 0


@pytest.mark.parametrize("raw", ["/api//v2", "//", "/api/v2/trees/%FF", "/a%EE%80%80b", "/api/v2/trees//entries"])
def test_paths_that_nothing_can_match(raw: str) -> None:
    assert decode_path(raw.encode()) is None


def test_a_long_path_is_read_in_linear_time() -> None:
    for tail in ("a/" * 20_000, "@" * 20_000, "a@/" * 10_000, "/diff/a@" * 5_000):
        decode_path(f"/api/v2/trees/x{tail}y".encode())
