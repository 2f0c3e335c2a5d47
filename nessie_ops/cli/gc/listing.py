"""`nessie-ops gc list`, `show`, `delete` and `list-deferred`: look after live sets."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Annotated, Any

import typer

from nessie_ops.cli.gc import show as shown
from nessie_ops.cli.gc.groups import command, option
from nessie_ops.cli.gc.options import AsJson, Chosen, Database, DryRun, TimeZone
from nessie_ops.cli.gc.parts import choose, make_context, open_sets
from nessie_ops.cli.output import print_json
from nessie_ops.errors import BadRequest
from nessie_ops.gc import identify as runs
from nessie_ops.gc.deletion import OPEN
from nessie_ops.store.livesets import LiveSetRecord, LiveSets

WithBases = Annotated[bool, option("-B", "--with-base-locations", help="Show base locations.")]
WithReferences = Annotated[bool, option("-C", "--with-content-references", help="Show content references.")]
WithDeferred = Annotated[bool, option("-D", "--with-deferred-deletes", help="Show deferred deletes.")]


@command
def list_live_sets(database: Database, time_zone: TimeZone = "", as_json: AsJson = False) -> None:
    """List the live sets, newest first."""
    zone = shown.parse_zone(time_zone)
    with open_sets(database) as sets:
        found = sets.list_live_sets()
    print_json([shown.to_json(row) for row in found]) if as_json else shown.print_list(found, zone)


@command
def show(
    chosen: Chosen,
    database: Database,
    with_bases: WithBases = False,
    with_references: WithReferences = False,
    with_deferred: WithDeferred = False,
    time_zone: TimeZone = "",
    as_json: AsJson = False,
) -> None:
    """Show a live set; `Created` in UTC, other times in the time zone."""
    zone, id = shown.parse_zone(time_zone), choose(chosen)
    with open_sets(database) as sets:
        record = runs.get_live_set(sets, id)
        contents, _ = sets.count_versions(record.number)
        if as_json:
            print_json(_to_json(sets, record, contents, with_bases, with_references, with_deferred))
            return
        shown.print_live_set(record, contents, zone)
        if with_bases or with_references:
            _print_contents(sets, record.number, with_bases, with_references)
        if with_deferred:
            typer.secho("\nList of deferred deletes:", bold=True, underline=True)
            shown.print_deferred(sets.list_files(record.number, OPEN))


def _print_contents(sets: LiveSets, number: int, with_bases: bool, with_references: bool) -> None:
    names = [name for name, on in (("base locations", with_bases), ("content references", with_references)) if on]
    typer.secho(f"\nList of {' and '.join(names)}:", bold=True, underline=True)
    for content, bases, versions in _contents(sets, number):
        typer.secho(f"   Content ID {content}", bold=True)
        for base in bases if with_bases else ():
            typer.echo(f"    Base location: {base}/")
        if with_references:
            shown.print_references_header()
        for row in versions if with_references else ():
            shown.print_reference(_type(row[1]), row.commit, row.key, row.snapshot_id, row.metadata_location)
    typer.echo("End of listing.")


def _contents(sets: LiveSets, number: int) -> Iterator[tuple[str, list[str], list[Any]]]:
    """Each content with its bases and live versions, by id."""
    bases: dict[str, list[str]] = {}
    for base in sets.list_bases(number):
        bases.setdefault(base.content_id, []).append(base.place)
    versions = sorted(sets.list_versions(number), key=lambda row: (row.content_id, row.key, row.metadata_location))
    for content, rows in groupby(versions, key=lambda row: row.content_id):
        yield content, bases.get(content, []), list(rows)


def _type(is_table: int) -> str:
    return "ICEBERG_TABLE" if is_table else "ICEBERG_VIEW"


def _to_json(
    sets: LiveSets, record: LiveSetRecord, contents: int, with_bases: bool, with_references: bool, with_deferred: bool
) -> dict[str, Any]:
    found: dict[str, Any] = shown.to_json(record) | {"contentCount": contents}
    if with_bases or with_references:
        found["contents"] = [
            {
                "contentId": content,
                **({"baseLocations": bases} if with_bases else {}),
                **({"references": [_row(row) for row in versions]} if with_references else {}),
            }
            for content, bases, versions in _contents(sets, record.number)
        ]
    if with_deferred:
        found["deferredDeletes"] = [shown.deferred_to_json(file) for file in sets.list_files(record.number, OPEN)]
    return found


def _row(row: Any) -> dict[str, Any]:
    return {
        "type": _type(row.is_table),
        "commit": row.commit,
        "key": row.key,
        "snapshotId": row.snapshot_id,
        "metadataLocation": row.metadata_location,
        "reference": row.reference,
    }


@command
def delete(
    chosen: Chosen, database: Database, dry_run: DryRun = False, time_zone: TimeZone = "", as_json: AsJson = False
) -> None:
    """Delete a live set; no files."""
    zone, id = shown.parse_zone(time_zone), choose(chosen)
    with open_sets(database) as sets:
        record = runs.get_live_set(sets, id) if dry_run else runs.take(sets, id, runs.STATUSES, make_context())
        if not dry_run:
            sets.delete(record.number)
    if as_json:
        print_json(shown.to_json(record) | {"deleted": not dry_run})
        return
    typer.echo(f"{'Would delete' if dry_run else 'Deleting'} live content set {record.id}")
    shown.print_list([record], zone)
    if not dry_run:
        typer.secho(f"Live content set {record.id} successfully deleted.", bold=True, fg="green")


@command
def list_deferred(chosen: Chosen, database: Database, time_zone: TimeZone = "", as_json: AsJson = False) -> None:
    """List the files that a sweep with --defer-deletes recorded and that are still to be deleted."""
    zone, id = shown.parse_zone(time_zone), choose(chosen)
    with open_sets(database) as sets:
        record = runs.get_live_set(sets, id)
        check_swept(record)
        if as_json:
            print_json([shown.deferred_to_json(file) for file in sets.list_files(record.number, OPEN)])
            return
        typer.secho("List of deferred-file-deletions:", bold=True, underline=True)
        shown.print_list([record], zone)
        typer.echo()
        shown.print_deferred(sets.list_files(record.number, OPEN), bold=True)


def check_swept(record: LiveSetRecord) -> None:
    """BadRequest unless the sweep of a live set is complete."""
    if record.status != runs.EXPIRY_SUCCESS:
        raise BadRequest(f"Expected live-set to have status EXPIRY_SUCCESS, but status is {record.status}")
