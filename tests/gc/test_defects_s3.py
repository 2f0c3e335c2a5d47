"""What nessie-gc gets wrong on S3, each under the name of the defect."""

from __future__ import annotations

from typing import Any

import pytest

from nessie_ops.gc.s3 import S3Files
from nessie_ops.gc.storage import Stores
from nessie_ops.model import IcebergTable
from nessie_ops.store.livesets import LiveSets
from tests.gc.lake import Lake, State
from tests.gc.lakes import Collection, S3Lake
from tests.gc.test_defects import live_files, put


def collection_of(lake: Lake, sets: LiveSets, s3: S3Files, id: str = "id") -> Collection:
    return Collection(lake, sets, stores=Stores({"s3": s3}), id=id)


@pytest.mark.parametrize(("location", "files"), [("s3a", "s3"), ("s3", "s3a"), ("s3n", "s3"), ("S3", "s3n")])
def test_s3_s3a_and_s3n_are_one_store(s3_lake: S3Lake, sets: LiveSets, s3: S3Files, location: str, files: str) -> None:
    """All live files of a table were deleted when its location and its files had not the same scheme."""
    written = s3_lake.append(State("s3://bucket/lake/t".replace("s3", files, 1)), ["one", "two"], statistics=True)
    state = State("s3://bucket/lake/t/".replace("s3", location, 1), True, written.snapshots)
    number = s3_lake.save(State(written.location, True, written.snapshots), None)
    s3_lake.write(number, s3_lake.describe(state))
    s3_lake.put_location("main", "a", number)
    needed = set(s3_lake.list_files())
    junk = s3_lake.write("s3://bucket/lake/t/data/junk")
    assert collection_of(s3_lake, sets, s3).run() == {junk}
    assert set(s3_lake.list_files()) == needed


def test_blanks_and_percent_signs_in_keys(s3_lake: S3Lake, sets: LiveSets, s3: S3Files) -> None:
    put(s3_lake, "a", "a b/%3A", ["p=x%3A y/part", "ü ?#", "100%", "p=a:b"])
    needed = set(s3_lake.list_files())
    junk = {s3_lake.write(f"{s3_lake.root}/a b/%3A/data/{name}") for name in ("p=x%3A y/junk", "junk %20", "p=x: y")}
    assert collection_of(s3_lake, sets, s3).run() == junk
    assert set(s3_lake.list_files()) == needed


def test_the_root_of_a_bucket_as_location(s3_lake: S3Lake, sets: LiveSets, s3: S3Files) -> None:
    put(s3_lake, "a", "s3://bucket")
    put(s3_lake, "b", "t")
    foreign = s3_lake.write("s3://bucket/nobody/knows")
    junk = s3_lake.write(f"{s3_lake.root}/t/data/junk")
    assert collection_of(s3_lake, sets, s3).run() == {junk}
    assert collection_of(s3_lake, sets, s3, "all").run(allowed_locations=("s3://bucket",)) == {foreign}


def test_siblings_and_folder_markers_in_a_bucket(s3_lake: S3Lake, sets: LiveSets, s3: S3Files) -> None:
    put(s3_lake, "a", "orders")
    marker = s3_lake.write(f"{s3_lake.root}/orders/data/", b"")
    sibling = s3_lake.write(f"{s3_lake.root}/orders2/data/other")
    junk = s3_lake.write(f"{s3_lake.root}/orders/data/junk")
    assert collection_of(s3_lake, sets, s3).run() == {junk}
    assert {marker, sibling} <= set(s3_lake.list_files())


def test_two_contents_at_one_location_of_a_bucket(s3_lake: S3Lake, sets: LiveSets, s3: S3Files) -> None:
    put(s3_lake, "a", "shared")
    put(s3_lake, "b", "shared")
    junk = s3_lake.write(f"{s3_lake.root}/shared/data/junk")
    assert collection_of(s3_lake, sets, s3).run() == {junk}


def test_metadata_that_is_gone_from_a_bucket(s3_lake: S3Lake, sets: LiveSets, s3: S3Files, client: Any) -> None:
    """NoSuchKey is "collected already" for a version of the past, but not for one that a head shows."""
    put(s3_lake, "a", "t")
    first = s3_lake.content("main", "a")
    put(s3_lake, "b", "u")
    state = s3_lake.state("main", "a")
    assert isinstance(first, IcebergTable) and state is not None
    s3_lake.put("main", "a", s3_lake.append(state, ["x"]))
    client.delete_object(Bucket="bucket", Key=first.metadata_location.partition("bucket/")[2])
    junk = s3_lake.write(f"{s3_lake.root}/t/data/junk")
    assert collection_of(s3_lake, sets, s3).run("NONE") == {junk}
    head = s3_lake.content("main", "a")
    assert head is not None
    client.delete_object(Bucket="bucket", Key=head.metadata_location.partition("bucket/")[2])
    s3_lake.write(f"{s3_lake.root}/t/data/junk")
    other = s3_lake.write(f"{s3_lake.root}/u/data/junk")
    collection = collection_of(s3_lake, sets, s3, "again")
    collection.mark("NONE")
    before = s3_lake.list_files()
    assert list(collection.sweep().expansion.broken) == [str(head.id)]
    assert set(before) - set(s3_lake.list_files()) == {other}
    assert live_files(s3_lake, "b") <= set(s3_lake.list_files())
