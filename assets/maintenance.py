"""Maintenance of tables on a branch of its own: few files instead of many, old snapshots off the list, the same rows.

A table's rows, schema and properties at the branch's head equal those at its base, or nothing is published.  No file
is deleted here: other references and older commits need them, and the garbage collection knows which.  Knows no
Dagster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from assets.checks import all_rules
from assets.run_branches import NotValidated
from assets.runs import content_key_of
from assets.transforms.audits import Audit, run_audits
from assets.transforms.compaction import (
    Layout,
    Thresholds,
    measure,
    quote_name,
    read_contents,
    rewrite_files,
    rewrite_manifests,
)
from assets.transforms.months import FIRST, LAST, Month
from assets.transforms.rules.bronze import ROWS_MATCH_DELIVERY
from assets.transforms.tables import TABLES
from nessie_ops.catalog.changes import size_of
from nessie_ops.catalog.tablemetadata import TableMetadata
from nessie_ops.client import NessieClient
from nessie_ops.gc.rewriting import list_requirements
from nessie_ops.gc.surplus import Surplus, Times, find_surplus
from nessie_ops.model import CommitHash, ContentKey, ContentType, DiffEntry, IcebergTable
from resources.tables import TableApi

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PAGE = 1_000
_TARGET, _TARGET_BYTES = "write.target-file-size-bytes", 512 << 20  # Iceberg's own default
_MANIFEST, _MANIFEST_BYTES = "commit.manifest.target-size-bytes", 8 << 20


class Limits(NamedTuple):
    """When a table is worth the work; a `target_bytes` of 0 means what the table's own property says."""

    thresholds: Thresholds
    target_bytes: int
    times: Times


class Work(NamedTuple):
    """What is to be done to a table, and its layout before."""

    layout: Layout
    is_scattered: bool
    has_many_manifests: bool
    surplus: Surplus

    def __bool__(self) -> bool:
        return bool(self.is_scattered or self.has_many_manifests or self.surplus)

    def __str__(self) -> str:
        parts = [
            f"{self.layout.small_files:,} of {self.layout.files:,} data files are small" if self.is_scattered else "",
            f"{self.layout.manifests:,} manifests" if self.has_many_manifests else "",
            f"list no longer {self.surplus}" if self.surplus else "",
        ]
        return "; ".join(filter(None, parts)) or "nothing to do"


class Size(NamedTuple):
    """Of a table's current snapshot, as `changes.Size`; `snapshots` are those that its metadata lists."""

    files: int
    size_bytes: int
    rows: int
    snapshots: int


class Change(NamedTuple):
    """A table before and after."""

    key: ContentKey
    before: Size
    after: Size


def list_tables(
    client: NessieClient, at: CommitHash, patterns: Sequence[str], leave_out: Sequence[str]
) -> list[ContentKey]:
    """The tables at a commit whose names match a pattern such as `silver.*` (none: all), and none of `leave_out`.

    Those without a namespace are left out: no engine reaches them.
    """
    found, first = list[ContentKey](), None
    while True:
        page = client.list_entries(at, first=first, limit=_PAGE)
        found += [entry.name for entry in page if entry.type is ContentType.ICEBERG_TABLE and entry.name != first]
        if len(page) < _PAGE:
            break
        first = page[-1].name
    reached = (key for key in found if len(key.elements) > 1)
    return [key for key in reached if _matches(key, patterns or ("*",)) and not _matches(key, leave_out)]


def look(spark: SparkSession, api: TableApi, ref: str, key: ContentKey, limits: Limits) -> Work:
    """What is to be done to a table of the session's reference."""
    metadata = api.load(ref, key)
    manifest_bytes = int(metadata.properties.get(_MANIFEST, _MANIFEST_BYTES))
    layout = measure(spark, quote_name(key.elements), limits.thresholds, manifest_bytes)
    is_scattered, has_many = layout.is_scattered(limits.thresholds), layout.has_many_manifests(limits.thresholds)
    return Work(layout, is_scattered, has_many, _surplus(metadata, limits.times))


def maintain(spark: SparkSession, api: TableApi, branch: str, key: ContentKey, limits: Limits) -> Work:
    """Do it, on a branch; what was to be done.  Done again, there is nothing left to do."""
    work, name = look(spark, api, branch, key, limits), quote_name(key.elements)
    if work.is_scattered:
        target = limits.target_bytes or int(api.load(branch, key).properties.get(_TARGET, _TARGET_BYTES))
        rewrite_files(spark, name, limits.thresholds, target)
    if work.has_many_manifests:
        rewrite_manifests(spark, name)
    if work:
        metadata = api.load(branch, key)  # with the snapshots that were just made
        surplus = _surplus(metadata, limits.times)
        if surplus:
            api.update(branch, key, list_requirements(metadata), surplus.updates())
    return work


def list_changed(client: NessieClient, before: CommitHash, after: CommitHash) -> list[ContentKey]:
    """The tables that differ; NotValidated when something else differs, or a table is not the one that it was."""
    keys, strange = list[ContentKey](), list[ContentKey]()
    for entry in _diff(client, before, after):
        old, new = entry.before, entry.after
        same = isinstance(old, IcebergTable) and isinstance(new, IcebergTable) and old.id == new.id
        (keys if same else strange).append(entry.key)
    if strange:
        raise NotValidated(f"the branch also changed {', '.join(map(str, strange))}, which maintenance never does")
    return keys


def compare(
    before: SparkSession, after: SparkSession, api: TableApi, refs: tuple[str, str], keys: Iterable[ContentKey]
) -> Iterator[str]:
    """What differs between the tables of two sessions on `refs`, one line for each; every table is read whole."""
    for key in keys:
        old, new = (_shape(api.load(ref, key)) for ref in refs)
        for what in (name for name in old if old[name] != new[name]):
            yield f"{key}: its {what} changed"
        rows, others = (read_contents(spark, quote_name(key.elements)) for spark in (before, after))
        if rows.rows != others.rows:
            yield f"{key}: {rows.rows:,} rows became {others.rows:,}"
        elif rows != others:
            yield f"{key}: its {rows.rows:,} rows have other values"


def find_broken(spark: SparkSession, changed: Sequence[ContentKey], there: Iterable[ContentKey]) -> list[str]:
    """The pipeline's blocking rules about changed tables that do not hold, of those that need no delivery."""
    ours = {content_key_of(table): table for table in TABLES.values()}
    present = {ours[key].name for key in there if key in ours}
    touched = {ours[key].name for key in changed if key in ours}
    broken = []
    for month in _months(spark, touched):
        rules = [rule for rule in all_rules(month) if _applies(rule, touched, present)]
        found = run_audits(spark, rules) if rules else []
        broken += [f"{each.audit.label} in {month} ({each.bad_rows:,} rows)" for each in found if not each.passed]
    return broken


def compare_sizes(api: TableApi, refs: tuple[str, str], keys: Iterable[ContentKey]) -> list[Change]:
    """Each table's size at two reference specifications."""
    return [Change(key, *(_size(api.load(ref, key)) for ref in refs)) for key in keys]


def _diff(client: NessieClient, before: CommitHash, after: CommitHash) -> Iterator[DiffEntry]:
    first: ContentKey | None = None
    while True:
        page = client.diff(before, after, first=first, limit=_PAGE)
        yield from (entry for entry in page if entry.key != first)
        if len(page) < _PAGE:
            return
        first = page[-1].key


def _matches(key: ContentKey, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(str(key), pattern) for pattern in patterns)


def _surplus(metadata: TableMetadata, times: Times) -> Surplus:
    # Older commits have metadata of their own, with the snapshot that they show; the specs stay, as they are few.
    return find_surplus(metadata, frozenset(), times, lambda snapshots: None)


def _shape(metadata: TableMetadata) -> Mapping[str, object]:
    json = metadata.json
    return {
        "schema": next(each for each in json["schemas"] if each["schema-id"] == metadata.current_schema_id),
        "partitioning": metadata.default_spec_id,
        "sort order": metadata.default_sort_order_id,
        "format version": metadata.format_version,
        "properties": metadata.properties,
        "location": metadata.location,
    }


def _size(metadata: TableMetadata) -> Size:
    size = size_of(metadata, metadata.current_snapshot_id)
    return Size(size.files, size.size_bytes, size.rows, len(metadata.json["snapshots"]))


def _months(spark: SparkSession, touched: Iterable[str]) -> list[Month]:
    monthly = [name for name in sorted(touched) if TABLES[name].monthly]
    if not monthly:
        return [Month.parse(FIRST)] if touched else []
    parts = " UNION ".join(f"SELECT DISTINCT year, month FROM {name}" for name in monthly)
    found = [Month(row["year"], row["month"]) for row in spark.sql(f"{parts} ORDER BY year, month").collect()]
    return [month for month in found if FIRST <= str(month) <= LAST]


def _applies(rule: Audit, touched: set[str], present: set[str]) -> bool:
    read = {table.name for table in rule.reads}
    return rule.blocking and rule.name != ROWS_MATCH_DELIVERY and bool(read & touched) and read <= present
