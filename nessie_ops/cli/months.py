"""`nessie-ops run` and `nessie-ops run show`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Protocol

import typer

from nessie_ops.catalog.changes import Change
from nessie_ops.catalog.runwork import find_run
from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog, reference_option
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.cli.provenance import describe_commit, open_metadata
from nessie_ops.errors import BadRequest


class RunMonth(Protocol):
    """Loads a month, or resumes a run, in this process; the exit code."""

    def __call__(self, *, month: str, source: str, resume: str, all_steps: bool, as_json: bool) -> int: ...


def make_run(run_month: RunMonth) -> typer.Typer:
    """The command that calls `run_month`, with `show` below it."""
    app = typer.Typer(help="Load a month; show what a run did.", invoke_without_command=True)
    app.callback()(_make_command(run_month))
    app.command("show")(show)
    return app


def _make_command(run_month: RunMonth) -> Callable[..., None]:
    def command(
        context: typer.Context,
        month: Annotated[str, typer.Option(help="The month to load, as YYYY-MM.")] = "",
        source: Annotated[str, typer.Option(help="Folder of the deliveries; by default the packaged ones.")] = "",
        resume: Annotated[str, typer.Option(help="A failed or cancelled run to execute again instead.")] = "",
        all_steps: Annotated[bool, typer.Option("--all-steps", help="Resume from the start.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """Load a month on a branch, check it, and publish it, in this process.

        Exit code 0: it is published; 3: it is validated, and waits to be merged by a merge request; 1: neither.
        """
        if context.invoked_subcommand:
            return
        if bool(month) == bool(resume):
            raise BadRequest("give either --month or --resume.")
        if resume and source:
            raise BadRequest("--source cannot be changed when a run is resumed.")
        code = run_month(month=month, source=source, resume=resume, all_steps=all_steps, as_json=as_json)
        raise typer.Exit(code)

    return command


def show(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")],
    target: Annotated[str, reference_option("--on", help="The branch that it publishes to; - is the default.")] = "-",
    warehouse: Annotated[str, typer.Option(envvar="NESSIE_OPS_WAREHOUSE", help="Of a store of one's own.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show all that a run wrote, which state it read, and what became of it."""
    with open_catalog(uri, store) as catalog:
        name = catalog.default_branch if target == "-" else target
        found = find_run(catalog, name, run_id, open_metadata(catalog, warehouse))
    if as_json:
        print_json(found._asdict())
        return
    print_rows([("run", found.run_id), ("state", found.state), ("branch", found.branch), ("read", found.read_at)])
    if found.commit:
        print_rows(describe_commit(found.commit))
    if found.reason:
        typer.echo(f"because {found.reason}")
    if found.together:
        typer.echo(f"written by {len(found.together)} runs together: {', '.join(found.together)}")
    print_rows([(_name(row), row.key, _count_rows(row), str(row.snapshot_after or "")) for row in found.written])
    print_rows([("", row.key, line) for row in found.written for line in row.schema])


def _name(row: Change) -> str:
    return f"{row.change} from {row.was}" if row.was else row.change


def _count_rows(row: Change) -> str:
    if row.snapshot_before == row.snapshot_after:
        return ""
    about = "" if row.is_exact else "about "
    return f"{about}+{row.added.rows:,} -{row.removed.rows:,} rows"
