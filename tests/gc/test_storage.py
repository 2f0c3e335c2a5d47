"""Files of local folders and of S3 with every kind of name: listed, read and deleted as they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from nessie_ops.catalog.stores import S3
from nessie_ops.gc.places import NotAPlace
from nessie_ops.gc.s3 import Access, S3Files
from nessie_ops.gc.storage import Folder, ListedFile, LocalFiles, OtherFiles, Storage, StorageError, Stores
from nessie_ops.store.livesets import LiveSets
from tests.buckets import moto
from tests.gc.lake import Lake, State
from tests.gc.lakes import Collection, LocalLake
from tests.gc.test_defects import live_files, put, rewrite

NAMES = ["plain", "a b/%3A%20.parquet", "ü/é#?*", "p=a:b/c=1/x+y&z.parquet", "..hidden", "deep/" * 20 + "x", "<&>'\""]


def check(files: Storage, base: str) -> None:
    """Names below `base` are listed with their sizes, can be read as listed, and deleted once."""
    found = sorted(files.list_files(files.base(base + "/")))
    assert [(file.location.removeprefix(files.base(base) + "/"), file.size_bytes) for file in found] == sorted(
        (name, len(name.encode())) for name in NAMES
    )
    assert sorted(walk(files, files.base(base))) == found
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


def walk(files: Storage, folder: str) -> Iterator[ListedFile]:
    """All files, one folder at a time."""
    for entry in files.list_level(folder):
        if isinstance(entry, Folder):
            yield from walk(files, entry.location)
        else:
            yield entry


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


def test_keys_of_s3_with_empty_elements() -> None:
    """Two objects for S3, one file for S3A: each is listed and deleted by its own key, both count as one place."""
    with moto() as buckets:  # versitygw keeps files, which cannot have such names
        bucket = f"s3://{(name := buckets.create())}"
        s3 = S3Files(Access(s3=buckets.settings, key_id=buckets.key, secret=buckets.secret))
        for key in ("t//x", "t/x", "t/a/../x"):
            buckets.client().put_object(Bucket=name, Key=key, Body=key.encode())
        listed = [file.location for file in s3.list_files(f"{bucket}/t")]
        assert listed == [f"{bucket}/t//x", f"{bucket}/t/a/../x", f"{bucket}/t/x"]
        assert [file.location for file in walk(s3, f"{bucket}/t")] == [listed[2], *listed[:2]]
        assert s3.read(f"{bucket}/t//x") == b"t//x"
        assert s3.physical(f"{bucket}/t//x") == s3.physical(f"s3n://{name}/t/x")
        with pytest.raises(NotAPlace):
            s3.physical(f"{bucket}/t/a/../x")
        assert [deleted.state for deleted in s3.delete([f"{bucket}/t//x"])] == ["deleted"]
        assert [file.location for file in s3.list_files(f"{bucket}/t")] == listed[1:]


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


class Account(MemoryFileSystem):
    """A file system that names files without the account and host of their locations, as Azure's and HDFS's do."""

    protocol = "abfs"
    store: ClassVar[dict[str, Any]] = {}
    opened: ClassVar[list[str]] = []

    def __init__(self, host: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.opened.append(host)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return re.sub(r"^abfs://([^@/]*)(@[^/]*)?", r"/\1", path).rstrip("/")

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        found = re.match(r"abfs://[^@/]*@([^/]*)", path)
        return {"host": found[1]} if found else {}


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Account]]:
    monkeypatch.setitem(_registry, "abfs", Account)
    yield Account
    Account.store.clear()


def test_files_are_listed_at_their_tables_account(accounts: type[Account], lake: Lake, sets: LiveSets) -> None:
    """The file system's own names lack it, so that every live file counted as dead."""
    fs, files = accounts(host="a.dfs.core.windows.net"), OtherFiles("abfs")
    table = "abfss://c@a.dfs.core.windows.net/t"
    metadata = f"{table}/metadata/1.metadata.json"
    fs.pipe_file("/c/t/metadata/1.metadata.json", json.dumps({"location": table}).encode())
    fs.pipe_file("/c/t/data/junk", b"")
    for file in fs.store.values():
        file.created = lake.now
    lake.needs[metadata] = State(table)
    lake.put_location("main", "a", metadata)
    assert files.physical(metadata) == files.physical("wasbs://c@a.blob.core.windows.net/t/metadata/1.metadata.json")
    Collection(lake, sets, stores=Stores({"abfs": files})).sweep_all()
    assert list(fs.store) == ["/c/t/metadata/1.metadata.json"]
    assert accounts.opened[-1] == "a.dfs.core.windows.net"
    listed = next(files.list_files(files.base(table)))
    assert listed.location == "abfs://c@a.dfs.core.windows.net/t/metadata/1.metadata.json"


def test_a_file_system_that_lists_other_places_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Astray(Account):
        def ls(self, path: str, detail: bool = True, **options: Any) -> list[dict[str, Any]]:
            return [{"name": "/elsewhere/x", "type": "file", "size": 1}]

    monkeypatch.setitem(_registry, "abfs", Astray)
    with pytest.raises(StorageError, match="not below"):
        list(OtherFiles("abfs").list_files("abfs://c/t"))


def test_hosts_of_one_cluster_are_one_store() -> None:
    """HDFS is reached by a name node, by the name of the service, or by the default of the client."""
    stores = Stores()
    assert len({stores.physical(f"hdfs://{host}/t/x") for host in ("node:8020", "service", "")}) == 1


def test_a_store_that_nobody_can_open_is_told(lake: Lake, sets: LiveSets) -> None:
    """One table in it ended the whole run."""
    put(lake, "a", "t")
    put(lake, "b", "u")
    rewrite(lake, "b", {"location": "nonsense://b/u"})
    junk = lake.write(f"{lake.root}/t/data/junk")
    swept = Collection(lake, sets).sweep_all()
    assert [verdict.base for verdict in swept.verdicts if verdict.error] == ["nonsense://b/u"]
    assert junk not in lake.list_files()


def test_a_live_file_that_is_a_symbolic_link(local: LocalLake, sets: LiveSets) -> None:
    """What it links to lies in a table's folder, where nothing else names it."""
    state = put(local, "a", "t")
    data = next(file for file in live_files(local, "a") if "/data/" in file)
    path = Path(data.removeprefix("file://"))
    path.rename(path.with_name("linked"))
    path.symlink_to("linked")
    junk = local.write(f"{state.location}/data/junk")
    assert Collection(local, sets).run() == {junk}
    assert path.exists()


def test_a_local_name_that_is_no_text(local: LocalLake, sets: LiveSets) -> None:
    """It ended the run."""
    put(local, "a", "t")
    odd = local.folder / "t" / "data" / os.fsdecode(b"\xff")
    odd.touch()
    junk = local.write(f"{local.root}/t/data/junk")
    assert Collection(local, sets).run() == {junk}
    assert odd.exists()


def test_a_location_with_a_zero_byte_breaks_its_table_alone(local: LocalLake, sets: LiveSets) -> None:
    put(local, "a", "a")
    put(local, "b", "b")
    rewrite(local, "a", {"metadata-log": [{"metadata-file": f"{local.root}/a/\0"}]})
    junk = local.write(f"{local.root}/b/data/junk")
    before = set(local.list_files())
    swept = Collection(local, sets).sweep_all()
    assert [row.why for row in swept.expansion.broken.values()] == [
        "NotAPlace: a location has a zero byte, which no name of a file has"
    ]
    assert before - set(local.list_files()) == {junk}


def test_s3_keys_that_no_request_for_many_can_hold(s3: S3Files, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They made the deletion of all others fail.  What a store says is gone is no failure."""
    keys = ["t/a\x01b", "t/plain"]
    for key in keys:
        client.put_object(Bucket="bucket", Key=key, Body=b"")
    listed = [f"s3://bucket/{key}" for key in keys]
    assert [found.state for found in s3.delete(listed)] == ["deleted", "deleted"]
    assert list(s3.list_files("s3://bucket/t")) == []
    answer = {"Errors": [{"Key": "t/plain", "Code": "NoSuchKey", "Message": "gone"}]}
    monkeypatch.setattr(s3._client(), "delete_objects", lambda **_: answer)
    assert [found.state for found in s3.delete(["s3://bucket/t/plain"])] == ["gone"]


def test_s3_that_answers_404_for_another_reason(s3: S3Files, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy whose store is away says so, too: only the store's own words are believed."""
    client.put_object(Bucket="bucket", Key="t/x", Body=b"x")
    client.put_object(Bucket="bucket", Key="t/empty", Body=b"")
    assert [s3.is_gone(f"s3://bucket/t/{name}") for name in ("x", "empty", "none")] == [False, False, True]
    assert s3.is_gone("s3://no-such-bucket/x")
    bare = ClientError({"Error": {"Code": "404", "Message": "Not Found"}}, "GetObject")
    with monkeypatch.context() as patch:
        for method in ("get_object", "list_objects_v2"):
            patch.setattr(s3._client(), method, _raise(bare))
        with pytest.raises(StorageError, match="404"):
            s3.is_gone("s3://bucket/t/x")
        with pytest.raises(StorageError, match="could not be listed"):
            list(s3.list_files("s3://bucket/t"))
    monkeypatch.setattr(s3._client(), "list_objects_v2", lambda **_: {"Contents": [], "IsTruncated": True})
    with pytest.raises(StorageError, match="lists a part"):
        list(s3.list_files("s3://bucket/t"))


def _raise(error: Exception) -> Any:
    def call(**_: Any) -> None:
        raise error

    return call
