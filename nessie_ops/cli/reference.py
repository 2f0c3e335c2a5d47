"""`nessie-ops reference`: the page of all commands, docs/cli.md, made of their helps and nothing else.

It does not depend on the width of a terminal, the environment or the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri
from nessie_ops.cli.exits import MEANINGS

_COMMON = {"uri": ("--uri", Uri), "store": ("--store", StoreUrl), "as_json": ("--json", AsJson)}
_HEAD = """\
# The command line

This page is made of the helps of `nessie-ops`, by `nessie-ops reference > docs/cli.md`; a test compares the two.

`nessie-ops COMMAND --help` explains a command. `nessie-ops --install-completion` lets the shell complete commands,
options and the names of branches and tags.

## What all commands have in common

{common}

- An option goes before the environment: with `--store` no server is asked that only `NESSIE_OPS_URI` names.
- A commit is named by {spec}; `-` is the default branch.
- Tables for people have a header and are folded on a terminal alone: in a pipe they are rows, with columns divided by
  two or more blanks. With `--json` standard output is JSON and nothing else, with the names of the REST API
  ([server.md](server.md)); a list is complete up to `--limit`. Errors, questions and progress go to standard error.
- `--dry-run` reads, checks and tells, and writes nothing.

| exit code | meaning |
|---|---|
{codes}

`gc` ([gc.md](gc.md)), `ci` ([use/ci.md](use/ci.md)) and `run` have codes of their own, told there and in their helps;
for `gc` and `run` any other error is a 1. A command line that cannot be read is a 2 everywhere.
"""


def reference(context: typer.Context) -> None:
    """Print the page of all commands, as Markdown."""
    typer.echo(render(context.find_root()), nl=False)


def render(root: Any) -> str:
    """The page of all commands below the context of the first one."""
    sections = "\n".join(_section(root, root.command, ()))
    return f"{_head()}\n{sections}"


def _head() -> str:
    common = "\n".join(_describe_common(*known) for known in _COMMON.values())
    codes = "\n".join(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())
    return _HEAD.format(
        common=common, codes=codes, spec="a branch, a tag, `@HASH`, or one of them with `~N` or `*TIME`"
    )


def _describe_common(name: str, annotation: Any) -> str:
    info = _info(annotation)
    return f"- `{name}`{f' or `{info.envvar}`' if info.envvar else ''}: {info.help}"


def _info(annotation: Any) -> Any:
    return next(iter(annotation.__metadata__))


def _section(parent: Any, command: Any, path: tuple[str, ...]) -> Iterator[str]:
    """The Markdown of a command and all below it that are not hidden."""
    context = parent if not path else type(parent)(command, info_name=path[-1], parent=parent)
    if path:
        yield from _describe(context, command, path)
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        inner = command.get_command(context, name)
        if not inner.hidden:
            yield from _section(context, inner, (*path, name))


def _describe(context: Any, command: Any, path: tuple[str, ...]) -> Iterator[str]:
    yield f"{'#' * (len(path) + 1)} nessie-ops {' '.join(path)}\n"
    yield f"{_escape(_flow(command.help))}\n"
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece]
    usage = " ".join(["nessie-ops", *path, *pieces])
    told, _, example = (command.epilog or "").rpartition("Example: ")
    yield f"```\n{usage}\n{f'{example}' if example else ''}".rstrip() + "\n```\n"
    yield f"{told.strip()}\n" if told else ""
    lines = [line for param in command.params if (line := _param(context, param))]
    if lines:
        yield "\n".join(lines) + "\n"


def _flow(text: str) -> str:
    """Paragraphs as one line each."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _param(context: Any, param: Any) -> str:
    """A list item for an argument or option; nothing for those that all commands have."""
    if param.name in ("help", "version", "show_version") or _is_common(param):
        return ""
    is_option = param.param_type_name == "option"
    names = [f"`{name}`" for name in [*param.opts, *param.secondary_opts]] if is_option else [f"`{_upper(param)}`"]
    value = f" `{_value(context, param)}`" if is_option and not param.is_flag else ""
    notes = [
        "required" if param.required else "",
        f"default `{_default(param)}`" if _has_default(param) else "",
        f"or `{param.envvar}`" if param.envvar else "",
    ]
    told = ", ".join(filter(None, notes))
    help = _escape(" ".join((param.help or "").split()))
    return f"- {', '.join(names)}{value}: {help}{f' ({told})' if told else ''}"


def _upper(param: Any) -> str:
    return str(param.metavar or param.name.upper())


def _value(context: Any, param: Any) -> str:
    return str(param.metavar or param.display_type(context))


def _is_common(param: Any) -> bool:
    known = _COMMON.get(param.name)
    return known is not None and param.help == _info(known[1]).help


def _has_default(param: Any) -> bool:
    if param.param_type_name == "option" and (param.is_flag or param.show_default is False):
        return False
    return param.default not in (None, "", (), [])


def _default(param: Any) -> str:
    return str(getattr(param.default, "value", param.default))


def _escape(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", "\\|")
