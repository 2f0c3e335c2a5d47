"""DataFrames of an expansion, level by level: metadata, then manifest lists, then manifests.

Each level is kept on the disks of the workers, so that each object is read once.  A worker that is lost takes its part
with it, which is then read again; a fault that was not there the first time would take live files with it, so it ends
the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from nessie_ops.catalog.livefiles import FileKind
from nessie_ops.gc.expand import Wanted
from nessie_ops.gc.spark.facts import FAULTS, LIVE, NAMED, READ, SCHEMA, TOLD, make_table
from nessie_ops.gc.spark.workers import Task

SPREAD = 8  # tasks over which the objects of one content are spread
PER_TASK = 200  # objects that a task reads, if that makes enough tasks
WANTED = pa.schema(
    [
        ("location", pa.string()),
        ("content", pa.string()),
        ("is_table", pa.bool_()),
        ("snapshots", pa.list_(pa.int64())),
        ("is_whole", pa.bool_()),
        ("has_log", pa.bool_()),
    ]
)
_KNOWN = pa.schema([("fact", pa.string()), ("location", pa.string())])


class Level(NamedTuple):
    """Facts of one level; `told` are those that the driver has, `counts` the number of all by (fact, kind).

    `reads` has the number and the bytes of objects that were read, by kind.
    """

    facts: DataFrame
    told: list[Any]
    counts: Mapping[tuple[str, str | None], int]
    reads: Mapping[FileKind, tuple[int, int]]

    def count(self, fact: str) -> int:
        return sum(count for (name, _), count in self.counts.items() if name == fact)

    def named(self, is_manifest: bool) -> DataFrame:
        """Files that are named by this level, as often as they are."""
        kind = F.col("kind") == FileKind.MANIFEST
        return self._only(NAMED).where(kind if is_manifest else ~kind).select("kind", "location", "owners")

    def live(self) -> DataFrame:
        """Digests of live places, as often as they are named."""
        return self._only(LIVE).select("digest")

    def _only(self, fact: str) -> DataFrame:
        """Facts of one kind; the job that reads them fails if there are faults that the driver was not told of."""
        rows = [(row.fact, row.location) for row in self.told if row.fact in FAULTS]
        known = self.facts.sparkSession.createDataFrame(make_table(_KNOWN, rows)).distinct()
        known = F.broadcast(known.withColumn("is_known", F.lit(True)))
        is_fault = F.col("fact").isin(*FAULTS)
        unheard = F.concat(F.lit("A file could not be read a second time: "), F.col("location"))
        # As one condition, since conditions may change places, and a condition on the fact alone would come first.
        wanted = F.when(is_fault & F.col("is_known").isNull(), F.raise_error(unheard).cast("boolean"))
        return self.facts.join(known, ["fact", "location"], "left").where(wanted.otherwise(F.col("fact") == fact))


def find_facts(objects: DataFrame, task: Task) -> Level:
    """Run a task over objects, once, and look at what it found."""
    facts = objects.mapInArrow(task, from_arrow_schema(SCHEMA)).persist(StorageLevel.DISK_ONLY)
    sums = [F.count(F.lit(1)).alias("rows"), F.sum("files").alias("files"), F.sum("size").alias("size")]
    counts = facts.groupBy("fact", "kind").agg(*sums).collect()
    kinds = ["fact", "kind", "location", "text"]
    told = facts.where(F.col("fact").isin(*TOLD)).groupBy(*kinds).agg(_union("owners").alias("owners"))
    return Level(
        facts,
        told.collect(),
        {(row.fact, row.kind): row.rows for row in counts},
        {FileKind(row.kind): (row.files, row.size) for row in counts if row.fact == READ},
    )


def make_versions(spark: SparkSession, wanted: Iterable[Wanted], parallelism: int) -> DataFrame:
    """The metadata files of live versions, each once, as `read_metadata` takes them."""
    rows = (
        (
            version.metadata_location,
            version.content_id,
            version.is_table,
            [version.snapshot_id, *(version.others or ())],
            version.others is None,
            version.has_log,
        )
        for version in wanted
    )
    table = make_table(WANTED, rows)
    found = (
        spark.createDataFrame(table)
        .groupBy("location")
        .agg(
            F.array_sort(F.collect_set("content")).alias("owners"),
            F.array_distinct(F.flatten(F.collect_list("snapshots"))).alias("snapshots"),
            *(F.max(name).alias(name) for name in ("is_table", "is_whole", "has_log")),
        )
        .withColumns({"kind": F.lit(str(FileKind.METADATA)), "is_read": F.lit(True)})
    )
    return _spread(found, table.num_rows, parallelism)


def make_objects(named: DataFrame, count: int, kind: FileKind, parallelism: int) -> DataFrame:
    """Files that `named` names, each once, as `read_objects` takes them; those of `kind` are to be read."""
    found = named.groupBy("kind", "location").agg(_union("owners").alias("owners"))
    return _spread(found.withColumn("is_read", F.col("kind") == kind), count, parallelism)


def _spread(objects: DataFrame, count: int, parallelism: int) -> DataFrame:
    """Objects over tasks; those of the same contents come together, but for those with very many."""
    spread = F.pmod(F.xxhash64("location"), F.lit(SPREAD))
    parts = count_parts(count, PER_TASK, parallelism)
    return objects.repartition(parts, F.element_at("owners", 1), spread).sortWithinPartitions("owners")


def count_parts(rows: int, per_part: int, parallelism: int) -> int:
    """Into how many parts to divide so many rows: as many as keep all processors busy, or more."""
    return max(1, min(rows, max(2 * parallelism, rows // per_part)))


def _union(column: str) -> Column:
    return F.array_sort(F.array_distinct(F.flatten(F.collect_set(column))))
