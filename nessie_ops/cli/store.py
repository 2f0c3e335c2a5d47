"""`nessie-ops store`: look after the database of a catalog.  Works on the database itself, not through a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated
from uuid import uuid4

import msgspec
import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, find_store
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.cli.progress import Progress
from nessie_ops.errors import BadRequest
from nessie_ops.model import parse_time
from nessie_ops.runtime.home import get_home, store_url
from nessie_ops.store import Store, upgrade_store
from nessie_ops.versioning import VersionStore
from nessie_ops.versioning.archive import Manifest
from nessie_ops.versioning.check import check as check_store
from nessie_ops.versioning.exporting import export
from nessie_ops.versioning.importing import import_archive
from nessie_ops.versioning.info import StoreInfo, get_store_info
from nessie_ops.versioning.restore import Restored

app = typer.Typer(help="Look after the database of a catalog.", no_args_is_help=True)

Grace = Annotated[
    str, typer.Option(help="How long earlier heads of references stay, such as P7D or PT12H.", metavar="DURATION")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]


@contextmanager
def open_store(url: str) -> Iterator[Store]:
    """The database, which must exist; nothing in it is created."""
    store = Store.open(find_store(url), create=False)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_versions(url: str) -> Iterator[VersionStore]:
    versions = VersionStore.open(find_store(url), create=False)
    try:
        yield versions
    finally:
        versions.close()


@app.command()
def upgrade(store: StoreUrl = "", dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Bring the database to the format of this version.  Stop what uses it, and make a copy, before."""
    done = upgrade_store(find_store(store), dry_run=dry_run)
    if as_json:
        print_json({"before": done.before, "after": done.after, "steps": done.steps, "dryRun": dry_run})
        return
    if not done.steps:
        typer.echo(f"nothing to do: the store has format {done.after}")
        return
    verb = "would upgrade" if dry_run else "upgraded"
    typer.echo(f"{verb} the store from format {done.before} to {done.after}")
    for step in done.steps:
        typer.echo(f"  {step}")


@app.command()
def info(store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Show format, database, rows and bytes by table, references, and the oldest and newest commit."""
    with open_store(store) as opened:
        found = get_store_info(opened)
    print_json(found) if as_json else _print_info(found)


def _print_info(found: StoreInfo) -> None:
    rows = [
        ("format", str(found.format)),
        ("database", found.database),
        ("default branch", found.default_branch or "none yet"),
        ("created", f"{found.created_at:%Y-%m-%d %H:%M:%S}Z" if found.created_at else "not yet"),
        ("references", ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.references.items())) or "none"),
    ]
    for name, commit in (("oldest commit", found.oldest_commit), ("newest commit", found.newest_commit)):
        rows.append((name, f"{commit.hash[:16]}  {commit.time:%Y-%m-%d %H:%M:%S}Z" if commit else "none"))
    rows.append(("cache", f"{found.cache_bytes:,} bytes at most in each process"))
    print_rows(rows)
    sizes = [
        (name, f"{size.rows:,}", "?" if size.bytes is None else f"{size.bytes:,}")
        for name, size in found.tables.items()
    ]
    typer.echo()
    print_rows([("table", "rows", "bytes"), *sizes])


@app.command()
def check(store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Check that every id matches its bytes, all that is pointed to exists, and every index has its one shape.

    Reads each object once, in a snapshot, so writers may go on.  Exit code 1 when there are faults.
    """
    faults = []
    with open_store(store) as opened:
        for fault in check_store(opened, Progress()):
            faults.append(fault)
            if not as_json:
                typer.echo(str(fault))
    if as_json:
        print_json({"faults": faults})
    elif not faults:
        typer.echo("no fault found")
    if faults:
        print(f"{len(faults):,} faults found", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def purge(
    grace: Grace = "P7D",
    store: StoreUrl = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Delete commits and what they hold that no reference needs, nor needed within the grace period.

    Servers may go on.  It may be stopped at any moment, and run again.
    """
    with open_versions(store) as versions:
        done = versions.purge(grace=parse_duration(grace, "--grace"), dry_run=dry_run, progress=Progress())
    if as_json:
        print_json(done)
        return
    verb = "would delete" if dry_run else "deleted"
    typer.echo(
        f"{verb} {done.commits:,} commits, {done.nodes:,} nodes and {done.contents:,} contents "
        f"({done.data_bytes:,} bytes of data); {done.live_commits:,} commits stay"
    )


@app.command("export")
def export_store(
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    grace: Grace = "P7D",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Write an archive of references, their log, settings and all that they need, as it is now.

    Servers may go on.  When it was interrupted, the same command goes on where it ended.
    """
    duration = parse_duration(grace, "--grace")
    with open_store(store) as opened:
        now = datetime.now(UTC)
        manifest = export(opened, file, grace=duration, now=now, new_id=lambda: str(uuid4()), progress=Progress())
    _report("exported", manifest, as_json)


@app.command("import")
def import_store(
    file: Annotated[Path, typer.Argument(help="The archive to read.")],
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Fill an empty database from an archive; it is created if need be.

    When it was interrupted, the same command goes on where it ended.
    """
    opened = Store.open(store or store_url(get_home()))
    try:
        manifest = import_archive(opened, file, progress=Progress())
    finally:
        opened.close()
    _report("imported", manifest, as_json)


def _report(verb: str, manifest: Manifest, as_json: bool) -> None:
    if as_json:
        names = ("commits", "nodes", "contents", "moves")
        print_json({name: getattr(manifest, name) for name in names})
        return
    typer.echo(
        f"{verb} {manifest.commits:,} commits, {manifest.nodes:,} nodes, {manifest.contents:,} contents "
        f"and {manifest.moves:,} moves of references"
    )


@app.command()
def restore(
    at: Annotated[str, typer.Option(help="When, as ISO-8601 or milliseconds; UTC unless it says.", metavar="TIME")],
    ref: Annotated[list[str] | None, typer.Option(help="Only this reference; may be repeated.", metavar="NAME")] = None,
    store: StoreUrl = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Move references back to where they were at a time; undo it with another restore."""
    with open_versions(store) as versions:
        steps = versions.restore(parse_time(at, "--at"), ref or (), dry_run=dry_run)
    if as_json:
        print_json(steps)
        return
    print_rows([_describe(step) for step in steps])
    typer.echo(f"{'would restore' if dry_run else 'restored'} {len(steps):,} references")


def _describe(step: Restored) -> tuple[str, ...]:
    what = "create" if step.before is None else "delete" if step.after is None else "move"
    kind = step.type_after or step.type_before or ""
    return what, kind, step.name, (step.before or "-")[:16], "->", (step.after or "-")[:16]


def parse_duration(text: str, field: str) -> timedelta:
    """An ISO-8601 duration such as P7D or PT12H; BadRequest."""
    try:
        return msgspec.convert(text, timedelta)
    except msgspec.ValidationError:
        raise BadRequest(f"{field}: '{text[:80]}' is not a duration, such as P7D or PT12H.") from None
