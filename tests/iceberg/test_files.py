"""Metadata files: written once and durably, read through a bounded cache, on local and other file systems."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nessie_ops.catalog import files as files_module
from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.catalog.stores import FileSystem
from nessie_ops.errors import BadRequest, MetadataUnavailable
from tests.buckets import Buckets

UUID = "0b9f5b8e-6c0c-4a8e-8a39-6a8f3c1d2e4f"


def check_nothing(_raw: bytes, _name: str, _warehouse: Warehouse) -> None:
    """A check that refuses nothing."""


@pytest.fixture(params=["file", "memory", "s3"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> MetadataFiles:
    """On the local disk, and on file systems that are reached through fsspec alone."""
    if request.param == "s3":
        aws: Buckets = request.getfixturevalue("aws")
        return MetadataFiles(Warehouse(f"s3a://{aws.create()}/wh"), aws.settings)
    url = tmp_path.as_uri() if request.param == "file" else f"memory://bucket/{tmp_path.name}"
    return MetadataFiles(Warehouse(url))


def again(files: MetadataFiles, **options: int) -> MetadataFiles:
    """The same files, with a cache of its own."""
    return MetadataFiles(files.warehouse, files.s3, **options)


@pytest.fixture
def location(files: MetadataFiles) -> str:
    return f"{files.warehouse.location}/db/t/metadata/00000-{UUID}.metadata.json"


def stored(files: MetadataFiles, location: str) -> bytes:
    return FileSystem(location, files.s3).read(10_000)


def test_round_trip(files: MetadataFiles, location: str) -> None:
    files.write(location, b"{}", check_nothing)
    assert files.read(location, check_nothing) == b"{}"
    assert stored(files, location) == b"{}"
    assert again(files).read(location, check_nothing) == b"{}"


def test_compressed(files: MetadataFiles) -> None:
    location = f"{files.warehouse.location}/t/metadata/00000-a.gz.metadata.json"
    data = b'{"a": "' + b"x" * 2000 + b'"}'
    files.write(location, data, check_nothing)
    assert len(stored(files, location)) < 200
    assert again(files).read(location, check_nothing) == data


def test_never_overwritten(files: MetadataFiles, location: str) -> None:
    files.write(location, b"first", check_nothing)
    with pytest.raises(MetadataUnavailable):
        files.write(location, b"second", check_nothing)
    assert stored(files, location) == b"first"


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that could not be written whole is not there."""

    def refuse(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "t" / "a.json"
    path.parent.mkdir()
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(MetadataUnavailable, match="No space left"):
        MetadataFiles(Warehouse(tmp_path.as_uri())).write(path.as_uri(), b"{}", check_nothing)
    assert not path.exists()


def test_missing(files: MetadataFiles, location: str) -> None:
    with pytest.raises(MetadataUnavailable, match="does not exist"):
        files.read(location, check_nothing)


def test_discard(files: MetadataFiles, location: str) -> None:
    files.write(location, b"{}", check_nothing)
    files.discard(location)
    with pytest.raises(FileNotFoundError):
        stored(files, location)
    files.discard(location)  # what is gone is no error


def test_only_in_the_warehouse(files: MetadataFiles) -> None:
    for outside in ("/etc/passwd", f"{files.warehouse.location}/../x", "http://example.org/x"):
        with pytest.raises(BadRequest, match="metadata-location"):
            files.read(outside, check_nothing)
        with pytest.raises(BadRequest, match="metadata-location"):
            files.write(outside, b"", check_nothing)


def test_a_second_read_needs_no_file(files: MetadataFiles, location: str) -> None:
    files.write(location, b"{}", check_nothing)
    other = again(files)
    other.read(location, check_nothing)
    other.discard(location)
    assert other.read(location, check_nothing) == b"{}"
    with pytest.raises(MetadataUnavailable):
        other.read_foreign(location)


def test_a_name_that_may_be_used_again_is_read_again(files: MetadataFiles) -> None:
    """Other catalogs number their files: dropped and created again, a table has another `v1.metadata.json`."""
    location = f"{files.warehouse.location}/t/metadata/v1.metadata.json"
    reader = again(files)
    for data in (b'{"a": 1}', b'{"a": 2}'):
        files.write(location, data, check_nothing)
        assert reader.read(location, check_nothing) == data
        files.discard(location)


@pytest.mark.parametrize("damage", [b"", b'{"a', b"[]", b"\xff", b'{"a": "\xff"}', b"PAR1", b'{"a":' * 5000])
def test_damaged(files: MetadataFiles, location: str, damage: bytes) -> None:
    """What is not JSON is never sent to a client as if it were."""
    files.write(location, damage, check_nothing)
    with pytest.raises(MetadataUnavailable, match="is damaged"):
        again(files).read(location, check_nothing)


def test_the_cache_is_bounded(files: MetadataFiles, location: str) -> None:
    small = again(files, cache_bytes=1000)
    small.write(location, b"x" * 2000, check_nothing)
    small.discard(location)
    with pytest.raises(MetadataUnavailable):
        small.read(location, check_nothing)


def test_too_long(files: MetadataFiles, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_METADATA_BYTES", 100)
    packed = f"{files.warehouse.location}/t/metadata/00000-a.gz.metadata.json"
    for place in (location, packed):
        files.write(place, b"x" * 101, check_nothing)
        with pytest.raises(MetadataUnavailable, match="longer than 100 bytes"):
            files.read_foreign(place)


def test_durable_before_it_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and every folder entry that leads to it are synced, also where another writer made the folder."""
    synced: list[str] = []
    fsync = os.fsync

    def observed(handle: int) -> None:
        synced.append(os.path.realpath(f"/dev/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", observed)
    (tmp_path / "db").mkdir()  # by a writer who did not come to sync its entry
    MetadataFiles(Warehouse(tmp_path.as_uri())).write(f"{tmp_path}/db/t/a.json", b"{}", check_nothing)
    assert synced == [str(tmp_path / name) for name in ("db", "db/t/a.json", "db/t", "db", "")]
