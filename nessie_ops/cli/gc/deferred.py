"""`nessie-ops gc deferred-deletes`: delete what a sweep recorded."""

from __future__ import annotations

from pathlib import Path

import typer

from nessie_ops.cli.gc import show as shown
from nessie_ops.cli.gc.groups import command
from nessie_ops.cli.gc.listing import check_swept
from nessie_ops.cli.gc.options import AsJson, Chosen, Database, DryRun, Files, Origin, ReportDir, TimeZone
from nessie_ops.cli.gc.parts import (
    choose,
    make_context,
    open_files,
    open_sets,
    open_source,
    report_folder,
    warn,
)
from nessie_ops.cli.output import print_json
from nessie_ops.gc import expire, report
from nessie_ops.gc import identify as runs
from nessie_ops.gc.deferred import delete_recorded
from nessie_ops.gc.deletion import Outcome
from nessie_ops.gc.identify import Context
from nessie_ops.gc.source import Source
from nessie_ops.gc.storage import Stores
from nessie_ops.store.livesets import LiveSetRecord, LiveSets


@command
def deferred_deletes(
    chosen: Chosen,
    files: Files,
    origin: Origin,
    database: Database,
    dry_run: DryRun = False,
    report_dir: ReportDir = "",
    time_zone: TimeZone = "",
    as_json: AsJson = False,
) -> None:
    """Delete the files that a sweep recorded, but for those that became reachable or were written anew since.

    May be stopped at any moment and run again.  Exit code 1 when a file could not be deleted.
    """
    zone, id, context = shown.parse_zone(time_zone), choose(chosen), make_context()
    folder = None if dry_run else report_folder(report_dir)
    with open_sets(database) as sets:
        record = runs.get_live_set(sets, id)
        check_swept(record)
        if not as_json:
            typer.echo("About to execute deferred-file-deletions of live content set:")
            shown.print_list([record], zone)
            typer.echo()
        with open_source(origin, runs.get_settings(record).source) as opened:
            stores = open_files(files, opened)
            outcome = _run(sets, id, opened.source, stores, context, dry_run=dry_run, quiet=as_json)
        written = _report(sets, record, context, folder) if folder else None
    _tell(record, outcome, written, dry_run, as_json)
    raise typer.Exit(int(bool(outcome.files["failed"] or outcome.broken)))


def _run(
    sets: LiveSets, id: str, source: Source, stores: Stores, context: Context, *, dry_run: bool, quiet: bool
) -> Outcome:
    verb = "Would delete" if dry_run else "Deleted"

    def tell(base: str, count: int) -> None:
        if not quiet:
            typer.secho(f"{verb} {count} files from {base}/.", italic=True, fg="yellow")

    return delete_recorded(sets, id, source, stores, context, is_dry_run=dry_run, on_batch=tell)


def _report(sets: LiveSets, record: LiveSetRecord, context: Context, folder: Path) -> report.Written:
    written = report.format_time(context.now())
    found = report.of_deletion(
        sets, record.number, record.id, record.status, record.created_at, "deferred deletes", written
    )
    return report.write(found, sets, record.number, folder, f"{record.id}-deferred-deletes")


def _tell(
    record: LiveSetRecord, outcome: Outcome, written: report.Written | None, dry_run: bool, as_json: bool
) -> None:
    stopped = expire.describe_broken(outcome.broken)
    if as_json:
        print_json(
            {
                "liveSet": shown.to_json(record),
                "dryRun": dry_run,
                "files": dict(outcome.files),
                "freedBytes": outcome.freed_bytes,
                "stopped": stopped,
                "reports": {"json": str(written.json), "html": str(written.html)} if written else None,
            }
        )
    else:
        deleted, failed = outcome.files["deleted"], outcome.files["failed"]
        verb = "would be deleted" if dry_run else "deleted"
        text = f"Deferred deletion finished: {deleted} files {verb}, {failed} delete failures."
        typer.secho(f"\n{text}", bold=True, fg="green")
    for state in ("gone", "kept"):
        if outcome.files[state]:
            warn(f"{outcome.files[state]:,} files {state}")
    if stopped:
        warn(stopped)
    if written:
        warn(f"report: {written.html}")
