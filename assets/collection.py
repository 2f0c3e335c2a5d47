"""Garbage collection as assets: mark by shards of references, sweep by shards of folders, check, delete, purge.

All partitions belong to one live set, that of the last `gc_plan`, and one run does many of them: a commit is then
fetched once, and live files are read once, for all.  What a partition has done is in the live set, so one that is
launched again does only what is missing.
"""

from collections.abc import Iterator, Mapping

import dagster as dg
from dagster._core.storage.tags import BACKFILL_ID_TAG

from assets.collection_facts import MAX_NAMED, Facts, of_report, of_verdicts, of_verified
from assets.collection_settings import (
    DeletionConfig,
    PlanConfig,
    PurgeConfig,
    SweepConfig,
    is_as_begun,
    read_policies,
    read_settings,
)
from assets.facts import stopwatch
from assets.runs import remembered
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.gc import expire, report
from nessie_ops.gc import identify as runs
from nessie_ops.gc.ageing import age_out
from nessie_ops.gc.deferred import delete_recorded
from nessie_ops.gc.expire import Hooks, SweepSettings, Swept
from nessie_ops.gc.explain import Explainer
from nessie_ops.gc.identify import MarkSettings
from nessie_ops.gc.shards import Shard
from nessie_ops.gc.sweep import Verdict, read_verdicts
from nessie_ops.gc.verify import keep_revived, verify
from nessie_ops.model.repository import parse_duration
from nessie_ops.store.livesets import LiveSetRecord
from resources.collection import GarbageCollection, Parts, Progress

SHARDS = 8
_STATES = ("deleted", "gone", "kept", "pending", "failed")  # of files, after a deletion
GROUP = "garbage"
LIVE_SET_TAG = "nessie/live_set"
Event = dg.MaterializeResult | dg.AssetMaterialization | dg.AssetObservation
AnyContext = dg.AssetExecutionContext | dg.AssetCheckExecutionContext
shards = dg.StaticPartitionsDefinition([f"{number:02}" for number in range(SHARDS)])


@dg.asset(group_name=GROUP, kinds={"iceberg"}, description="A new live set: every reference pinned at its commit.")
def gc_plan(
    context: dg.AssetExecutionContext, config: PlanConfig, collection: GarbageCollection
) -> dg.MaterializeResult:
    took, id = stopwatch(), context.run.run_id
    keep = parse_duration(config.keep_live_sets, "keep_live_sets")
    with collection.open(context.log.info) as parts:
        policies = read_policies(config, parts)
        for old in age_out(parts.sets, keep, parts.context):
            context.log.info(f"The live set {old} is older than keep_live_sets, and forgotten.")
        record = runs.begin(parts.sets, parts.source, id, MarkSettings(parts.name, policies), parts.context)
        references = parts.sets.list_references(record.number)
    context.instance.add_run_tags(id, {LIVE_SET_TAG: id})
    cutoffs = dg.MetadataValue.json({reference.name: reference.bound for reference in references})
    facts: Facts = {LIVE_SET_TAG: id, "references": len(references), "cutoffs": cutoffs, **took()}
    return dg.MaterializeResult(metadata=facts)


@dg.asset(
    partitions_def=shards,
    deps=[gc_plan],
    backfill_policy=dg.BackfillPolicy.single_run(),
    group_name=GROUP,
    kinds={"iceberg"},
    description="The live versions of tables and views, found from the references of each shard.",
)
def gc_mark(context: dg.AssetExecutionContext, collection: GarbageCollection) -> Iterator[Event]:
    took = stopwatch()
    with collection.open(context.log.info) as parts:
        record, failure = _live_set(context, parts), None
        try:
            if record.status in (runs.IDENTIFY_IN_PROGRESS, runs.IDENTIFY_FAILED):
                mine = [_shard(key) for key in context.partition_keys]
                record = runs.identify(parts.sets, parts.source, record.id, parts.context, mine)
        except Exception as error:
            failure = error
        yield from _finish(context, _marked(context, parts, record), took(), failure)


@dg.asset(
    partitions_def=shards,
    deps=[dg.AssetDep(gc_mark, partition_mapping=dg.AllPartitionMapping())],
    backfill_policy=dg.BackfillPolicy.single_run(),
    output_required=False,  # after a dry run there is nothing to check or delete
    group_name=GROUP,
    kinds={"iceberg"},
    description="The files that nothing needs, found in the folders of each shard and recorded; deletes nothing.",
)
def gc_sweep(context: dg.AssetExecutionContext, config: SweepConfig, collection: GarbageCollection) -> Iterator[Event]:
    took = stopwatch()
    with collection.open(context.log.info) as parts:
        record, failure = _live_set(context, parts), None
        run = _Sweep(context, parts, read_settings(config, parts, record))
        try:
            if record.status != runs.EXPIRY_SUCCESS:
                run.sweep(record)
        except Exception as error:
            failure = error
        if record.figures != "{}" and not is_as_begun(config, parts, record):
            context.log.warning(f"The sweep of this live set has begun with other settings: {record.figures}")
        yield from _finish(context, run.facts(record), took(), failure, is_dry_run=config.dry_run)


@dg.asset_check(asset=gc_sweep, blocking=True, description="No head needs a file that is to be deleted.")
def no_live_candidates(context: dg.AssetCheckExecutionContext, collection: GarbageCollection) -> dg.AssetCheckResult:
    with collection.open(context.log.info) as parts:
        record = _live_set(context, parts)
        found = verify(parts.sets, record, parts.source, parts.stores)
    return dg.AssetCheckResult(passed=not (found.live or found.unsure), metadata=of_verified(found))


@dg.asset_check(asset=gc_sweep, description="Every table could be read, all folders be listed, and no cap was hit.")
def nothing_left_out(context: dg.AssetCheckExecutionContext, collection: GarbageCollection) -> dg.AssetCheckResult:
    with collection.open(context.log.info) as parts:
        record = _live_set(context, parts)
    return dg.AssetCheckResult(passed=not record.error, metadata={"errors": dg.MetadataValue.text(record.error)})


@dg.asset(
    deps=[dg.AssetDep(gc_sweep, partition_mapping=dg.AllPartitionMapping())],
    output_required=False,
    group_name=GROUP,
    kinds={"iceberg"},
    description="The recorded files, deleted, but for those that became reachable or were written anew.",
)
def gc_deleted(
    context: dg.AssetExecutionContext, config: DeletionConfig, collection: GarbageCollection
) -> Iterator[Event]:
    took = stopwatch()
    with collection.open(context.log.info) as parts:
        record = _to_delete(context, config, parts)
        facts, why = _delete(parts, record, config)
    facts = {**facts, **took()}
    if why:
        raise dg.Failure(why, metadata=facts)
    if config.dry_run:
        yield dg.AssetObservation(context.asset_key, metadata=facts)
    else:
        yield dg.MaterializeResult(metadata=facts)


@dg.asset(
    deps=[gc_deleted],
    output_required=False,
    group_name=GROUP,
    description="Our store without commits that no reference needs: after the collection, which looks into history.",
)
def store_purged(
    context: dg.AssetExecutionContext, config: PurgeConfig, collection: GarbageCollection
) -> Iterator[Event]:
    took, grace = stopwatch(), parse_duration(config.grace, "grace")
    with collection.open_store() as versions:
        if versions is None:
            left_out = "the catalog is another server's; set NESSIE_OPS_STORE"
            yield dg.AssetObservation(context.asset_key, metadata={"left_out": left_out})
            return
        done = versions.purge(grace=grace, dry_run=config.dry_run, progress=Progress(context.log.info))
    figures = ("commits", "nodes", "contents", "data_bytes", "live_commits")
    facts = {name: getattr(done, name) for name in figures} | took()
    if config.dry_run:
        yield dg.AssetObservation(context.asset_key, metadata={"dry_run": True, **facts})
    else:
        yield dg.MaterializeResult(metadata=facts)


class _Sweep:
    """A sweep of the shards of one step."""

    def __init__(self, context: dg.AssetExecutionContext, parts: Parts, settings: SweepSettings) -> None:
        self._context, self._parts, self._settings = context, parts, settings
        self._why_not = ""
        self._overall: Facts = {}  # about all shards
        self._verdicts: list[Verdict] | None = None
        self._open: set[str] | None = None  # folders that are still to be listed; None: not known

    def sweep(self, record: LiveSetRecord) -> None:
        """List what is not listed yet; BadRequest names the folders that could not be."""
        parts, settings = self._parts, self._settings
        hooks = Hooks(self._explain, self._report, [_shard(key) for key in self._context.partition_keys])
        tables = parts.open_tables() if settings.expires_snapshots else None
        swept = expire.sweep(parts.sets, record.id, parts.source, parts.stores, settings, parts.context, hooks, tables)
        self._verdicts = swept.verdicts
        self._open = set(swept.bases.listed) - {each.base for each in swept.verdicts if not each.error}
        if unlisted := [f"{each.base}: {each.error}" for each in swept.verdicts if each.error]:
            raise BadRequest(f"These folders could not be listed: {'; '.join(unlisted[:MAX_NAMED])}")

    def facts(self, record: LiveSetRecord) -> dict[str, Facts]:
        """What was found, by partition, of those whose folders have all been listed."""
        if record.status == runs.EXPIRY_SUCCESS:
            self._open = set()
            if (page := self._parts.reports / f"{record.id}.html").exists():
                self._overall = {"report": dg.MetadataValue.path(str(page))}
        verdicts = read_verdicts(self._parts.sets, record.number) if self._verdicts is None else self._verdicts
        found = {}
        for key in self._context.partition_keys:
            shard = _shard(key)
            if self._open is not None and not any(shard.holds(base) for base in self._open):
                mine = [verdict for verdict in verdicts if shard.holds(verdict.base)]
                found[key] = {LIVE_SET_TAG: record.id, **of_verdicts(mine), **self._overall}
        return found

    def _explain(self, swept: Swept) -> None:
        parts, record = self._parts, runs.get_live_set(self._parts.sets, swept.record.id)
        keep_revived(parts.sets, record, parts.source, parts.stores)
        explainer = Explainer(
            parts.stores,
            parts.source,
            only_named=self._settings.only_named,
            also_live=self._settings.expires_snapshots,
            progress=parts.context.progress,
        )
        self._why_not = explainer.explain(parts.sets, record.number).why_not

    def _report(self, swept: Swept) -> None:
        parts = self._parts
        limit = expire.max_modified_at(self._settings, swept.record)
        settings = {
            "maxFileModification": report.format_time(limit),
            "allowedLocations": list(self._settings.allowed_locations),
            "maxDeletions": self._settings.max_files,
            "maxDeletionShare": self._settings.max_share,
            "force": self._settings.is_forced,
            "expireSnapshots": self._settings.expires_snapshots,
            "expireOn": self._settings.expires_on,
        }
        now, is_dry_run = report.format_time(parts.context.now()), self._settings.is_dry_run
        kind, name = ("dry run", f"{swept.record.id}-dry-run") if is_dry_run else ("deferred", swept.record.id)
        found = report.of_sweep(parts.sets, swept, kind, settings, now, self._why_not)
        paths = report.write(found, parts.sets, swept.record.number, parts.reports, name)
        self._overall = {"report": dg.MetadataValue.path(str(paths.html)), **of_report(found, parts.sets, swept)}


def _delete(parts: Parts, record: LiveSetRecord, config: DeletionConfig) -> tuple[Facts, str]:
    """Delete what is recorded; what came of it, and what went wrong, if anything."""
    statuses = (runs.EXPIRY_SUCCESS, runs.EXPIRY_FAILED) if config.force else (runs.EXPIRY_SUCCESS,)
    if record.status not in statuses:
        raise BadRequest(f"live_set: {record.id} is in status {record.status}: {record.error or 'not swept yet'}")
    found = verify(parts.sets, record, parts.source, parts.stores)
    if found.live or found.unsure:
        names = ", ".join((found.live + found.unsure)[:MAX_NAMED])
        raise BadRequest(f"live_set: {record.id} has candidates that heads may need: {names}. Collect anew.")
    outcome = delete_recorded(
        parts.sets,
        record.id,
        parts.source,
        parts.stores,
        parts.context,
        statuses=statuses,
        is_dry_run=config.dry_run,
    )
    facts: Facts = {
        f"files/{state}": outcome.files[state] for state in ("deleted", "gone", "kept", "pending", "failed")
    }
    facts |= {LIVE_SET_TAG: record.id, "freed_bytes": outcome.freed_bytes, "dry_run": config.dry_run}
    if not config.dry_run:
        written = report.format_time(parts.context.now())
        told = report.of_deletion(
            parts.sets, record.number, record.id, record.status, record.created_at, "deferred deletes", written
        )
        paths = report.write(told, parts.sets, record.number, parts.reports, f"{record.id}-deferred-deletes")
        facts["report"] = dg.MetadataValue.path(str(paths.html))
    failed = outcome.files["failed"]
    return facts, expire.describe_broken(outcome.broken) or (f"{failed:,} files could not be deleted" if failed else "")


def _begun(context: AnyContext) -> str | None:
    """The live set that this run, one that it re-executes, or another of the same backfill began or took up."""
    if id := remembered(context.instance, context.run, LIVE_SET_TAG):
        return id
    if backfill := context.run.tags.get(BACKFILL_ID_TAG):
        others = context.instance.get_runs(dg.RunsFilter(tags={BACKFILL_ID_TAG: backfill}))
        return next((run.tags[LIVE_SET_TAG] for run in others if LIVE_SET_TAG in run.tags), None)
    return None


def _live_set(context: AnyContext, parts: Parts) -> LiveSetRecord:
    """The live set that this run is about, otherwise that of the last `gc_plan`."""
    id = _begun(context)
    if id is None:
        event = context.instance.get_latest_materialization_event(gc_plan.key)
        if event is None or event.asset_materialization is None:
            raise BadRequest("There is no live set: launch the job find_garbage, which begins one.")
        id = str(event.asset_materialization.metadata[LIVE_SET_TAG].value)
    if LIVE_SET_TAG not in context.run.tags:
        context.instance.add_run_tags(context.run.run_id, {LIVE_SET_TAG: id})
    return _of_this_catalog(id, parts)


def _to_delete(context: AnyContext, config: DeletionConfig, parts: Parts) -> LiveSetRecord:
    """The live set that a person approved, or that this run found; never one that nobody named."""
    id = config.live_set or _begun(context)
    if not id:
        raise BadRequest("live_set: give the id of the live set whose report was looked at; gc_sweep shows it.")
    return _of_this_catalog(id, parts)


def _of_this_catalog(id: str, parts: Parts) -> LiveSetRecord:
    """A live set; BadRequest when it was marked from another catalog, whose heads would not be looked at here."""
    record = runs.get_live_set(parts.sets, id)
    marked = runs.get_settings(record).source
    if marked.rstrip("/").removesuffix("/api/v2") != parts.name.rstrip("/").removesuffix("/api/v2"):
        raise BadRequest(f"live_set: {id} was marked from {marked}, not from {parts.name}, the catalog of this run.")
    return record


def _shard(key: str) -> Shard:
    return Shard(int(key), SHARDS)


def _marked(context: dg.AssetExecutionContext, parts: Parts, record: LiveSetRecord) -> dict[str, Facts]:
    """What was marked, by partition, of those whose references have all been walked."""
    references = parts.sets.list_references(record.number)
    found: dict[str, Facts] = {}
    for key in context.partition_keys:
        mine = [reference for reference in references if _shard(key).holds(reference.name)]
        if all(reference.is_done for reference in mine):
            commits = sum(reference.commits for reference in mine)
            names = dg.MetadataValue.json([reference.name for reference in mine])
            found[key] = {LIVE_SET_TAG: record.id, "references": len(mine), "commits": commits, "names": names}
    return found


def _finish(
    context: dg.AssetExecutionContext,
    done: Mapping[str, Facts],
    took: Facts,
    failure: Exception | None,
    *,
    is_dry_run: bool = False,
) -> Iterator[Event]:
    """Materialize the partitions that are done; when others are not, or something went wrong, the step fails.

    After a dry run they are only observed.  `took` is said of each, and is that of the step.
    """
    done = {key: {**facts, **took} for key, facts in done.items()}
    left = [key for key in context.partition_keys if key not in done]
    if not (failure or left or is_dry_run):
        for key, facts in done.items():
            context.add_asset_metadata(facts, partition_key=key)
        yield dg.MaterializeResult()
        return
    event = dg.AssetObservation if is_dry_run else dg.AssetMaterialization
    for key, facts in done.items():  # one by one, since the result of a step that fails is none
        yield event(context.asset_key, partition=key, metadata=facts)
    if failure or left:
        known = failure.message if isinstance(failure, NessieOpsError) else repr(failure)
        raise dg.Failure(f"Partitions {', '.join(left) or 'none'} are not done: {known}") from failure


collection_assets = [gc_plan, gc_mark, gc_sweep, gc_deleted, store_purged]
collection_checks = [no_live_candidates, nothing_left_out]
