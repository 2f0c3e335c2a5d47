"""Every command has help and an example that can be read, and docs/cli.md is made of them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from nessie_ops.__main__ import make_app
from nessie_ops.cli.examples import EXAMPLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cli.md"
APP = typer.main.get_command(make_app())
RUNS_ALONE = {"run"}  # groups that are commands, too


def commands(group: Any, *path: str) -> dict[str, Any]:
    """All commands that can be carried out, by what is typed, hidden other names left out."""
    inner = getattr(group, "commands", None)
    found = {} if inner and " ".join(path) not in RUNS_ALONE else {" ".join(path): group}
    for name, command in (inner or {}).items():
        found |= {} if command.hidden else commands(command, *path, name)
    return found


COMMANDS = commands(APP)


def read(line: str) -> str:
    """The command that a line runs; the parser's error when it cannot be read."""
    program, *words = shlex.split(line)
    assert program == "nessie-ops"
    command, context, path = APP, APP.make_context(program, list(words)), []
    while getattr(command, "commands", None) and context._protected_args + context.args:
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        path.append(name)
        context = command.make_context(name, list(words), parent=context)
    return " ".join(path)


@pytest.mark.parametrize("path", COMMANDS)
def test_the_example_of_a_command_can_be_read(path: str) -> None:
    label, _, line = (COMMANDS[path].epilog or "").rpartition("\n\n")[2].partition(": ")
    assert label == "Example" and read(line) == path


def test_there_are_examples_of_commands_alone() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize(
    "line",
    ["nessie-ops log --lmit 5", "nessie-ops tag assign v1", "nessie-ops log -n x", "nessie-ops brnch", "nessie-ops"],
)
def test_an_example_that_cannot_be_read_is_seen(line: str) -> None:
    with pytest.raises(Exception) as error:
        read(line)
    assert error.value.exit_code == 2  # type: ignore[attr-defined]


def test_every_command_argument_and_option_has_help() -> None:
    for path, command in COMMANDS.items():
        assert command.help and all(parameter.help for parameter in command.params), path


def test_the_list_of_commands_says_what_each_help_says() -> None:
    for name, shown in APP._shown.items():  # type: ignore[attr-defined]
        first = APP.commands[name].help.partition("\n\n")[0]  # type: ignore[attr-defined]
        assert " ".join(first.split()) == " ".join(shown.help.split()), name


def test_the_page_is_made_of_the_helps() -> None:
    for width in ("60", "200"):
        result = CliRunner().invoke(make_app(), ["reference"], env={"COLUMNS": width, "TERMINAL_WIDTH": width})
        assert result.stdout == PAGE.read_text(), "run: nessie-ops reference > docs/cli.md"


def test_the_list_of_commands_loads_none_of_them() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from nessie_ops.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code\n"
        "heavy = {'sqlalchemy', 'litestar', 'pyiceberg', 'lark', 'dagster', 'pyspark', 'prompt_toolkit', 'cel'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and "merge-request" in done.stdout, done.stderr
