"""The engine of Spark: live files and listed files meet in a join, neither of them ever on the driver.

On the driver are the live versions (as Arrow, some hundred bytes each), an entry for each table, folder of a table and
fault, and a part of the candidates at a time, on their way to the live-set database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from itertools import islice
from typing import Any

import msgspec
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.utils import is_remote

from nessie_ops.catalog.livefiles import FileKind
from nessie_ops.errors import MachineNotReady
from nessie_ops.gc.bases import Bases
from nessie_ops.gc.expand import Broken, Expansion, Wanted, list_lost
from nessie_ops.gc.spark import scanning
from nessie_ops.gc.spark.facts import BROKEN, FOLDER, LIVE, MISSING, NAMED, OUTSIDE, PATH, make_table
from nessie_ops.gc.spark.frames import Level, count_parts, find_facts, make_objects, make_versions
from nessie_ops.gc.spark.reading import read_metadata, read_objects
from nessie_ops.gc.spark.workers import Opener
from nessie_ops.gc.sweep import Judge, Verdict, group_folders
from nessie_ops.store.livesets import FileRecord, ListingRecord, LiveSets

FOLDERS_PER_TASK = 20  # folders that a task lists, if that makes enough tasks
ROWS_PER_PART = 500_000  # live and listed files that one task of the join compares
CANDIDATES_PER_PART = 100_000  # that are fetched by the driver together
_BATCH = 5000  # candidates recorded by one transaction
_TELL = Callable[[str, int], None]


class SparkEngine:
    """Does one sweep on `spark`; `opener` opens the stores on each worker.  To be closed."""

    def __init__(self, spark: SparkSession, opener: Opener, *, split: int = scanning.SPLIT) -> None:
        self._spark, self._opener, self._split = spark, opener, split
        self._parallelism = _parallelism(spark)
        self._levels: list[Level] = []
        self._kept: list[DataFrame] = []

    def close(self) -> None:
        """Give the workers their disks back."""
        for frame in [level.facts for level in self._levels] + self._kept:
            frame.unpersist()
        self._levels, self._kept = [], []

    # -- expansion ----------------------------------------------------------------------------

    def expand(self, wanted: Iterable[Wanted], *, only_named: bool, progress: _TELL) -> Expansion:
        """Find the live files, and keep their digests on the workers; MachineNotReady when Spark fails."""
        with _explained():
            expansion, self._levels = self._expand(wanted, only_named, progress)
        return expansion

    def find_lost(self, heads: Iterable[Wanted], lost: Collection[str]) -> list[Broken]:
        """As `expand.find_lost`."""
        with _explained():
            found, levels = self._expand(heads, True, lambda step, count: None, frozenset(lost))
            for level in levels:
                level.facts.unpersist()
        return list_lost(found)

    def _expand(
        self, wanted: Iterable[Wanted], only_named: bool, progress: _TELL, lost: frozenset[str] = frozenset()
    ) -> tuple[Expansion, list[Level]]:
        found = Expansion()
        versions = make_versions(self._spark, wanted, self._parallelism)
        first = find_facts(versions, read_metadata(self._opener, lost, only_named=only_named))
        _note(found, first, progress)
        folders = {
            content: frozenset(names | found.paths.get(content, set())) for content, names in found.locations.items()
        }
        read = read_objects(self._opener, lost, folders)
        named = first.named(is_manifest=False)
        lists = make_objects(named, first.count(NAMED), FileKind.MANIFEST_LIST, self._parallelism)
        second = find_facts(lists, read)
        _note(found, second, progress)
        named = first.named(is_manifest=True).unionAll(second.named(is_manifest=True))
        count = sum(level.counts.get((NAMED, str(FileKind.MANIFEST)), 0) for level in (first, second))
        third = find_facts(make_objects(named, count, FileKind.MANIFEST, self._parallelism), read)
        _note(found, third, progress)
        return found, [first, second, third]

    # -- listing ------------------------------------------------------------------------------

    def find(
        self,
        sets: LiveSets,
        number: int,
        judge: Judge,
        bases: Bases,
        todo: Sequence[str],
        progress: _TELL,
    ) -> list[Verdict]:
        """List the bases `todo`, compare with what is live, and record the candidates; MachineNotReady."""
        inner = group_folders(bases)
        folders = [(number, base, base, inner[base]) for number, base in enumerate(todo)]
        verdicts = [Verdict(base) for base in todo]
        with _explained():
            listed, count = self._list(folders, judge, verdicts, progress)
            judged = self._judge(listed, count)
            dead = _tally(judged, verdicts, inner)
            records = (
                FileRecord(row.location, todo[row.base_no], row.size, row.modified) for row in _fetch(judged, dead)
            )
            recorded = 0
            while batch := list(islice(records, _BATCH)):
                sets.add_files(number, batch)
                progress("candidates recorded", recorded := recorded + len(batch))
        done = (verdict for verdict in verdicts if not verdict.error)
        while listings := [_listing_of(verdict) for verdict in islice(done, _BATCH)]:
            sets.add_files(number, [], *listings)
        return verdicts

    def _list(
        self,
        folders: Sequence[tuple[int, str, str, list[str]]],
        judge: Judge,
        verdicts: list[Verdict],
        progress: _TELL,
    ) -> tuple[DataFrame, int]:
        """The files below folders, and their number; errors are noted in the verdicts."""
        scan = scanning.scan(self._opener, judge.blocked, judge.limits, self._split)
        todo, left = self._spark.createDataFrame(make_table(scanning.FOLDERS, folders)), len(folders)
        rounds: list[DataFrame] = []
        files = 0
        while left or not rounds:
            parts = count_parts(left, FOLDERS_PER_TASK, self._parallelism)
            found = (
                todo.repartition(parts)
                .mapInArrow(scan, from_arrow_schema(scanning.LISTED))
                .persist(StorageLevel.DISK_ONLY)
            )
            self._kept.append(found)
            rounds.append(found)
            counts = {row.fact: row["count"] for row in found.groupBy("fact").count().collect()}
            for row in found.where(F.col("fact") == scanning.ERROR).select("base_no", "location").collect():
                verdicts[row.base_no].error = verdicts[row.base_no].error or row.location
            files, left = files + counts.get(scanning.FILE, 0), counts.get(scanning.FOLDER, 0)
            progress("files listed", files)
            todo = found.where(F.col("fact") == scanning.FOLDER).select(
                "base_no", "base", F.col("location").alias("folder"), "inner"
            )
        return reduce(DataFrame.unionAll, rounds).where(F.col("fact") == scanning.FILE), files

    def _judge(self, listed: DataFrame, count: int) -> DataFrame:
        """The listed files with what is to become of them."""
        count += sum(level.count(LIVE) for level in self._levels)
        parts = count_parts(count, ROWS_PER_PART, self._parallelism)
        every = reduce(DataFrame.unionAll, [level.live() for level in self._levels])
        live = every.repartition(parts, "digest").distinct().withColumn("is_live", F.lit(True))
        judged = (
            listed.repartition(parts, "digest")
            .join(live, "digest", "left")
            .withColumn("fate", F.when(F.col("is_live"), "live").otherwise(F.col("fate")))
            .withColumn("location", F.when(F.col("fate") == "dead", F.col("location")))
            .select("base_no", "folder_no", "age", "fate", "size", "modified", "location")
            .persist(StorageLevel.DISK_ONLY)
        )
        self._kept.append(judged)
        return judged


def _note(found: Expansion, level: Level, progress: _TELL) -> None:
    """Add what the driver is told of a level to what was found."""
    for row in level.told:
        if row.fact == MISSING:
            found.missing[row.location] = frozenset(row.owners)
        for owner in row.owners:
            if row.fact == BROKEN:
                found.note(Broken(owner, row.location, row.text))
            elif row.fact in (FOLDER, PATH, OUTSIDE):
                group = {FOLDER: found.locations, PATH: found.paths, OUTSIDE: found.outside}[row.fact]
                group.setdefault(owner, set()).update({row.location} - {""})
            if row.fact == FOLDER:
                found.paths.setdefault(owner, set())
    for kind, (objects, size) in level.reads.items():
        found.reads[kind] = found.reads.get(kind, 0) + objects
        found.read_bytes += size
        progress(f"{kind} files read", found.reads[kind])


def _tally(judged: DataFrame, verdicts: list[Verdict], inner: dict[str, list[str]]) -> int:
    """Add up files by base, folder, age and fate; how many are dead."""
    groups = judged.groupBy("base_no", "folder_no", "age", "fate")
    dead = 0
    for row in groups.agg(F.count(F.lit(1)).alias("files"), F.sum("size").alias("bytes")).collect():
        verdict = verdicts[row.base_no]
        folder = inner[verdict.base][row.folder_no - 1] if row.folder_no else verdict.base
        verdict.add(folder, row.age, row.fate, row.files, row.bytes)
        dead += row.files if row.fate == "dead" else 0
    return dead


def _listing_of(verdict: Verdict) -> ListingRecord:
    return ListingRecord(verdict.base, msgspec.json.encode(verdict).decode())


def _fetch(judged: DataFrame, dead: int) -> Iterator[Any]:
    """The dead files, a part at a time."""
    rows = judged.where(F.col("fate") == "dead").select("location", "base_no", "size", "modified")
    yield from rows.coalesce(max(1, dead // CANDIDATES_PER_PART)).toLocalIterator(prefetchPartitions=True)


def _parallelism(spark: SparkSession) -> int:
    """How many tasks run at a time; for a server that does not tell, the parts of its shuffles."""
    if is_remote():
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(spark.sparkContext.defaultParallelism)


@contextmanager
def _explained() -> Iterator[None]:
    """What Spark says of a failure, without the Java in it."""
    try:
        yield
    except PySparkException as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if "Error:" in line or "Exception:" in line), lines[0] if lines else "")
        raise MachineNotReady(f"Spark failed: {told[:500]}") from error
