"""From text to statements.  An error points at the token that is in the way, and says what may stand there."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NoReturn

from lark import Lark, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError
from lark.lexer import TerminalDef, Token

from nessie_ops.errors import BadRequest, NessieOpsError
from nessie_ops.sql.building import Builder
from nessie_ops.sql.statements import Statement

_GRAMMAR = Path(__file__).with_name("grammar.lark")
_SHOWN = 60  # characters of a line on either side of an error
_GAP = r"(?>\s+|(?:--|//)[^\n]*+|/\*.*?\*/)"  # one piece of space or comment; not tried again in another way
_OURS = re.compile(
    rf"{_GAP}*+(?:"
    r"(?:CREATE|DROP|ASSIGN|USE) (?:BRANCH|TAG)|USE REFERENCE|SHOW (?:REFERENCE|LOG|DIFF)|LIST (?:REFERENCES|CONTENTS)"
    r"|SHOW (?:TABLE|VIEW|NAMESPACE)(?! EXTENDED)"
    r"|MERGE (?:DRY (?:RUN )?)?(?:BRANCH|TAG)|REVERT CONTENT|START TRANSACTION|COMMIT|ROLLBACK"
    r")\b".replace(" ", f"{_GAP}++"),
    re.IGNORECASE | re.DOTALL,
)
_NAMED = {
    "NAME": "a name",
    "TEXT": "a text in quotes",
    "NUMBER": "a number",
    "LEVEL": "READ COMMITTED, REPEATED READ or SERIALIZABLE",
    "SEMICOLON": "';'",
    "EQUAL": "'='",
    "COMMA": "','",
    "$END": "the end",
}


class SqlSyntaxError(BadRequest):
    """`line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line, self.column = line, column


def parse(text: str) -> list[Statement]:
    """The statements of a text, which `;` separates; SqlSyntaxError, BadRequest (a key that cannot be one)."""
    try:
        tree = _parser().parse(text)
        found: list[Statement] = Builder().transform(tree)
    except UnexpectedInput as error:
        _refuse(text, error)
    except VisitError as error:
        if isinstance(error.orig_exc, NessieOpsError):
            raise _at(text, error.obj, error.orig_exc) from None
        raise
    return found


def is_statement(text: str) -> bool:
    """Whether a text begins as a statement of ours that no engine has; others are an engine's own."""
    return bool(_OURS.match(text))


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR.read_text(), parser="lalr", lexer="contextual", propagate_positions=True)


def _refuse(text: str, error: UnexpectedInput) -> NoReturn:
    if isinstance(error, UnexpectedToken):
        found = "the text ends" if error.token.type == "$END" else f"'{_shorten(str(error.token))}' is in the way"
    else:
        assert isinstance(error, UnexpectedCharacters)
        word = re.match(r"[\w.:/-]+|.", text[error.pos_in_stream :], re.DOTALL)
        found = f"'{_shorten(word[0] if word else '')}' is in the way"
    line, column = _position(text, error)
    names = sorted(map(_describe, _accepted(text)))
    raise _error(text, f"{found}; there may stand {_join(names)}", line, column)


def _accepted(text: str) -> set[str]:
    """The terminals that may stand where the first error of a text is; there is one always, were it the end."""
    interactive = _parser().parse_interactive(text)
    with suppress(UnexpectedInput):
        interactive.exhaust_lexer()
    accepted: set[str] = interactive.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _position(text: str, error: UnexpectedInput) -> tuple[int, int]:
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        lines = text.rstrip().split("\n")
        return len(lines), len(lines[-1]) + 1
    return error.line, error.column


def _at(text: str, where: Tree[Token] | Token, error: NessieOpsError) -> NessieOpsError:
    """A value that is refused, with where it stands."""
    line, column = (where.meta.line, where.meta.column) if isinstance(where, Tree) else (where.line, where.column)
    return _error(text, error.message, line or 1, column or 1)


def _error(text: str, what: str, line: int, column: int) -> SqlSyntaxError:
    shown = (text.split("\n") or [""])[line - 1]
    start = max(0, column - 1 - _SHOWN)
    marked = f"{shown[start : column - 1 + _SHOWN]}\n{' ' * (column - 1 - start)}^"
    return SqlSyntaxError(f"line {line}, column {column}: {what.rstrip('.')}.\n{marked}", line, column)


def _describe(name: str) -> str:
    if name in _NAMED:
        return _NAMED[name]
    if name.startswith("_"):
        return name[1:]
    pattern = _terminals()[name].pattern.value
    words = re.match(r"\(([A-Z|]+)\)", pattern)
    return words[1].replace("|", " or ") if words else pattern


@cache
def _terminals() -> dict[str, TerminalDef]:
    return {terminal.name: terminal for terminal in _parser().terminals}


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
