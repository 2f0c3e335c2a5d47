"""Commands that are imported when they are asked for.  What a list of them shows is known before: name and first line.

`nessie-ops --help` and the completion of a command's name so load no catalog, no database and no Dagster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from nessie_ops.cli.examples import add_examples
from nessie_ops.cli.exits import CLOSED_PIPE, INTERRUPTED


class Command(NamedTuple):
    """`help` is the first paragraph of what `load` returns: a group of commands, or the function of one."""

    help: str
    load: Callable[[], Any]


class Loaded(MutableMapping[str, Any]):
    """Click's commands by name, each made when it is first looked up."""

    def __init__(self, table: Mapping[str, Command]) -> None:
        self._table = table
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(name, self._table[name].load())
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class LazyGroup(TyperGroup):
    """The commands of `table`."""

    table: ClassVar[Mapping[str, Command]] = {}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = Loaded(self.table)
        self._shown = {name: TyperCommand(name, help=command.help) for name, command in self.table.items()}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.table)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        loaded, self.commands = self.commands, dict(self._shown)
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = loaded

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        loaded, self.commands = self.commands, dict(self._shown)
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self.commands = loaded

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:  # whoever read the output has enough
            raise typer.Exit(CLOSED_PIPE) from None
        except KeyboardInterrupt:
            typer.echo("nessie-ops: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def lazy_group(commands: Mapping[str, Command]) -> type[LazyGroup]:
    """A class of groups that have these commands, in their order."""
    return type("Commands", (LazyGroup,), {"table": commands})


def _make(name: str, loaded: Any) -> Any:
    if isinstance(loaded, typer.Typer):
        command: Any = typer.main.get_group(loaded)
    else:
        app = typer.Typer(add_completion=False)
        app.command(name)(loaded)
        command = typer.main.get_command(app)
    command.name = name
    add_examples(command, name)
    return command
