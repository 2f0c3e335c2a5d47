"""One spelling for each physical file."""

from __future__ import annotations

import pytest

from nessie_ops.gc.places import NotAPlace, is_within, list_folders, outermost, place_of


@pytest.mark.parametrize(
    ("location", "place"),
    [
        ("s3://b/a/f", "s3://b/a/f"),
        ("s3a://b/a/f", "s3://b/a/f"),
        ("S3N://b//a///f", "s3://b/a/f"),
        ("s3://b/a/", "s3://b/a"),
        ("s3://b", "s3://b"),
        ("s3://b/", "s3://b"),
        ("file:/a/f", "file:///a/f"),
        ("file:///a/f", "file:///a/f"),
        ("file://localhost/a/f", "file:///a/f"),
        ("/a/f", "file:///a/f"),
        ("file:///", "file://"),
        ("file://", "file://"),
        ("s3://b/a b/%3A%20.parquet", "s3://b/a b/%3A%20.parquet"),
        ("s3://b/a:b/c", "s3://b/a:b/c"),
        ("abfss://c@account/x", "abfs://c@account/x"),
    ],
)
def test_one_spelling(location: str, place: str) -> None:
    assert place_of(location) == place


@pytest.mark.parametrize("location", ["", "a/b", "s3:a", "s3://b/../a", "/a/./b", "file://host/a", "file:a"])
def test_what_is_no_place(location: str) -> None:
    with pytest.raises(NotAPlace):
        place_of(location)


def test_siblings_are_not_within() -> None:
    assert is_within("s3://b/orders/f", "s3://b/orders")
    assert is_within("s3://b/orders", "s3://b/orders")
    assert not is_within("s3://b/orders2/f", "s3://b/orders")
    assert is_within("file:///a", "file://")


def test_folders_of_a_place() -> None:
    assert list(list_folders("s3://b/x/y")) == ["s3://b/x/y", "s3://b/x", "s3://b"]
    assert list(list_folders("file:///x/y")) == ["file:///x/y", "file:///x", "file://"]


def test_the_outermost_of_folders() -> None:
    folders = ["s3://b/x/y", "s3://b/x", "s3://b/x2", "s3://c", "s3://c/x", "s3://b/x"]
    assert outermost(folders) == ["s3://b/x", "s3://b/x2", "s3://c"]
    assert outermost(["file://", "file:///a"]) == ["file://"]
