"""`nessie-ops gc sweep` and `gc`: delete what is not live."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import typer

from nessie_ops.cli.gc import marking as marks
from nessie_ops.cli.gc.engines import OpenEngine, choose_engine
from nessie_ops.cli.gc.groups import command
from nessie_ops.cli.gc.options import AsJson, Chosen, Database, Engines, Files, Marking, Origin, Sweeping, TimeZone
from nessie_ops.cli.gc.parts import (
    Opened,
    choose,
    file_properties,
    make_context,
    open_files,
    open_sets,
    open_source,
    open_tables,
    report_folder,
    resumable,
    usage,
    warn,
)
from nessie_ops.cli.gc.show import format_duration, parse_zone, to_json
from nessie_ops.cli.output import print_json
from nessie_ops.errors import BadRequest
from nessie_ops.gc import expire, report
from nessie_ops.gc import identify as runs
from nessie_ops.gc.expire import Hooks, SweepSettings, Swept
from nessie_ops.gc.explain import Explainer
from nessie_ops.gc.identify import Context
from nessie_ops.gc.places import NotAPlace, place_of
from nessie_ops.gc.storage import Stores
from nessie_ops.gc.sweep import Tally
from nessie_ops.model import GarbageCollectorConfig, parse_time
from nessie_ops.model.repository import parse_duration
from nessie_ops.store.livesets import LiveSetRecord, LiveSets


@command
def sweep(
    chosen: Chosen,
    sweeping: Sweeping,
    engines: Engines,
    files: Files,
    origin: Origin,
    database: Database,
    time_zone: TimeZone = "",
    as_json: AsJson = False,
) -> None:
    """Delete the files that a live set does not need; one that failed or was killed goes on where it stopped.

    Looks at the references again before it deletes.  Exit code 1 when a table could not be read, or a file not be
    deleted.
    """
    parse_zone(time_zone)
    _check_origin(origin, sweeping)
    open_engine = choose_engine(engines, sweeping)
    id, context = choose(chosen), make_context()
    report_folder(sweeping.report_dir)
    with open_sets(database) as sets:
        failed = _sweep(sets, id, origin, sweeping, files, open_engine, context, as_json)
    raise typer.Exit(int(failed))


@command
def gc(
    marking: Marking,
    sweeping: Sweeping,
    engines: Engines,
    files: Files,
    origin: Origin,
    database: Database,
    time_zone: TimeZone = "",
    as_json: AsJson = False,
) -> None:
    """Find what is live, and delete the rest: `mark-live` and `sweep` in one.  The one command for --inmemory."""
    parse_zone(time_zone)
    if database.inmemory and sweeping.defer_deletes:
        raise typer.BadParameter("--defer-deletes: has to be recorded, so it does not go with --inmemory.")
    _check_origin(origin, sweeping)
    open_engine = choose_engine(engines, sweeping)
    context = make_context()
    _check_grace(read_settings(sweeping, None), LiveSetRecord(0, "", "", context.now()))
    report_folder(sweeping.report_dir)
    with open_sets(database, may_be_in_memory=True) as sets:
        record = marks.mark_or_resume(sets, origin, marking, context, forgets_old=not sweeping.dry_run)
        if not as_json:
            typer.secho(marks.describe(record), bold=True, fg="green")
        failed = _sweep(sets, record.id, origin, sweeping, files, open_engine, context, as_json)
    raise typer.Exit(int(failed))


def _check_grace(settings: SweepSettings, record: LiveSetRecord) -> None:
    """A usage error when what is to be deleted is too young, and not forced."""
    with usage():
        expire.max_modified_at(settings, record)


def _check_origin(origin: Origin, sweeping: Sweeping) -> None:
    if sweeping.expire_snapshots and (origin.uri or origin.catalog):
        raise typer.BadParameter(
            "--expire-snapshots: metadata can only be rewritten in our own store, without --uri and --catalog."
        )
    if sweeping.expire_on and not sweeping.expire_snapshots:
        raise typer.BadParameter("--expire-on: give --expire-snapshots, too.")


def _sweep(
    sets: LiveSets,
    id: str,
    origin: Origin,
    sweeping: Sweeping,
    files: Files,
    open_engine: OpenEngine,
    context: Context,
    as_json: bool,
) -> bool:
    """Sweep and tell; whether something went wrong."""
    live_set = runs.get_live_set(sets, id)
    with (
        open_source(origin, runs.get_settings(live_set).source) as opened,
        open_engine(file_properties(files, opened)) as engine,
    ):
        run = _Run(sets, opened, open_files(files, opened), sweeping, context)
        _check_grace(run.settings, live_set)
        tables = open_tables(opened, sweeping.warehouse) if sweeping.expire_snapshots else None
        hooks = Hooks(run.explain, run.report, engine=engine)
        with resumable(f"`nessie-ops gc sweep -l {id}` with the same options goes on"):
            swept = expire.sweep(sets, id, opened.source, run.stores, run.settings, context, hooks, tables)
    assert run.found and run.written
    failures = run.found.states.get("failed", Tally()).files
    if as_json:
        paths = {"json": str(run.written.json), "html": str(run.written.html)}
        print_json({"liveSet": to_json(swept.record), "report": run.found, "reports": paths})
    else:
        typer.secho(_describe(swept, run), bold=True, fg="green")
    for line in _tell_rewritten(swept, run.settings.is_dry_run):
        warn(line)
    for trouble in _troubles(swept):
        warn(trouble)
    warn(f"report: {run.written.html}")
    faults = [each for each in swept.rewritten.untouched if each.is_fault]
    unlisted = any(each.error for each in swept.verdicts)
    return bool(failures or swept.stopped or swept.expansion.broken or unlisted or faults)


class _Run:
    """One sweep with its reasons and its report."""

    def __init__(self, sets: LiveSets, opened: Opened, stores: Stores, sweeping: Sweeping, context: Context) -> None:
        self.sets, self.opened, self.stores, self.sweeping, self.context = sets, opened, stores, sweeping, context
        self.settings = read_settings(sweeping, opened.config)
        self.folder = report_folder(sweeping.report_dir)
        self.why_not = ""
        self.found: report.Report | None = None
        self.written: report.Written | None = None
        self.started = context.now()

    @property
    def kind(self) -> str:
        return "dry run" if self.settings.is_dry_run else "deferred" if self.settings.is_deferred else "sweep"

    def explain(self, swept: Swept) -> None:
        """Look up who held dead files last, while their manifests are there."""
        if self.sweeping.explain is False:
            self.why_not = "--no-explain"
            return
        explainer = Explainer(
            self.stores,
            self.opened.source,
            always=bool(self.sweeping.explain),
            only_named=self.settings.only_named,
            also_live=self.settings.expires_snapshots,
            progress=self.context.progress,
        )
        self.why_not = explainer.explain(self.sets, swept.record.number).why_not
        if self.why_not:
            warn(f"who held the dead files last is not looked up: {self.why_not}")

    def report(self, swept: Swept) -> None:
        """Write the report, before a dry run forgets what it found."""
        settings = _worth_telling(self.settings)
        settings["maxFileModification"] = report.format_time(expire.max_modified_at(self.settings, swept.record))
        written = report.format_time(self.context.now())
        self.found = report.of_sweep(self.sets, swept, self.kind, settings, written, self.why_not)
        name = f"{swept.record.id}{'-dry-run' if self.settings.is_dry_run else ''}"
        self.written = report.write(self.found, self.sets, swept.record.number, self.folder, name)


def _worth_telling(settings: SweepSettings) -> dict[str, Any]:
    return {
        "gracePeriod": format_duration(settings.grace // timedelta(microseconds=1)),
        "exact": settings.is_exact is not False,
        "allowedLocations": list(settings.allowed_locations),
        "maxDeletions": settings.max_files,
        "maxDeletionShare": settings.max_share,
        "force": settings.is_forced,
        "deferDeletes": settings.is_deferred,
        "dryRun": settings.is_dry_run,
        "expireSnapshots": settings.expires_snapshots,
        "expireOn": settings.expires_on,
    }


def read_settings(sweeping: Sweeping, config: GarbageCollectorConfig | None) -> SweepSettings:
    """The settings of a sweep, by default those of the repository's configuration; a usage error."""
    grace = sweeping.grace_period or (config.new_files_grace_period if config else "") or "PT24H"
    expected = sweeping.expected_file_count or (config.expected_file_count_per_content if config else 0) or 1_000_000
    with usage():
        limit, age = sweeping.max_file_modification, sweeping.unreferenced_age
        settings = SweepSettings(
            max_modified_at=runs.to_micros(parse_time(limit, "max-file-modification")) if limit else None,
            grace=parse_duration(grace, "grace-period"),
            is_exact=sweeping.exact,
            expected_files=expected,
            fpp=sweeping.fpp,
            allowed_fpp=max(sweeping.fpp, sweeping.allowed_fpp),
            expires_snapshots=sweeping.expire_snapshots,
            expires_on=sweeping.expire_on,
            unreferenced_age=parse_duration(age, "unreferenced-age") if age else None,
            allowed_locations=tuple(sweeping.allowed_location or ()),
            max_files=sweeping.max_deletions,
            max_share=sweeping.max_deletion_share,
            is_forced=sweeping.force,
            is_deferred=sweeping.defer_deletes,
            is_dry_run=sweeping.dry_run,
            listers=sweeping.expiry_parallelism,
        )
        expire.check_filter(settings)
        for location in settings.allowed_locations:
            _check_place(location)
    return settings


def _check_place(location: str) -> None:
    try:
        place_of(location)
    except NotAPlace as error:
        raise BadRequest(f"allowed-location: {error}; give a URL such as s3://bucket/folder.") from None


def _describe(swept: Swept, run: _Run) -> str:
    assert run.found
    took = format_duration(run.context.now() - run.started)
    start = f"Nessie-GC sweep phase for live-content-set {swept.record.id} finished with status {swept.record.status}"
    pending = run.found.states.get("pending", Tally())
    if run.settings.is_dry_run:
        return f"{start} after {took}, dry run: {pending.files} files ({pending.size_bytes} bytes) would be deleted."
    deleted = pending.files if run.settings.is_deferred else run.found.states.get("deleted", Tally()).files
    failed = run.found.states.get("failed", Tally()).files
    return f"{start} after {took}, deleted {deleted} files, {failed} files could not be deleted."


def _tell_rewritten(swept: Swept, is_dry_run: bool) -> list[str]:
    verb = "would be removed from" if is_dry_run else "removed from"
    shrunk = [f"{verb} the metadata of {each}" for each in swept.rewritten.shrunk]
    return shrunk + [f"metadata of {row.table} on {row.branch} stays: {row.why}" for row in swept.rewritten.untouched]


def _troubles(swept: Swept) -> list[str]:
    found = [swept.stopped] if swept.stopped else []
    found += [f"broken table {row.content_id}: {row.location}: {row.why}" for row in swept.expansion.broken.values()]
    found += [f"{base} is not listed: {why}" for base, why in swept.bases.refused.items()]
    found += [f"{each.base} could not be listed: {each.error}" for each in swept.verdicts if each.error]
    if swept.expansion.missing:
        found.append(f"{len(swept.expansion.missing):,} metadata objects are gone; see `broken table` for needed ones")
    outside = sum(len(folders) for folders in swept.expansion.outside.values())
    if outside:
        found.append(f"live files lie in {outside:,} folders outside their tables' own; these are not listed")
    return found
