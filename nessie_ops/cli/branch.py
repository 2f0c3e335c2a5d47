"""`nessie-ops branch`: list, create and delete branches."""

from __future__ import annotations

from typing import Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.model import QUARANTINED, Branch, ReferenceType, parse_hash

app = typer.Typer(help="List, create and delete branches.", no_args_is_help=True)


@app.command("list")
def list_branches(
    prefix: Annotated[str, typer.Option(help="Only branches whose name begins so.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List branches with their heads, and why a branch is quarantined."""
    with open_catalog(uri, store) as catalog:
        branches = [found for found in catalog.list_references(prefix=prefix) if isinstance(found, Branch)]
    if as_json:
        print_json(branches)
    else:
        reasons = [branch.properties.get(QUARANTINED) for branch in branches]
        notes = [f"quarantined: {reason}" if reason is not None else "" for reason in reasons]
        print_rows([(branch.name, branch.hash[:16], note) for branch, note in zip(branches, notes)])


@app.command("create")
def create_branch(
    name: Annotated[str, typer.Argument(help="Name of the new branch.")],
    source: Annotated[str, typer.Option("--from", help="Where it begins, such as main, main~2 or @HASH.")] = "-",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Create a branch; one row, whatever the size of the catalog."""
    with open_catalog(uri, store) as catalog:
        created = catalog.create_reference(ReferenceType.BRANCH, name, catalog.resolve(source).hash)
    print_json(created) if as_json else typer.echo(f"created {created.name} at {created.hash}")


@app.command("delete")
def delete_branch(
    name: Annotated[str, typer.Argument(help="Name of the branch.")],
    expected: Annotated[str, typer.Option(help="Delete only if the head is this commit.", metavar="HASH")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Delete a branch.  Its commits stay until they are collected."""
    with open_catalog(uri, store) as catalog:
        deleted = catalog.delete_reference(name, parse_hash(expected, "expected") if expected else None)
    print_json(deleted) if as_json else typer.echo(f"deleted {deleted.name}, which was at {deleted.hash}")
