"""`nessie-ops sql`: statements about branches, tags, merges and contents, from options, a script or a shell."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from nessie_ops.cli.connection import AsJson, OpenClient, StoreUrl, Uri, reference_option, with_names_near
from nessie_ops.cli.output import print_rows
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.sql import Result, SqlSession, SqlSyntaxError, parse
from nessie_ops.sql.statements import Statement

_MAX_CELL = 100  # characters of a cell for people


def make_sql(open_client: OpenClient) -> Callable[..., None]:
    def command(
        texts: Annotated[
            list[str] | None, typer.Option("--command", "-c", help="Carry out these statements; repeatable.")
        ] = None,
        script: Annotated[
            str, typer.Option("--script", "-s", metavar="FILE", help="Carry out a file's statements; - is the input.")
        ] = "",
        ref: Annotated[str, reference_option("--ref", "-r", help="Where to begin, as USE does.")] = "",
        go_on: Annotated[bool, typer.Option("--continue-on-error", "-E", help="Go on after a failure.")] = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        """Carry out SQL statements about branches, tags, merges and contents; without any, in a shell.

        A statement that fails ends the command with its error's exit code, or with 1 if the others were carried out
        nevertheless, or if it cannot be read.
        """
        given = [*(texts or []), *([_read(script)] if script else [])]
        statements = _read_all(given or [sys.stdin.read()]) if given or not sys.stdin.isatty() else []
        with open_client(uri, store) as client, with_names_near(client):
            if statements:
                with closing(SqlSession(client, ref=ref)) as session:
                    raise typer.Exit(int(_run(session, statements, go_on=go_on, as_json=as_json)))
            from nessie_ops.cli.shell import run_shell  # here, as no other command needs a terminal

            run_shell(SqlSession(client, ref=ref), open_client, lambda result: show(result, as_json))

    return command


def _read(script: str) -> str:
    try:
        return sys.stdin.read() if script == "-" else Path(script).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"--script: '{script}' is not text in UTF-8: {error.reason} at byte {error.start}.") from None


def _read_all(texts: list[str]) -> list[Statement]:
    """What cannot be read is told, with its line, before anything is done."""
    try:
        statements = [statement for text in texts for statement in parse(text)]
    except SqlSyntaxError as error:
        typer.echo(f"nessie-ops: {error.message}", err=True)
        raise typer.Exit(1) from None
    if not statements:
        raise BadRequest("there is no statement in the input.")
    return statements


def _run(session: SqlSession, statements: list[Statement], *, go_on: bool, as_json: bool) -> bool:
    """Whether a statement failed."""
    failed = False
    for statement in statements:
        try:
            show(session.execute(statement), as_json)
        except NessieOpsError as error:
            if not go_on:
                raise
            failed = True
            typer.echo(f"nessie-ops: {error.message}", err=True)
    return failed


def show(result: Result, as_json: bool) -> None:
    """Print a table: columns under their names, or a line of JSON."""
    if as_json:
        typer.echo(msgspec.json.encode([dict(zip(result.columns, row)) for row in result.rows]).decode())
    elif result.columns == ("content",):
        typer.echo(result.rows[0][0])
    else:
        print_rows([result.columns, *([_to_cell(value) for value in row] for row in result.rows)])


def _to_cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, dict):
        value = ", ".join(f"{name}={text}" for name, text in value.items())
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"
