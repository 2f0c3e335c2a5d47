"""Locations: one normal form, and no way out of the warehouse."""

from __future__ import annotations

import os.path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nessie_ops.catalog.locations import Warehouse, folder_name, normalize
from nessie_ops.errors import BadRequest


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("/data/wh", "file:///data/wh"),
        ("/data/wh/", "file:///data/wh"),
        ("file:/data/wh", "file:///data/wh"),
        ("file:///data/wh", "file:///data/wh"),
        ("FILE:///data/wh", "file:///data/wh"),
        ("file:///", "file://"),
        ("s3://bucket", "s3://bucket"),
        ("s3a://bucket/a b/ü/x%20y", "s3://bucket/a b/ü/x%20y"),
        ("gs://bucket/a=1/b.c..d", "gs://bucket/a=1/b.c..d"),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert normalize(text, "x") == normal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "relative",
        "./x",
        "C:\\data",
        "file:relative",
        "file://host/x",
        "s3:///no-bucket",
        "s3:bucket",
        "/a//b",
        "/a/../b",
        "/a/./b",
        "/a/..",
        "/a/%2e%2e/b",
        "/a/%2E./b",
        "/a/%252e%252e/b",
        "/a/%25252525252e/b",
        "/a/b%2Fc",
        "/a/b%5cc",
        "/a/b%00",
        "/a\nb",
        "/a?b",
        "/a#b",
        "/a\\b",
        "/" + "a" * 3000,
    ],
)
def test_unsafe(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^location: "):
        normalize(text, "location")


@pytest.mark.parametrize("inside", ["/data/wh/x", "file:/data/wh/x/", "file:///data/wh/x"])
def test_inside(inside: str) -> None:
    assert Warehouse("file:///data/wh").check(inside, "location") == "file:///data/wh/x"


@pytest.mark.parametrize("outside", ["/data/wh", "/data/wh2/x", "/data", "s3://data/wh/x", "/data/WH/x", "/etc/passwd"])
def test_outside(outside: str) -> None:
    with pytest.raises(BadRequest, match="outside the warehouse"):
        Warehouse("file:///data/wh").check(outside, "location")


@given(
    st.lists(
        st.sampled_from(["a", ".", "..", "%2e", "%252e", "%2f", "/", "//", "%5c", "\\", "%25", "x.y"]), max_size=12
    )
)
def test_nothing_leads_out(parts: list[str]) -> None:
    """Whoever decodes and resolves what was let in, and however often, stays below the warehouse."""
    try:
        location = Warehouse("/data/wh").check("/data/wh/" + "".join(parts), "location")
    except BadRequest:
        return
    path = location.removeprefix("file://")
    for _ in range(6):
        assert os.path.normpath(path.replace("\\", "/")).startswith("/data/wh/")
        path = unquote(path)


@pytest.mark.parametrize(
    ("element", "folder"),
    [("orders", "orders"), ("a b/c", "a_b_c"), ("..", "_"), (".x", "x"), ("ü%", "__"), ("x" * 400, "x" * 100)],
)
def test_folder_names(element: str, folder: str) -> None:
    assert folder_name(element) == folder
    normalize(f"/data/{folder_name(element)}", "location")
