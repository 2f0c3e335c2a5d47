"""Assembles the `nessie-ops` command; further commands are added to what `build_app` returns."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nessie_ops.cli import apply, branch, check, events, gc, inspect, mergerequest, provenance, store
from nessie_ops.cli.output import print_version
from nessie_ops.cli.serve import Serve, make_serve
from nessie_ops.errors import NessieOpsError


def build_app(serve: Serve, is_in_use: branch.IsInUse = lambda name: False) -> typer.Typer:
    """The command line; `serve` runs the server in the foreground, `is_in_use` tells whether a run needs a branch."""
    app = typer.Typer(
        name="nessie-ops",
        help="Branch-per-run data operations on a Git-like catalog for Apache Iceberg tables.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    app.command("serve")(make_serve(serve))
    app.add_typer(branch.make_branch(is_in_use), name="branch")
    app.add_typer(check.app, name="check")
    app.add_typer(events.app, name="events")
    app.add_typer(gc.app, name="gc")
    app.add_typer(mergerequest.app, name="merge-request")
    app.add_typer(store.app, name="store")
    for name, command in (inspect.COMMANDS | apply.COMMANDS | provenance.COMMANDS).items():
        app.command(name)(command)
    return app


def run(app: typer.Typer) -> None:
    """Run the command line of this process; an error of ours, or of a file, is one line and exit code 1."""
    try:
        app()
    except NessieOpsError as error:
        _fail(error.message)
    except OSError as error:  # a full disk, a file that may not be written
        _fail(": ".join(filter(None, (error.filename and str(error.filename), error.strerror or str(error)))))


def _fail(message: str) -> None:
    print(f"nessie-ops: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(1)


def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass
