"""`nessie-ops gc`: garbage collection of data files, with the commands of nessie-gc."""

from __future__ import annotations

from typing import Any

import typer

from nessie_ops.cli.gc import about, deferred, listing, marking, schema, sweeping, why
from nessie_ops.cli.gc.groups import Version

app = typer.Typer(
    help="Delete data files that no branch, tag or kept commit can reach.  Logs go to standard error.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[tuple[str, ...], Any] = {  # the first name is shown
    ("help",): about.help_,
    ("mark-live", "identify", "mark"): marking.mark_live,
    ("sweep", "expire"): sweeping.sweep,
    ("gc",): sweeping.gc,
    ("list",): listing.list_live_sets,
    ("delete",): listing.delete,
    ("list-deferred",): listing.list_deferred,
    ("deferred-deletes",): deferred.deferred_deletes,
    ("show",): listing.show,
    ("why",): why.why,
    ("show-sql-create-schema-script",): schema.show_script,
    ("create-sql-schema",): schema.create_sql_schema,
    ("completion-script",): about.completion_script,
    ("show-licenses",): about.show_licenses,
}


@app.callback()
def _options(show_version: Version = False) -> None:
    pass


for names, function in _COMMANDS.items():
    for position, name in enumerate(names):
        app.command(name, hidden=position > 0)(function)
