"""Maintenance of main's tables as a job: compacted on a branch of the run's own, compared with what was there, merged.

Invariant: main gets one commit, once, and only of tables whose rows are the same as before.  A table that somebody
changed on main meanwhile stays as that writer left it, is named, and has its turn the next time.  Each step may be
repeated: what it must know is in the branch and in the run's tags.
"""

from collections.abc import Iterator, Sequence

import dagster as dg
from pydantic import Field

from assets.branch import RETRY_TAGS
from assets.code_version import get_code_version
from assets.maintenance import (
    Change,
    Limits,
    Work,
    compare,
    compare_sizes,
    find_broken,
    list_changed,
    list_tables,
    look,
    maintain,
)
from assets.run_branches import BASE, Evidence, open_branch, publish, utc_now, validate
from assets.runs import (
    BASE_TAG,
    BRANCH_TAG,
    VALIDATED_TAG,
    branch_of,
    content_key_of,
    key_of,
    parent_of,
    remembered,
    stop_if_replaced,
)
from assets.transforms.compaction import Thresholds
from assets.transforms.tables import TABLES
from nessie_ops.catalog.markdown import escape, to_table
from nessie_ops.catalog.runwork import RUN_IDS
from nessie_ops.errors import BadRequest
from nessie_ops.gc.rewriting import MAINTENANCE
from nessie_ops.gc.surplus import Times
from nessie_ops.model import CommitHash, ContentKey, NewCommit
from nessie_ops.model.repository import parse_duration
from resources.catalog import CatalogResource
from resources.spark import SparkLake
from resources.tables import TableApi

CHECKS = ("contents_equal", "schema_equal", "pipeline_checks")
_MAX_TOLD = 20  # differences that a failure names
_ASSETS = {content_key_of(table): key_of(table) for table in TABLES.values()}


class MaintenanceConfig(dg.Config):
    """Which tables, when one is worth the work, and what stays listed.

    `tables` and `leave_out` are names or patterns such as `silver.*`; no tables: all.  A partition with
    `min_small_files` data files below `small_file_bytes` is compacted into files of `target_file_bytes` (0: the table's
    property `write.target-file-size-bytes`), manifests when there are `min_manifests`.  Snapshots that are younger than
    `keep_snapshots_for` stay listed, and the `keep_snapshots` newest.  A dry run only tells.
    """

    tables: list[str] = Field(default_factory=list)
    leave_out: list[str] = Field(default_factory=list)
    small_file_bytes: int = Field(32 << 20, gt=0)
    target_file_bytes: int = Field(0, ge=0)
    min_small_files: int = Field(8, ge=2)
    min_manifests: int = Field(50, ge=2)
    keep_snapshots_for: str = "P7D"
    keep_snapshots: int = Field(1, ge=1)
    dry_run: bool = False


def to_limits(config: MaintenanceConfig) -> Limits:
    """The limits of a configuration, at this time; BadRequest names the field that cannot be read."""
    now = utc_now()
    oldest = now - parse_duration(config.keep_snapshots_for, "keep_snapshots_for")
    times = Times(int(oldest.timestamp() * 1000), int(now.timestamp() * 1000), config.keep_snapshots)
    thresholds = Thresholds(config.small_file_bytes, config.min_small_files, config.min_manifests)
    return Limits(thresholds, config.target_file_bytes, times)


@dg.op(out={"report": dg.Out(dg.Nothing), "changed": dg.Out(dg.Nothing, is_required=False)})
def compact_tables(
    context: dg.OpExecutionContext, config: MaintenanceConfig, catalog: CatalogResource, lake: SparkLake
) -> Iterator[dg.Output[None]]:
    limits, client, name = to_limits(config), catalog.client, branch_of(context.run)
    if config.dry_run:
        head = client.get_reference(catalog.main).hash
        works = _work(context, config, catalog, lake, limits, f"{catalog.main}@{head}", head)
        yield dg.Output(None, "report", metadata=_tell(works) | {"dry_run": True})
        return
    opened = open_branch(client, catalog.main, name, [])
    context.instance.add_run_tags(context.run.run_id, {BRANCH_TAG: name, BASE_TAG: opened.base})
    works = _work(context, config, catalog, lake, limits, name, opened.head)
    yield dg.Output(None, "report", metadata=_tell(works) | {"dry_run": False})
    head = client.get_reference(name).hash
    if head == opened.base:
        client.delete_reference(name, head)
        context.log.info(f"There is nothing to maintain on {catalog.main}.")
    else:
        yield dg.Output(None, "changed")


@dg.op(ins={"changed": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
def compare_tables(context: dg.OpExecutionContext, catalog: CatalogResource, lake: SparkLake) -> None:
    client, api = catalog.client, TableApi(catalog)
    branch = client.get_reference(branch_of(context.run))
    base, head = CommitHash(branch.properties[BASE]), branch.hash
    refs = (f"{branch.name}@{base}", f"{branch.name}@{head}")
    keys = list_changed(client, base, head)
    there = client.get_contents(head, [content_key_of(table) for table in TABLES.values()])
    with lake.session(refs[0]) as before, lake.session(refs[1]) as after:
        wrong = [*compare(before, after, api, refs, keys), *find_broken(after, keys, there)]
    if wrong:
        told = "; ".join(wrong[:_MAX_TOLD])
        metadata = {"wrong": dg.MetadataValue.md("\n".join(f"- {escape(line)}" for line in wrong))}
        raise dg.Failure(f"Nothing is published: {told}", metadata=metadata, allow_retries=False)
    commit = validate(client, branch.name, [Evidence(check, head, tuple(keys)) for check in CHECKS])
    context.instance.add_run_tags(context.run.run_id, {VALIDATED_TAG: commit})
    context.add_output_metadata({"nessie/commit": commit, **_sizes(compare_sizes(api, refs, keys))})


@dg.op(ins={"compared": dg.In(dg.Nothing)}, out=dg.Out(dg.Nothing))
def publish_tables(context: dg.OpExecutionContext, catalog: CatalogResource) -> None:
    client, run = catalog.client, context.run
    base, validated = (remembered(context.instance, run, tag) for tag in (BASE_TAG, VALIDATED_TAG))
    if base is None or validated is None:
        raise BadRequest("The run has not compared its tables; re-execute all of its steps.")
    keys = list_changed(client, CommitHash(base), CommitHash(validated))
    is_again = parent_of(run) is not None
    stop_if_replaced(context.instance, run)
    done = publish(client, catalog.main, branch_of(run), _message(run, keys), validated, release=is_again, leaves=True)
    if done.left:
        context.log.warning(f"Changed on {catalog.main} meanwhile, and left as they are: {', '.join(done.left)}.")
    published = [key for key in keys if str(key) not in done.left]
    facts: dict[str, dg.MetadataValue | str | int] = {"left_out": ", ".join(done.left), "tables": len(published)}
    if published:
        changes = compare_sizes(
            TableApi(catalog), (f"{catalog.main}@{base}", f"{catalog.main}@{done.commit}"), published
        )
        facts |= {"nessie/commit": done.commit, "nessie/target": catalog.main, **_sizes(changes)}
        for change in changes:
            if change.key in _ASSETS:
                context.log_event(_observe(change, done.commit, catalog.main))
    context.add_output_metadata(facts)


@dg.job(
    tags=RETRY_TAGS,
    executor_def=dg.in_process_executor,
    description="Compact tables and take old snapshots off their lists, on a branch; merged when the rows are equal.",
)
def maintain_tables() -> None:
    _, changed = compact_tables()
    publish_tables(compare_tables(changed))


def _work(
    context: dg.OpExecutionContext,
    config: MaintenanceConfig,
    catalog: CatalogResource,
    lake: SparkLake,
    limits: Limits,
    ref: str,
    at: CommitHash,
) -> dict[ContentKey, Work]:
    """What was, or in a dry run would be, done to each table, by its key."""
    api, works = TableApi(catalog), dict[ContentKey, Work]()
    keys = list_tables(catalog.client, at, config.tables, config.leave_out)
    with lake.session(ref) as spark:
        for number, key in enumerate(keys, start=1):
            try:
                act = look if config.dry_run else maintain
                works[key] = act(spark, api, ref, key, limits)
            except Exception as error:
                first = (str(error).strip() or repr(error)).splitlines()[0]
                raise dg.Failure(f"{key}: {first}  Mend it, or name it in leave_out.", allow_retries=False) from error
            context.log.info(f"{number} of {len(keys)}: {key}: {works[key]}")
    return works


def _message(run: dg.DagsterRun, keys: Sequence[ContentKey]) -> NewCommit:
    return NewCommit(
        message=f"Maintain {len(keys)} tables (run {run.run_id[:8]} of {run.job_name})",
        properties={
            RUN_IDS[0]: (run.run_id,),
            "nessie_ops.job": (run.job_name,),
            MAINTENANCE: ("compact", "expire snapshots"),
            "nessie_ops.checks": tuple(f"{check} passed" for check in CHECKS),
            "nessie_ops.code_version": (get_code_version(),),
        },
    )


def _tell(works: dict[ContentKey, Work]) -> dict[str, dg.MetadataValue | int | bool]:
    rows = [
        (key, *(f"{n:,}" for n in (found.files, found.size_bytes, found.small_files, found.manifests)), work)
        for key, work in works.items()
        if work and (found := work.layout)
    ]
    head = ("table", "files", "bytes", "small", "manifests", "to do")
    return {
        "tables/looked_at": len(works),
        "tables/to_do": len(rows),
        "files": sum(work.layout.files for work in works.values()),
        "bytes": sum(work.layout.size_bytes for work in works.values()),
        "work": dg.MetadataValue.md(to_table(head, rows) if rows else "nothing to do"),
    }


def _sizes(changes: Sequence[Change]) -> dict[str, dg.MetadataValue | int]:
    rows = [
        (key, *(f"{getattr(size, name):,}" for name in ("files", "size_bytes", "snapshots") for size in (old, new)))
        for key, old, new in changes
    ]
    head = ("table", "files", "after", "bytes", "after", "snapshots", "after")
    return {
        "files/before": sum(change.before.files for change in changes),
        "files/after": sum(change.after.files for change in changes),
        "bytes/before": sum(change.before.size_bytes for change in changes),
        "bytes/after": sum(change.after.size_bytes for change in changes),
        "changed": dg.MetadataValue.md(to_table(head, rows)),
    }


def _observe(change: Change, commit: CommitHash, main: str) -> dg.AssetObservation:
    facts = {
        f"{name}/{when}": getattr(size, name)
        for name in ("files", "size_bytes", "rows", "snapshots")
        for when, size in (("before", change.before), ("after", change.after))
    }
    metadata = {"operation": "maintenance", "nessie/commit": commit, "nessie/target": main, **facts}
    return dg.AssetObservation(_ASSETS[change.key], metadata=metadata)
