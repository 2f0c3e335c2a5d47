"""Files of local folders and of S3 with every kind of name: listed, read and deleted as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nessie_ops.catalog.stores import S3
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.gc.storage import LocalFiles, OtherFiles, Storage, StorageError, Stores

NAMES = ["plain", "a b/%3A%20.parquet", "ü/é#?*", "p=a:b/c=1/x+y&z.parquet", "..hidden", "deep/" * 20 + "x"]


def check(files: Storage, base: str) -> None:
    """Names below `base` are listed with their sizes, can be read as listed, and deleted once."""
    found = sorted(files.list_files(files.base(base + "/")))
    assert [(file.location.removeprefix(files.base(base) + "/"), file.size_bytes) for file in found] == sorted(
        (name, len(name.encode())) for name in NAMES
    )
    assert all(1_700_000_000_000_000 < file.modified_at < 4_000_000_000_000_000 for file in found)
    for file in found:
        name = file.location.removeprefix(files.base(base) + "/")
        assert files.read(file.location) == name.encode()
        looked_at = files.stat(file.location)
        assert looked_at and looked_at.size_bytes == file.size_bytes
        assert looked_at.modified_at // 1_000_000 == file.modified_at // 1_000_000
        assert files.physical(file.location) == files.physical(f"{base}//{name}")
    assert files.stat(f"{base}/nothing") is None
    assert {deleted.state for deleted in files.delete([file.location for file in found])} == {"deleted"}
    assert list(files.list_files(files.base(base))) == []
    with pytest.raises(FileNotFoundError):
        files.read(found[0].location)


def write(folder: Path) -> None:
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def test_local_files(tmp_path: Path) -> None:
    write(tmp_path / "t")
    write(tmp_path / "t2")
    check(LocalFiles(), f"file:{tmp_path}/t")
    assert len(list(LocalFiles().list_files(f"file://{tmp_path}/t2"))) == len(NAMES)


def test_files_by_fsspec(tmp_path: Path) -> None:
    write(tmp_path / "t")
    check(OtherFiles("file"), f"file://{tmp_path}/t")


def test_what_is_gone_or_cannot_be_deleted_is_told(tmp_path: Path) -> None:
    files, folder = LocalFiles(), tmp_path / "folder"
    folder.mkdir()
    (folder / "in").touch()
    states = {name: files.delete([f"file://{tmp_path}/{name}"])[0] for name in ("none", "none/at/all", "folder")}
    assert [states[name].state for name in states] == ["gone", "gone", "failed"]
    assert "directory" in states["folder"].error
    assert list(files.list_files(f"file://{tmp_path}/none")) == []
    with pytest.raises(StorageError):
        files.read(f"file://{folder}")


def test_symbolic_links_are_neither_listed_nor_another_place(tmp_path: Path) -> None:
    """A table that is reached through a link is the table that is linked to."""
    real, files = tmp_path / "real", LocalFiles()
    real.mkdir()
    (real / "f").touch()
    (tmp_path / "alias").symlink_to(real)
    (real / "link").symlink_to(real / "f")
    os.symlink(real, real / "loop")
    assert files.physical(f"{tmp_path}/alias/f") == files.physical(f"file:{tmp_path}/real//f")
    assert files.base(f"{tmp_path}/alias") == f"file://{real}"
    assert [file.location for file in files.list_files(files.base(f"{tmp_path}/alias/"))] == [f"file://{real}/f"]


def test_s3(s3: S3Files, client: Any) -> None:
    for name in NAMES:
        client.put_object(Bucket="bucket", Key=f"w/t/{name}", Body=name.encode())
    client.put_object(Bucket="bucket", Key="w/t2/sibling", Body=b"")
    client.put_object(Bucket="bucket", Key="w/t/marker/", Body=b"")
    check(s3, "s3a://bucket/w/t")
    assert len(list(s3.list_files("s3://bucket/w/t2"))) == 1


def test_keys_of_s3_with_empty_elements(s3: S3Files, client: Any) -> None:
    """Two objects for S3, one file for S3A: each is listed and deleted by its own key, both count as one place."""
    for key in ("t//x", "t/x", "t/a/../x"):
        client.put_object(Bucket="bucket", Key=key, Body=key.encode())
    listed = [file.location for file in s3.list_files("s3://bucket/t")]
    assert listed == ["s3://bucket/t//x", "s3://bucket/t/a/../x", "s3://bucket/t/x"]
    assert s3.read("s3://bucket/t//x") == b"t//x"
    assert s3.physical("s3://bucket/t//x") == s3.physical("s3n://bucket/t/x")
    with pytest.raises(NotAPlace):
        s3.physical("s3://bucket/t/a/../x")
    assert [deleted.state for deleted in s3.delete(["s3://bucket/t//x"])] == ["deleted"]
    assert [file.location for file in s3.list_files("s3://bucket/t")] == listed[1:]


def test_s3_is_asked_in_pages_and_batches(s3: S3Files, client: Any) -> None:
    for n in range(1001):
        client.put_object(Bucket="bucket", Key=f"t/{n:04}", Body=b"")
    listed = [file.location for file in s3.list_files("s3://bucket/t")]
    assert len(listed) == 1001
    deleted = list(Stores({"s3": s3}).delete([*listed, "s3://bucket/t/none"]))
    assert len(deleted) == 1002
    assert s3.requests == {"get": 0, "list": 2, "head": 0, "delete": 2}


def test_a_store_that_does_not_answer_is_no_missing_file(client: Any) -> None:
    nowhere = S3Files(Access(s3=S3(endpoint="http://127.0.0.1:9", path_style=True), key_id="k", secret="hush hush"))
    with pytest.raises(StorageError) as told:
        nowhere.read("s3://bucket/x")
    assert "hush" not in str(told.value)
    with pytest.raises(StorageError):
        list(nowhere.list_files("s3://bucket/x"))
    assert [deleted.state for deleted in nowhere.delete(["s3://bucket/x"])] == ["failed"]
    assert "hush" not in repr(nowhere._access)


def test_a_missing_bucket_is_an_empty_one(s3: S3Files) -> None:
    assert list(s3.list_files("s3://no-such-bucket/x")) == []
    with pytest.raises(FileNotFoundError):
        s3.read("s3://no-such-bucket/x")
