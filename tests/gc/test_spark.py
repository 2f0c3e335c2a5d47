"""The engine of Spark finds what threads of this process find, on every kind of lake."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nessie_ops.catalog.livefiles import FileKind
from nessie_ops.errors import MachineNotReady
from nessie_ops.gc.expire import Swept
from nessie_ops.gc.policies import Policies
from nessie_ops.gc.properties import Opened
from nessie_ops.gc.spark.engine import SparkEngine
from nessie_ops.gc.spark.facts import BROKEN, NAMED, Facts
from nessie_ops.gc.spark.frames import find_facts
from nessie_ops.store.livesets import FileRecord, ListingRecord, LiveSets
from tests.buckets import Buckets
from tests.gc.lake import HOUR, Lake, State
from tests.gc.lakes import Collection, LocalLake, S3Lake
from tests.gc.test_defects import live_files, put, rewrite
from tests.gc.test_oracle import POLICIES, list_live, step, take_step

pytestmark = pytest.mark.spark
EXAMPLES = int(os.environ.get("NESSIE_OPS_GC_SPARK_EXAMPLES", "2"))
LOCAL = Opened(())


@contextmanager
def engine_on(spark: SparkSession, opener: Any = LOCAL, split: int = 3) -> Iterator[SparkEngine]:
    engine = SparkEngine(spark, opener, split=split)
    try:
        yield engine
    finally:
        engine.close()


class Findings(NamedTuple):
    """What a sweep found, without the order in which it did."""

    candidates: dict[str, FileRecord]
    verdicts: dict[str, Any]
    listings: list[ListingRecord]
    bases: list[str]
    refused: dict[str, str]
    folders: tuple[dict[str, set[str]], dict[str, set[str]]]
    broken: dict[str, Any]
    missing: dict[str, frozenset[str]]
    reads: dict[Any, int]
    read_bytes: int


def findings_of(collection: Collection, swept: Swept) -> Findings:
    number, expansion = swept.record.number, swept.expansion
    return Findings(
        {file.location: file for file in collection.sets.list_files(number)},
        {verdict.base: verdict for verdict in swept.verdicts},
        [row._replace(figures="") for row in collection.sets.list_listings(number)],
        swept.bases.listed,
        swept.bases.refused,
        (expansion.locations, expansion.paths),
        expansion.broken,
        expansion.missing,
        expansion.reads,
        expansion.read_bytes,
    )


def compare(spark: SparkSession, lake: Lake, sets: LiveSets, opener: Any = LOCAL, **settings: Any) -> Findings:
    """Collect with both engines, which must find the same; what is found is then deleted."""
    policy = settings.pop("policy", "1")
    here = Collection(lake, sets, id="here", stores=opener())
    here.mark(policy)
    expected = findings_of(here, here.sweep(is_deferred=True, **settings))
    lake.now -= HOUR  # so that the second mark is made when the first was
    with engine_on(spark, opener) as engine:
        there = Collection(lake, sets, id="there", stores=opener(), engine=engine)
        there.mark(policy)
        found = findings_of(there, there.sweep(is_deferred=True, **settings))
    assert found == expected
    before = set(lake.list_files())
    there.delete_deferred()
    assert before - set(lake.list_files()) == set(found.candidates)
    return found


def test_tables_of_every_kind(spark: SparkSession, local: LocalLake, sets: LiveSets) -> None:
    """Overlapping and moved locations, blanks and percent signs, views, statistics, deletes, old metadata."""
    outer = put(local, "outer", "t", ["a", "b", "c"])
    put(local, "inner", "t/data/inner")
    put(local, "odd", "a b/%3A", ["p=x%3A y/part", "ü ?#", "100%"])
    local.put("main", "view", State(f"{local.root}/view", is_table=False))
    local.put("main", "outer", local.delete(outer, 1))
    moved = put(local, "moved", "old")
    local.put("main", "moved", local.append(State(f"{local.root}/new", True, moved.snapshots), ["x"], statistics=True))
    names = ("t/junk", "t/data/inner/data/junk", "t/data/deep/er/junk", "a b/%3A/junk %20", "new/data/old")
    junk = {local.write(f"{local.root}/{name}") for name in names}
    local.write(f"{local.root}/t2/data/sibling")
    local.now += 2 * HOUR
    local.write(f"{local.root}/t/data/young")
    found = compare(spark, local, sets, policy="NONE", grace=2 * HOUR)
    assert set(found.candidates) == junk
    assert {fate for verdict in found.verdicts.values() for group in verdict.by_age.values() for fate in group} == {
        "live",
        "dead",
        "young",
    }


def test_broken_tables_and_what_is_gone(spark: SparkSession, local: LocalLake, sets: LiveSets) -> None:
    """Each is named with the same reason; the folders of its neighbours stay, the rest goes on."""
    ids = {}
    for key in ("list", "manifest", "garbage", "relative", "shares", "well"):
        place = "manifest" if key == "shares" else key
        state = put(local, key, place)
        ids[key] = str(getattr(local.content("main", key), "id", None))
        snapshot = state.snapshots[-1]
        target = {"list": snapshot.list_location, "manifest": next(iter(snapshot.manifests))}.get(key)
        if target:
            Path(target.removeprefix("file://")).unlink()
        elif key == "garbage":
            local.write(snapshot.list_location, b"Obj\x01 and then nothing")
        elif key == "relative":
            rewrite(local, key, {"metadata-log": [{"metadata-file": "not/absolute"}]})
        local.write(f"{local.root}/{place}/junk")
    put(local, "odd", "odd/../place")
    old = local.content("main", "well")
    local.put("main", "well", local.append(State(f"{local.root}/well"), ["x"]))
    assert old is not None
    Path(old.metadata_location.removeprefix("file://")).unlink()
    found = compare(spark, local, sets, policy="NONE")
    assert {ids[key] for key in ("list", "manifest", "garbage", "relative")} < set(found.broken)
    assert old.metadata_location in found.missing
    assert f"{local.root}/well/junk" in found.candidates
    assert not {name for name in found.candidates if "/manifest/" in name}
    assert live_files(local, "well") - {old.metadata_location} <= set(local.list_files())


def test_s3_and_its_other_names(
    spark: SparkSession, s3_lake: S3Lake, sets: LiveSets, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where S3 is and its keys go to the workers, which have another environment."""
    for name, value in buckets.environment.items():
        monkeypatch.setenv(name, value)
    opener = Opened.here({"s3.path-style-access": "true"})
    monkeypatch.undo()
    assert buckets.secret not in repr(opener)
    written = s3_lake.append(State("s3a://bucket/lake/t"), ["one", "p=x%3A y/two"], statistics=True)
    location = s3_lake.save(State(written.location, True, written.snapshots), None)
    s3_lake.write(location, s3_lake.describe(State("s3n://bucket/lake/t/", True, written.snapshots)))
    s3_lake.put_location("main", "a", location)
    needed = set(s3_lake.list_files())
    keys = ("data/junk", "data/p=x: y/junk", "deep/er/still/junk", "deep/er/still/junk2")
    junk = [s3_lake.write(f"s3://bucket/lake/t/{key}") for key in keys]
    s3_lake.write("s3://bucket/lake/t2/sibling")
    found = compare(spark, s3_lake, sets, opener)
    assert set(found.candidates) == set(junk)
    assert needed <= set(s3_lake.list_files())


def path_of(location: str) -> str:
    """A local file, however it is written."""
    return re.sub("/+", "/", location.removeprefix("file:"))


@settings(max_examples=EXAMPLES, deadline=None, database=None)
@given(
    plan=st.lists(step, min_size=8, max_size=25),
    default=st.sampled_from(POLICIES),
    grace=st.sampled_from([timedelta(0), 3 * HOUR]),
    only_named=st.booleans(),
)
def test_what_is_found_is_what_brute_force_finds(
    spark: SparkSession, plan: list[tuple[str, int, int, int]], default: str, grace: timedelta, only_named: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake, sets = LocalLake(Path(folder).resolve()), LiveSets.open("sqlite://")
        try:
            for each in plan:
                take_step(lake, *each)
            policies = Policies(lake.now + HOUR, default)
            files, bases, _ = list_live(lake, policies, only_named=only_named)
            live = {path_of(file) for file in files}
            folders = tuple(f"{path_of(base).rstrip('/')}/" for base in bases)
            limit = lake.now + HOUR - grace
            dead = {
                location
                for location, changed in lake.list_files().items()
                if changed <= limit and path_of(location) not in live and path_of(location).startswith(folders)
            }
            found = compare(spark, lake, sets, policy=default, grace=grace, only_named=only_named)
            assert set(found.candidates) == dead
        finally:
            sets.close()
            lake.close()


class Dying(LiveSets):
    """Live sets that fail once, after the first candidates were recorded."""

    is_dead = False

    def add_files(self, number: int, files: Iterable[FileRecord], *listed: ListingRecord) -> None:
        if listed and not self.is_dead:
            self.is_dead = True
            raise KeyboardInterrupt
        super().add_files(number, files, *listed)


def test_a_sweep_that_was_cut_short_is_taken_up_by_either_engine(
    spark: SparkSession, local: LocalLake, tmp_path: Path
) -> None:
    put(local, "a", "a")
    put(local, "b", "b")
    junk = {local.write(f"{local.root}/{name}/junk") for name in ("a", "b")}
    sets = Dying.open(f"sqlite:///{tmp_path}/dying.db")
    with engine_on(spark) as engine:
        collection = Collection(local, sets, engine=engine)
        collection.mark()
        with pytest.raises(KeyboardInterrupt):
            collection.sweep()
        assert collection.states() == dict.fromkeys(junk, "pending")
    assert Collection(local, sets).deleted() == junk
    sets.close()


def test_a_file_that_cannot_be_read_a_second_time_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """What a lost worker had found is found again, or nothing is: else its live files would count as dead."""
    marker = str(tmp_path / "was here")

    def task(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        facts = Facts()
        for batch in batches:
            for name in batch.column(0).to_pylist():
                fact = BROKEN if name == "always" or os.path.exists(marker) else NAMED
                facts.add(fact, str(FileKind.MANIFEST), name, ["owner"], "why" if fact == BROKEN else None)
        yield from facts.rest()

    names = spark.createDataFrame([("always",), ("once",)], "location string").coalesce(1)
    level = find_facts(names, task)
    assert [row.location for row in level.told] == ["always"]
    assert [row.location for row in level.named(is_manifest=True).collect()] == ["once"]
    Path(marker).touch()
    level.facts.unpersist(blocking=True)
    with pytest.raises(PySparkException, match="a second time: once"):
        level.named(is_manifest=True).collect()


class Failing:
    """Opens nothing."""

    def __call__(self) -> Any:
        raise ValueError("no store for anybody")


def test_spark_that_fails_is_told_in_one_line(spark: SparkSession, local: LocalLake, sets: LiveSets) -> None:
    put(local, "a", "a")
    with engine_on(spark, Failing()) as engine:
        collection = Collection(local, sets, engine=engine)
        collection.mark()
        with pytest.raises(MachineNotReady, match="ValueError: no store for anybody") as told:
            collection.sweep()
    assert "\n" not in told.value.message
