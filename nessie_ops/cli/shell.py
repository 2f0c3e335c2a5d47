"""The shell of `nessie-ops sql`: a prompt that names the reference, a history, and completion of words and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from nessie_ops.cli.connection import OpenClient
from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.runtime.home import get_home
from nessie_ops.sql import Result, SqlSession, parse
from nessie_ops.sql.help import SYNTAX, explain

_WORD = re.compile(r"[\w.:/-]+")
_CONNECT = re.compile(r"CONNECT\s+TO\s+(\S+?)(?:\s+ON\s+(\S+?))?", re.IGNORECASE)
_HELP = re.compile(r"HELP\b(.*)", re.IGNORECASE | re.DOTALL)
_EXIT = re.compile(r"EXIT|QUIT", re.IGNORECASE)
_MOST = 200  # names offered
KEYWORDS = sorted({word for text in SYNTAX.values() for word in re.findall(r"[A-Z]{2,}", text)})


class Names(Completer):
    """Keywords and, after a letter, the references of the catalog and the keys that the session sees."""

    def __init__(self, session: SqlSession) -> None:
        self.session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        begun = document.get_word_before_cursor(pattern=_WORD)
        for word in KEYWORDS:
            if begun and word.startswith(begun.upper()):
                yield Completion(word, -len(begun))
        for name in self._list_names(begun) if begun else ():
            yield Completion(name, -len(begun))

    def _list_names(self, begun: str) -> list[str]:
        client = self.session.client
        with suppress(NessieOpsError):  # a prompt goes on without a server
            references = [row.name for row in client.list_references(prefix=begun, limit=_MOST)]
            open = self.session.transaction  # which would count what is offered as read
            at = open.base_hash if open else client.resolve(self.session.ref).hash
            entries = client.list_entries(at, limit=1000)
            return references + [str(row.name) for row in entries if str(row.name).startswith(begun)][:_MOST]
        return []


def run_shell(session: SqlSession, open_client: OpenClient, show: Callable[[Result], None]) -> None:
    """Read and carry out lines until EXIT or the end of the input; an error is told, and the shell goes on.

    A transaction that is open then is rolled back.
    """
    names = Names(session)
    prompt: PromptSession[str] = PromptSession(history=_open_history(), completer=names, complete_while_typing=False)
    typer.echo("HELP explains the statements, EXIT ends.")
    with ExitStack() as stack:
        stack.callback(session.close)
        while True:
            try:
                line = prompt.prompt(f"{names.session.ref}> ").strip().removesuffix(";").strip()
            except KeyboardInterrupt:  # gives the line up
                continue
            except EOFError:
                return
            if _EXIT.fullmatch(line):
                return
            try:
                names.session = _carry_out(line, names.session, open_client, stack, show)
            except NessieOpsError as error:
                typer.echo(error.message, err=True)


def _carry_out(
    line: str, session: SqlSession, open_client: OpenClient, stack: ExitStack, show: Callable[[Result], None]
) -> SqlSession:
    """The session to go on with."""
    if connect := _CONNECT.fullmatch(line):
        if session.transaction:
            raise BadRequest(f"CONNECT: transaction {session.transaction.id} is open; COMMIT or ROLLBACK it first.")
        client = stack.enter_context(open_client(connect[1].strip("\"'`"), ""))
        made = SqlSession(client, ref=connect[2] or "")
        stack.callback(made.close)
        return made
    if asked := _HELP.fullmatch(line):
        typer.echo(explain(asked[1]))
        return session
    for statement in parse(line):
        show(session.execute(statement))
    return session


def _open_history() -> History:
    """The lines of earlier shells; only of this one when the home has no folder."""
    home = get_home()
    return FileHistory(str(home / "sql_history")) if home.is_dir() else InMemoryHistory()
