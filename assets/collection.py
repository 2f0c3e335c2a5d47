"""Garbage collection as assets: mark by shards of references, sweep by shards of folders, check, delete, purge.

All partitions belong to one live set, that of the last `gc_plan`, and one run does many of them: a commit is then
fetched once, and live files are read once, for all.  What a partition has done is in the live set, so one that is
launched again does only what is missing.
"""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import msgspec
from pydantic import Field

from assets.runs import remembered
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.gc import expire, report
from nessie_ops.gc import identify as runs
from nessie_ops.gc.ageing import age_out
from nessie_ops.gc.deferred import delete_recorded
from nessie_ops.gc.expire import Hooks, SweepSettings, Swept
from nessie_ops.gc.explain import Explainer
from nessie_ops.gc.identify import MarkSettings
from nessie_ops.gc.policies import Policies, from_config, split_options
from nessie_ops.gc.shards import Shard
from nessie_ops.gc.sweep import FATES, LISTERS, Verdict, read_verdicts
from nessie_ops.gc.verify import Verified, keep_revived, verify
from nessie_ops.model.repository import parse_duration
from nessie_ops.store.livesets import LiveSetRecord
from resources.collection import GarbageCollection, Parts

SHARDS = 8
GROUP = "garbage"
LIVE_SET_TAG = "nessie/live_set"
_MAX_NAMED = 20  # files that a failed check names
shards = dg.StaticPartitionsDefinition([f"{number:02}" for number in range(SHARDS)])
Facts = dict[str, Any]


class PlanConfig(dg.Config):
    """Cutoffs, as of `nessie-ops gc mark-live`; without any, the repository's configuration counts."""

    default_cutoff: str = ""
    cutoffs: list[str] = Field(default_factory=list)
    keep_live_sets: str = "P90D"


class SweepConfig(dg.Config):
    """As of `nessie-ops gc sweep`; the first partition of a live set decides for all of them."""

    grace_period: str = ""
    unreferenced_age: str = ""
    allowed_locations: list[str] = Field(default_factory=list)
    max_deletions: int = expire.MAX_FILES
    max_deletion_share: float = expire.MAX_SHARE


class DeletionConfig(dg.Config):
    """`live_set` is what a person has looked at; empty: the one that this run found.  `force` goes past the caps."""

    live_set: str = ""
    force: bool = False


class PurgeConfig(dg.Config):
    """As of `nessie-ops store purge`."""

    grace: str = "P7D"


@dg.asset(group_name=GROUP, kinds={"iceberg"}, description="A new live set: every reference pinned at its commit.")
def gc_plan(
    context: dg.AssetExecutionContext, config: PlanConfig, collection: GarbageCollection
) -> dg.MaterializeResult:
    id = context.run.run_id
    keep = parse_duration(config.keep_live_sets, "keep_live_sets")
    with collection.open(context.log.info) as parts:
        policies = _read_policies(config, parts)
        for old in age_out(parts.sets, keep, parts.context):
            context.log.info(f"The live set {old} is older than keep_live_sets, and forgotten.")
        record = runs.begin(parts.sets, parts.source, id, MarkSettings(parts.name, policies), parts.context)
        references = parts.sets.list_references(record.number)
    context.instance.add_run_tags(id, {LIVE_SET_TAG: id})
    cutoffs = dg.MetadataValue.json({reference.name: reference.bound for reference in references})
    return dg.MaterializeResult(metadata={LIVE_SET_TAG: id, "references": len(references), "cutoffs": cutoffs})


@dg.asset(
    partitions_def=shards,
    deps=[gc_plan],
    backfill_policy=dg.BackfillPolicy.single_run(),
    group_name=GROUP,
    kinds={"iceberg"},
    description="The live versions of tables and views, found from the references of each shard.",
)
def gc_mark(context: dg.AssetExecutionContext, collection: GarbageCollection) -> Iterator[dg.MaterializeResult]:
    with collection.open(context.log.info) as parts:
        record, failure = _live_set(context, parts), None
        try:
            if record.status in (runs.IDENTIFY_IN_PROGRESS, runs.IDENTIFY_FAILED):
                mine = [_shard(key) for key in context.partition_keys]
                record = runs.identify(parts.sets, parts.source, record.id, parts.context, mine)
        except Exception as error:
            failure = error
        yield from _finish(context, _marked(context, parts, record), failure)


@dg.asset(
    partitions_def=shards,
    deps=[dg.AssetDep(gc_mark, partition_mapping=dg.AllPartitionMapping())],
    backfill_policy=dg.BackfillPolicy.single_run(),
    group_name=GROUP,
    kinds={"iceberg"},
    description="The files that nothing needs, found in the folders of each shard and recorded; deletes nothing.",
)
def gc_sweep(
    context: dg.AssetExecutionContext, config: SweepConfig, collection: GarbageCollection
) -> Iterator[dg.MaterializeResult]:
    with collection.open(context.log.info) as parts:
        record, failure = _live_set(context, parts), None
        run = _Sweep(context, parts, _read_settings(config, parts, record))
        try:
            if record.status != runs.EXPIRY_SUCCESS:
                run.sweep(record)
        except Exception as error:
            failure = error
        yield from _finish(context, run.facts(record), failure)


@dg.asset_check(asset=gc_sweep, blocking=True, description="No head needs a file that is to be deleted.")
def no_live_candidates(context: dg.AssetCheckExecutionContext, collection: GarbageCollection) -> dg.AssetCheckResult:
    with collection.open(context.log.info) as parts:
        record = _live_set(context, parts)
        found = verify(parts.sets, record, parts.source, parts.stores)
    return dg.AssetCheckResult(passed=not (found.live or found.unsure), metadata=_verified_facts(found))


@dg.asset_check(asset=gc_sweep, description="Every table could be read, all folders be listed, and no cap was hit.")
def nothing_left_out(context: dg.AssetCheckExecutionContext, collection: GarbageCollection) -> dg.AssetCheckResult:
    with collection.open(context.log.info) as parts:
        record = _live_set(context, parts)
    return dg.AssetCheckResult(passed=not record.error, metadata={"errors": dg.MetadataValue.text(record.error)})


@dg.asset(
    deps=[dg.AssetDep(gc_sweep, partition_mapping=dg.AllPartitionMapping())],
    group_name=GROUP,
    kinds={"iceberg"},
    description="The recorded files, deleted, but for those that became reachable or were written anew.",
)
def gc_deleted(
    context: dg.AssetExecutionContext, config: DeletionConfig, collection: GarbageCollection
) -> dg.MaterializeResult:
    with collection.open(context.log.info) as parts:
        record = _to_delete(context, config, parts)
        statuses = (runs.EXPIRY_SUCCESS, runs.EXPIRY_FAILED) if config.force else (runs.EXPIRY_SUCCESS,)
        if record.status not in statuses:
            raise BadRequest(f"live_set: {record.id} is in status {record.status}: {record.error or 'not swept yet'}")
        found = verify(parts.sets, record, parts.source, parts.stores)
        if found.live or found.unsure:
            names = ", ".join((found.live + found.unsure)[:_MAX_NAMED])
            raise BadRequest(f"live_set: {record.id} has candidates that heads may need: {names}. Collect anew.")
        outcome = delete_recorded(parts.sets, record.id, parts.source, parts.stores, parts.context, statuses=statuses)
        written = report.format_time(parts.context.now())
        told = report.of_deletion(
            parts.sets, record.number, record.id, record.status, record.created_at, "deferred deletes", written
        )
        paths = report.write(told, parts.sets, record.number, parts.reports, f"{record.id}-deferred-deletes")
    facts: Facts = {f"files/{state}": outcome.files[state] for state in ("deleted", "gone", "kept", "failed")}
    facts |= {LIVE_SET_TAG: record.id, "freed_bytes": outcome.freed_bytes}
    facts["report"] = dg.MetadataValue.path(str(paths.html))
    if outcome.broken or outcome.files["failed"]:
        why = expire.describe_broken(outcome.broken) or f"{outcome.files['failed']:,} files could not be deleted"
        raise dg.Failure(why, metadata=facts)
    return dg.MaterializeResult(metadata=facts)


@dg.asset(
    deps=[gc_deleted],
    group_name=GROUP,
    description="Our store without commits that no reference needs: after the collection, which looks into history.",
)
def store_purged(
    context: dg.AssetExecutionContext, config: PurgeConfig, collection: GarbageCollection
) -> dg.MaterializeResult:
    grace = parse_duration(config.grace, "grace")
    with collection.open_store() as versions:
        if versions is None:
            return dg.MaterializeResult(metadata={"left_out": "the catalog is another server's; set NESSIE_OPS_STORE"})
        done = versions.purge(grace=grace, dry_run=False, progress=lambda step, count: None)
    facts = {name: getattr(done, name) for name in ("commits", "nodes", "contents", "data_bytes", "live_commits")}
    return dg.MaterializeResult(metadata=facts)


class _Sweep:
    """A sweep of the shards of one step."""

    def __init__(self, context: dg.AssetExecutionContext, parts: Parts, settings: SweepSettings) -> None:
        self._context, self._parts, self._settings = context, parts, settings
        self._why_not = ""
        self._overall: Facts = {}
        self._open: set[str] | None = None  # folders that are still to be listed; None: not known

    def sweep(self, record: LiveSetRecord) -> None:
        """List what is not listed yet; Failure names the folders that could not be."""
        parts = self._parts
        hooks = Hooks(self._explain, self._report, [_shard(key) for key in self._context.partition_keys])
        swept = expire.sweep(parts.sets, record.id, parts.source, parts.stores, self._settings, parts.context, hooks)
        self._open = set(swept.bases.listed) - {each.base for each in swept.verdicts if not each.error}
        if unlisted := [f"{each.base}: {each.error}" for each in swept.verdicts if each.error]:
            raise BadRequest(f"These folders could not be listed: {'; '.join(unlisted[:_MAX_NAMED])}")

    def facts(self, record: LiveSetRecord) -> dict[str, Facts]:
        """What was found, by partition, of those whose folders have all been listed."""
        if runs.get_live_set(self._parts.sets, record.id).status == runs.EXPIRY_SUCCESS:
            self._open = set()
        verdicts = read_verdicts(self._parts.sets, record.number)
        found = {}
        for key in self._context.partition_keys:
            shard = _shard(key)
            if self._open is not None and not any(shard.holds(base) for base in self._open):
                mine = [verdict for verdict in verdicts if shard.holds(verdict.base)]
                found[key] = {LIVE_SET_TAG: record.id, **_sweep_facts(mine), **self._overall}
        return found

    def _explain(self, swept: Swept) -> None:
        parts, record = self._parts, runs.get_live_set(self._parts.sets, swept.record.id)
        keep_revived(parts.sets, record, parts.source, parts.stores)
        only_named = self._settings.only_named
        explainer = Explainer(parts.stores, parts.source, only_named=only_named, progress=parts.context.progress)
        self._why_not = explainer.explain(parts.sets, record.number).why_not

    def _report(self, swept: Swept) -> None:
        parts = self._parts
        limit = expire.max_modified_at(self._settings, swept.record)
        settings = {
            "maxFileModification": report.format_time(limit),
            "allowedLocations": list(self._settings.allowed_locations),
            "maxDeletions": self._settings.max_files,
            "maxDeletionShare": self._settings.max_share,
        }
        now = report.format_time(parts.context.now())
        found = report.of_sweep(parts.sets, swept, "deferred", settings, now, self._why_not)
        paths = report.write(found, parts.sets, swept.record.number, parts.reports, swept.record.id)
        self._overall = {"report": dg.MetadataValue.path(str(paths.html))}


def _read_policies(config: PlanConfig, parts: Parts) -> Policies:
    now = parts.context.clock()
    if config.default_cutoff or config.cutoffs:
        rules = tuple(split_options(config.cutoffs, "cutoffs"))
        return Policies(now, config.default_cutoff or "NONE", rules).validated()
    return from_config(parts.config, now) if parts.config else Policies(now)


def _read_settings(config: SweepConfig, parts: Parts, record: LiveSetRecord) -> SweepSettings:
    """Those with which the sweep of this live set began, else those of the configuration."""
    if record.figures != "{}":
        return msgspec.structs.replace(
            expire.read_settings(record),
            max_files=config.max_deletions,
            max_share=config.max_deletion_share,
            listers=LISTERS,
        )
    stored = parts.config
    grace = config.grace_period or (stored.new_files_grace_period if stored else "") or "PT24H"
    age = config.unreferenced_age
    return SweepSettings(
        grace=parse_duration(grace, "grace_period"),
        expected_files=(stored.expected_file_count_per_content if stored else 0) or 1_000_000,
        unreferenced_age=parse_duration(age, "unreferenced_age") if age else None,
        allowed_locations=tuple(config.allowed_locations),
        is_deferred=True,
        max_files=config.max_deletions,
        max_share=config.max_deletion_share,
    )


def _live_set(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, parts: Parts) -> LiveSetRecord:
    """The live set of this run, of those that it re-executes, or of the last `gc_plan`."""
    id = remembered(context.instance, context.run, LIVE_SET_TAG)
    if id is None:
        event = context.instance.get_latest_materialization_event(gc_plan.key)
        if event is None or event.asset_materialization is None:
            raise BadRequest("There is no live set: launch the job find_garbage, which begins one.")
        id = str(event.asset_materialization.metadata[LIVE_SET_TAG].value)
        context.instance.add_run_tags(context.run.run_id, {LIVE_SET_TAG: id})
    return runs.get_live_set(parts.sets, id)


def _to_delete(context: dg.AssetExecutionContext, config: DeletionConfig, parts: Parts) -> LiveSetRecord:
    """The live set that a person approved, or that this run found; never one that nobody named."""
    id = config.live_set or remembered(context.instance, context.run, LIVE_SET_TAG)
    if not id:
        raise BadRequest("live_set: give the id of the live set whose report was looked at; gc_sweep shows it.")
    return runs.get_live_set(parts.sets, id)


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


def _finish(context: dg.AssetExecutionContext, done: Mapping[str, Facts], failure: Exception | None) -> Iterator[Any]:
    """Materialize the partitions that are done; when others are not, or something went wrong, the step fails."""
    left = [key for key in context.partition_keys if key not in done]
    if failure is None and not left:
        for key, facts in done.items():
            context.add_asset_metadata(facts, partition_key=key)
        yield dg.MaterializeResult()
        return
    for key, facts in done.items():  # one by one, since the result of a step that fails is none
        yield dg.AssetMaterialization(context.asset_key, partition=key, metadata=facts)
    known = failure.message if isinstance(failure, NessieOpsError) else repr(failure)
    raise dg.Failure(f"Partitions {', '.join(left) or 'none'} are not done: {known}") from failure


def _sweep_facts(verdicts: Sequence[Verdict]) -> Facts:
    facts: Facts = {"folders": len(verdicts)}
    for fate in FATES:
        tallies = [verdict.count(fate) for verdict in verdicts]
        facts[f"files/{fate}"] = sum(tally.files for tally in tallies)
        facts[f"bytes/{fate}"] = sum(tally.size_bytes for tally in tallies)
    if verdicts:
        by_folder, by_age = report.plot(verdicts)
        facts["plots"] = dg.MetadataValue.md("\n\n".join(_picture(svg) for svg in (by_folder, by_age)))
    return facts


def _picture(svg: str) -> str:
    """SVG as an image in Markdown, which Dagster's pages show."""
    return f"![bytes](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"


def _verified_facts(found: Verified) -> Facts:
    wrong = found.live + found.unsure
    facts: Facts = {"candidates": found.candidates, "live_files": found.live_files, "live_candidates": len(found.live)}
    facts |= {"unsure_candidates": len(found.unsure), "broken_tables": len(found.broken)}
    return {**facts, "files": dg.MetadataValue.json(wrong[:_MAX_NAMED])}


collection_assets = [gc_plan, gc_mark, gc_sweep, gc_deleted, store_purged]
collection_checks = [no_live_candidates, nothing_left_out]
