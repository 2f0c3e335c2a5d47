"""`nessie-ops branch`: what tags have, too; and branches are reaped, and validated and merged on demand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog, reference_argument, reference_option
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.cli.references import add_commands
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import VALIDATE, Branch, ReferenceType

IsInUse = Callable[[str], bool]
"""Whether a run works on the branch of this name."""


def make_branch(is_in_use: IsInUse) -> typer.Typer:
    """The commands; `reap` leaves alone what is in use."""
    app = typer.Typer(help="Branches: list, create, delete, assign, validate and reap.", no_args_is_help=True)
    add_commands(app, ReferenceType.BRANCH)
    app.command("validate")(validate_branch)
    app.command("reap")(_make_reap(is_in_use))
    return app


def validate_branch(
    name: Annotated[str, reference_argument("Name of the branch.")],
    target: Annotated[str, reference_option("--into", help="Where to.  [default: the default branch]")] = "",
    off: Annotated[bool, typer.Option("--off", help="No longer; what is under way goes on.")] = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Have each commit of a branch validated by Dagster's sensor, and merged when its checks are green."""
    with open_catalog(uri, store) as catalog:
        into = target or catalog.default_branch
        if into == name:
            raise BadRequest(f"--into: '{name}' cannot be merged into itself.")
        if not isinstance(catalog.get_reference(name), Branch):
            raise BadRequest(f"'{name}' is a tag; only a branch can be validated.")
        catalog.get_reference(into)
        done = catalog.update_properties(name, {} if off else {VALIDATE: into}, (VALIDATE,) if off else ())
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{name} is {'no longer ' if off else ''}validated{'' if off else f' for {into}'}")


def _make_reap(is_in_use: IsInUse) -> Callable[..., None]:
    def reap(
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which would be deleted.")] = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        """Delete the branches of nessie-ops whose `expires_at` has passed, but for those that somebody needs."""
        from nessie_ops.mergerequests import MergeRequests  # here, as they load a database's libraries
        from nessie_ops.mergerequests.leases import reap_expired

        with open_catalog(uri, store) as catalog:
            requests = catalog if isinstance(catalog, NessieClient) else MergeRequests(catalog)
            found = reap_expired(catalog, requests, datetime.now(UTC), is_in_use, dry_run=dry_run)
        if as_json:
            print_json(found)
            return
        rows = [("would be deleted" if dry_run else "deleted", name, "") for name in found.deleted]
        rows += [("would be closed" if dry_run else "closed", f"merge request {number}", "") for number in found.closed]
        rows += [("kept", name, why) for name, why in found.kept.items()]
        rows += [("kept", name, f"expires_at: '{text}' is no time") for name, text in found.unreadable.items()]
        print_rows(rows)

    return reap
