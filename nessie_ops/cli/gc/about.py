"""`nessie-ops gc help`, `completion-script` and `show-licenses`."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any

import typer

from nessie_ops.cli.gc.groups import command, option
from nessie_ops.cli.gc.options import AsJson
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.errors import BadRequest

_SCRIPT = """\
# Completion of `nessie-ops gc` for bash and zsh: source this file.
if [ -n "$ZSH_VERSION" ]; then autoload -Uz bashcompinit && bashcompinit; fi
_nessie_ops_gc() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="gc"
    elif [ "${{COMP_WORDS[1]}}" = gc ]; then
        if [ "$COMP_CWORD" -eq 2 ]; then
            words="{commands}"
        else
            case "${{COMP_WORDS[2]}}" in
{cases}
            esac
        fi
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _nessie_ops_gc nessie-ops
"""


def help_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="COMMAND", help="Which; without it, all of them.")] = "",
) -> None:
    """Show the help of a command, or of all."""
    group: Any = context.parent
    found = group.command.get_command(group, name) if name else group.command
    if found is None:
        raise typer.BadParameter(f"there is no command '{name[:40]}'.")
    inner = found.make_context(name, ["--help"], parent=group) if name else None
    if inner is None:
        typer.echo(group.get_help())


@command
def completion_script(
    context: typer.Context,
    output_file: Annotated[str, option("-O", "--output-file", help="The script to write; required.")] = "",
    as_json: AsJson = False,
) -> None:
    """Write a script that completes commands and options in bash and zsh."""
    if not output_file:
        raise typer.BadParameter("give --output-file (-O).")
    group: Any = context.parent
    commands = {name: group.command.get_command(group, name) for name in group.command.list_commands(group)}
    cases = "\n".join(
        f'                {name}) words="{" ".join(_options_of(found))}" ;;' for name, found in commands.items()
    )
    try:
        with Path(output_file).open("x") as file:
            file.write(_SCRIPT.format(commands=" ".join(commands), cases=cases))
    except FileExistsError:
        raise BadRequest(f"output-file: {output_file} exists already.") from None
    except OSError as error:
        raise BadRequest(f"output-file: {output_file}: {error.strerror}.") from None
    print_json({"file": output_file}) if as_json else typer.echo(f"Wrote completion script to {output_file}")


def _options_of(found: Any) -> list[str]:
    return [
        name for parameter in found.params for name in [*parameter.opts, *parameter.secondary_opts] if name[0] == "-"
    ]


@command
def show_licenses(as_json: AsJson = False) -> None:
    """Show the packages in this environment, and their licenses."""
    rows = []
    for package in distributions():
        meta = package.metadata
        kinds = [text.rpartition(" :: ")[2] for text in meta.get_all("Classifier") or () if text.startswith("License")]
        named = [*(meta.get_all("License-Expression") or ()), ", ".join(kinds), *(meta.get_all("License") or ())]
        license = next(filter(None, named), "see the package").partition("\n")[0]
        rows.append((meta["Name"], package.version, license))
    rows = sorted(set(rows), key=lambda row: row[0].lower())
    if as_json:
        print_json([{"name": name, "version": version, "license": license} for name, version, license in rows])
    else:
        print_rows(rows)
