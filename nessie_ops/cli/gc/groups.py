"""Options that several commands share: a parameter that is a NamedTuple of options becomes those options."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_args, get_type_hints

import typer

from nessie_ops.cli.output import print_version

Texts = list[str] | None
Version = Annotated[
    bool, typer.Option("-V", "--version", help="Print the version and exit.", callback=print_version, is_eager=True)
]


def option(*names: str, help: str, env: bool = True, **more: Any) -> Any:
    """An option whose value may also be in NESSIE_GC_ and its long name, as in `NESSIE_GC_DEFAULT_CUTOFF`."""
    long = next(name for name in names if name.startswith("--")).partition("/")[0]
    variable = _variable(long.removeprefix("--")) if env else None
    return typer.Option(*names, help=help, envvar=variable, show_default=False, show_envvar=False, **more)


def options(*names: str, help: str) -> Any:
    """An option that may be repeated.  `command` reads its variable, which typer would divide at blanks."""
    return option(*names, help=help, env=False)


def _variable(name: str) -> str:
    return f"NESSIE_GC_{name.upper().replace('-', '_')}"


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A function that typer can make a command of, with `-V`."""
    groups: dict[str, Any] = {}
    parameters: dict[str, Parameter] = {}
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in signature(function).parameters.items():
        if hasattr(hints[name], "_fields"):
            groups[name] = hints[name]
            parameters |= _fields_of(hints[name])
        else:
            parameters[name] = parameter.replace(annotation=hints[name], kind=Parameter.KEYWORD_ONLY)
    parameters["show_version"] = Parameter("show_version", Parameter.KEYWORD_ONLY, default=False, annotation=Version)

    lists = [name for name, parameter in parameters.items() if get_args(parameter.annotation)[:1] == (Texts,)]

    @wraps(function)
    def call(**options: Any) -> None:
        del options["show_version"]
        for name in lists:
            text = os.environ.get(_variable(name), "")
            options[name] = options[name] or ([text] if text else None)
        values = {
            name: group(**{field: options.pop(field) for field in group._fields}) for name, group in groups.items()
        }
        function(**values, **options)

    call.__signature__ = signature(call).replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return call


def _fields_of(group: Any) -> dict[str, Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=group._field_defaults[name], annotation=hints[name])
        for name in group._fields
    }
