"""Assembles the `nessie-ops` command: what there is, and from where it is loaded.  Ends the process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from nessie_ops.cli.connection import OpenClient, no_client
from nessie_ops.cli.exits import CLOSED_PIPE, FAILED, code_of, end_output, fail, forget_output
from nessie_ops.cli.lazy import Command, lazy_group
from nessie_ops.cli.output import print_version
from nessie_ops.cli.serve import Serve, make_serve
from nessie_ops.errors import NessieOpsError

IsInUse = Callable[[str], bool]
"""Whether a run works on the branch of this name."""


def build_app(
    serve: Serve,
    is_in_use: IsInUse = lambda name: False,
    open_client: OpenClient = no_client,
    more: Mapping[str, Command] | None = None,
) -> typer.Typer:
    """The command line, with `more` commands of the caller's.

    `serve` runs the server in the foreground, `is_in_use` tells whether a run needs a branch, and `open_client`
    a client of the server at a URI or of one in this process over a database.
    """
    app = typer.Typer(
        name="nessie-ops",
        cls=lazy_group(_commands(serve, is_in_use) | dict(more or {})),
        help="Branch-per-run data operations on a Git-like catalog for Apache Iceberg tables.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"obj": open_client},
    )
    app.callback()(_options)
    return app


def _commands(serve: Serve, is_in_use: IsInUse) -> dict[str, Command]:
    return {
        "serve": Command(
            "Run the catalog's server: Nessie REST at /api/v2, Iceberg REST at /iceberg, readiness at /health.",
            lambda: make_serve(serve),
        ),
        "branch": Command("Branches: list, create, delete, assign, validate and reap.", _make_branch(is_in_use)),
        "tag": Command("Tags: list, create, delete and assign.", _get("references:make_tag", call=True)),
        "log": Command("Show commits, newest first.", _get("inspect:log")),
        "show": Command("Show a table, view, namespace or other content of a reference.", _get("show:show")),
        "contents": Command("List tables, views, namespaces and other contents.", _get("inspect:contents")),
        "entries": Command("List tables, views and namespaces.", _get("inspect:entries")),
        "diff": Command("Show keys that differ: + added, - removed, ~ changed.", _get("inspect:diff")),
        "merge": Command("Merge a branch, tag or commit into a branch, as one commit.", _get("merge:merge")),
        "transplant": Command(
            "Apply what each of some commits changed to a branch, as one new commit each.", _get("merge:transplant")
        ),
        "revert": Command(
            "Undo a commit, or put single keys back to an older state, by a new commit.", _get("revert:revert")
        ),
        "txn": Command("Transactions over many tables, each on a branch of its own.", _get("txn:app")),
        "check": Command("Check that what the catalog points to is there.", _get("check:app")),
        "events": Command("Webhooks that are told of every change of a reference.", _get("events:app")),
        "gc": Command(
            "Delete data files that no branch, tag or kept commit can reach.  Logs go to standard error.",
            _get("gc:app"),
        ),
        "merge-request": Command(
            "Branches that wait to be merged until checks vouch for them.", _get("mergerequest:app")
        ),
        "store": Command("Look after the database of a catalog.", _get("store:app")),
        "why": Command(
            "Tell where a table's data comes from: the commit, the run, its checks and the version of the code.",
            _get("provenance:why"),
        ),
        "reference": Command("Print the page of all commands, as Markdown.", _get("reference:reference")),
    }


def _get(place: str, *, call: bool = False) -> Callable[[], Any]:
    """What is at `module:name` of this package when it is asked for, or what a call of that returns."""
    module, _, name = place.partition(":")

    def load() -> Any:
        found = getattr(import_module(f"nessie_ops.cli.{module}"), name)
        return found() if call else found

    return load


def _make_branch(is_in_use: IsInUse) -> Callable[[], Any]:
    def load() -> Any:
        from nessie_ops.cli.branch import make_branch

        return make_branch(is_in_use)

    return load


def run(app: typer.Typer) -> None:
    """Run the command line of this process; an error of ours, or of a file, is one line and an exit code."""
    try:
        try:
            app()
        except SystemExit as ended:
            if ended.code == CLOSED_PIPE:
                forget_output()
            else:
                end_output()
            raise
    except NessieOpsError as error:
        fail(error.message, code_of(error, next((word for word in sys.argv[1:] if word[:1] != "-"), "")))
    except OSError as error:  # a full disk, a file that may not be written
        fail(": ".join(filter(None, (error.filename and str(error.filename), error.strerror or str(error)))), FAILED)


def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    pass
