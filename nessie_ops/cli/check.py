"""`nessie-ops check`: whether what the catalog points to is there.  The catalog itself: `nessie-ops store check`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nessie_ops.catalog import S3
from nessie_ops.catalog.contents import Report, check_contents
from nessie_ops.catalog.locations import Warehouse
from nessie_ops.cli.connection import AsJson, StoreUrl
from nessie_ops.cli.output import print_json
from nessie_ops.cli.progress import Progress
from nessie_ops.cli.store import open_versions
from nessie_ops.runtime.home import allowed_locations, get_home, warehouse_url

app = typer.Typer(help="Check that what the catalog points to is there.", no_args_is_help=True)


@app.callback()
def _group() -> None:  # else typer would make the one command the group itself
    pass


@app.command()
def content(
    store: StoreUrl = "",
    warehouse: Annotated[
        str,
        typer.Option(
            envvar="NESSIE_OPS_WAREHOUSE", help="Folder or bucket. Default: in NESSIE_OPS_HOME.", metavar="URL"
        ),
    ] = "",
    allowed_location: Annotated[
        list[str] | None,
        typer.Option(
            help="As of serve; may be repeated. Default: NESSIE_OPS_ALLOWED_LOCATIONS, separated by commas.",
            metavar="PREFIX",
        ),
    ] = None,
    ref: Annotated[
        list[str] | None, typer.Option(help="Only this branch or tag; may be repeated.", metavar="NAME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check that every file that a table or view of any branch or tag needs exists, of all snapshots.

    Reads metadata and manifests, not data, and changes nothing; writers may go on.  Exit code 1 when a file is
    missing, damaged or cannot be read.
    """
    places = Warehouse(warehouse or warehouse_url(get_home()), allowed_location or allowed_locations())
    with open_versions(store) as versions:
        report = check_contents(versions, places, ref or (), Progress(), S3.from_env())
    if as_json:
        print_json({"findings": report.findings, "summary": report.summary})
    else:
        _print(report)
    if not report.summary.is_sound:
        raise typer.Exit(1)


def _print(report: Report) -> None:
    summary = report.summary
    for finding in report.findings:
        typer.echo(str(finding))
    if summary.unlisted:
        typer.echo(f"… and {summary.unlisted:,} more files")
    looked = f"{summary.references:,} references, {summary.tables:,} versions of tables, {summary.views:,} of views"
    files = sum(summary.files.values())
    print(f"looked at {files:,} files: {looked}; {_count(summary.skipped) or 'nothing'} skipped", file=sys.stderr)
    typer.echo(_count(summary.faults) or "nothing is missing")


def _count(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in sorted(counts.items()))
