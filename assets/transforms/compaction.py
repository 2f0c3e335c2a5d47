"""Small files made into few by Iceberg's procedures, and what a table holds as a number that compaction cannot change.

Works on the reference of the Spark session; deletes no file.  Iceberg's own expiry and removal of files are not used:
references share files, and only the garbage collection knows all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession
    from pyspark.sql.types import StructField

_UNHASHABLE = ("map<", "variant")  # types that Spark has no hash for


@dataclass(frozen=True)
class Thresholds:
    """A data file below `small_file_bytes` is small; `min_small_files` of one partition are made into fewer.

    `min_manifests` manifests that could be half as many are rewritten.
    """

    small_file_bytes: int
    min_small_files: int
    min_manifests: int


@dataclass(frozen=True)
class Layout:
    """Of the current snapshot: data files, their bytes, small ones in the partition that has most, manifests."""

    files: int
    size_bytes: int
    small_files: int
    most_small_files: int
    manifests: int
    wanted_manifests: int

    def is_scattered(self, limits: Thresholds) -> bool:
        """Whether the data files are to be rewritten."""
        return self.most_small_files >= limits.min_small_files

    def has_many_manifests(self, limits: Thresholds) -> bool:
        """Whether the manifests are to be rewritten."""
        return self.manifests >= limits.min_manifests and self.manifests >= 2 * self.wanted_manifests


@dataclass(frozen=True)
class Contents:
    """What a table holds, whatever its files: the rows, and a sum over all rows of a hash of their values."""

    rows: int
    checksum: int


def measure(spark: SparkSession, table: str, limits: Thresholds, manifest_bytes: int) -> Layout:
    """The layout of `table` (quoted); `manifest_bytes` is how large a manifest may become."""
    is_small = f"file_size_in_bytes < {limits.small_file_bytes}"
    parted = "partition" in spark.table(f"{table}.files").columns
    group = "spec_id, partition" if parted else "spec_id"
    row = _first(
        spark,
        f"WITH parts AS (SELECT count(*) AS n, sum(file_size_in_bytes) AS size, count_if({is_small}) AS small "
        f"FROM {table}.files WHERE content = 0 GROUP BY {group}), "
        f"lists AS (SELECT count(*) AS n, coalesce(sum(length), 0) AS size FROM {table}.manifests) "
        "SELECT coalesce(sum(parts.n), 0) AS files, coalesce(sum(parts.size), 0) AS bytes, "
        "coalesce(sum(small), 0) AS small, coalesce(max(small), 0) AS most, "
        "(SELECT n FROM lists) AS manifests, (SELECT size FROM lists) AS manifest_size FROM parts",
    )
    wanted = -(-row["manifest_size"] // manifest_bytes)
    return Layout(row["files"], row["bytes"], row["small"], row["most"], row["manifests"], wanted)


def rewrite_files(spark: SparkSession, table: str, limits: Thresholds, target_bytes: int) -> None:
    """Make the small data files of each partition that has enough of them into files of `target_bytes`."""
    options = {
        "target-file-size-bytes": target_bytes,
        "min-file-size-bytes": min(limits.small_file_bytes, target_bytes * 3 // 4),
        "max-file-size-bytes": 2**62,  # what is large stays as it is
        "min-input-files": limits.min_small_files,
        "remove-dangling-deletes": "true",  # deletes of rows in files that are rewritten
    }
    pairs = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    _call(spark, "rewrite_data_files", f"table => {_text(table)}, options => map({pairs})")


def rewrite_manifests(spark: SparkSession, table: str) -> None:
    """Make the manifests into as few as they fit in."""
    _call(spark, "rewrite_manifests", f"table => {_text(table)}, use_caching => false")


def read_contents(spark: SparkSession, table: str) -> Contents:
    """The contents of `table` (quoted), which is read whole."""
    fields = spark.table(table).schema.fields
    # The hash of a row skips nulls, so where they are is hashed, too.
    values = [_value(field) for field in fields] + [f"isnull({_quote(field.name)})" for field in fields]
    hashed = f"CAST(xxhash64({', '.join(values)}) AS DECIMAL(38, 0))"
    row = _first(spark, f"SELECT count(*) AS n, coalesce(sum({hashed}), 0) AS checksum FROM {table}")
    return Contents(row["n"], int(row["checksum"]))


def quote_name(elements: tuple[str, ...]) -> str:
    """A table's name as SQL reads it."""
    return ".".join(_quote(element) for element in elements)


def _call(spark: SparkSession, procedure: str, arguments: str) -> None:
    spark.sql(f"CALL {_quote(spark.catalog.currentCatalog())}.system.{procedure}({arguments})").collect()


def _value(field: StructField) -> str:
    kind, name = field.dataType.simpleString(), _quote(field.name)
    return f"to_json(named_struct('v', {name}))" if any(word in kind for word in _UNHASHABLE) else name


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _text(table: str) -> str:
    escaped = table.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _first(spark: SparkSession, statement: str) -> Row:
    row = spark.sql(statement).first()
    assert row is not None  # an aggregate has a row
    return row
