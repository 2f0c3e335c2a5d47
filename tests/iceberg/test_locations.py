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
        "/a/b%zz/%c0%ae%c0%ae/c",
        "/a/b\u2028c",
        "/a/b\ud800c",
        "simplecache::file:///a/b",
        "http://example.org/x",
        "HTTPS://169.254.169.254/latest/meta-data/",
        "ftp://example.org/x",
        "data:/x",
        "s3://169.254.169.254/x",
        "s3://127.0.0.1:9000/x",
        "s3://localhost/x",
        "s3://user:secret@bucket/x",
        "gs://[fd00::1]/x",
        "hdfs://user@host/x",
        "abfss://container:secret@account.dfs.core.windows.net/x",
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


@pytest.mark.parametrize(
    "inside", ["/data/wh/x", "s3://a/x", "s3n://a/x", "s3://b/c", "s3a://b/c/d", "abfss://c@acc.dfs.core.windows.net/x"]
)
def test_allowed_besides_the_warehouse(inside: str) -> None:
    allowed = ("s3a://a/", "s3://b/c", "abfss://c@acc.dfs.core.windows.net")
    assert Warehouse("/data/wh", allowed).check(inside, "location") == normalize(inside, "location")
    for outside in (
        "s3://a2/x",
        "s3://b/c2",
        "s3://b",
        "gs://a/x",
        "/data/wh2/x",
        "abfss://d@acc.dfs.core.windows.net/x",
    ):
        with pytest.raises(BadRequest, match="and the other allowed locations"):
            Warehouse("/data/wh", allowed).check(outside, "location")


@pytest.mark.parametrize("allowed", ["", "x", "file:///", "/a/../b", "http://example.org/x", "s3://169.254.169.254"])
def test_what_may_not_be_allowed(allowed: str) -> None:
    with pytest.raises(BadRequest, match=r"^allowed-location: "):
        Warehouse("/data/wh", [allowed])


def test_messages_hold_no_secret() -> None:
    for text in ("s3://key:secret@bucket/x", "s3://bucket/x?X-Amz-Signature=secret", "hdfs://u:secret@nn/x"):
        with pytest.raises(BadRequest) as caught:
            normalize(text, "location")
        assert "secret" not in caught.value.message


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
