"""What a CEL filter may say and cost, read off its text: names, fields, and how much work it can cause.

The CEL library finds an unknown name only when an evaluation reaches it, and does not bound its work.
So that a filter is right or wrong whatever the listing holds, names and fields are checked here against
an example of the variables; so that one short text cannot keep a server busy for hours, macros are
counted: a `map` or `filter` copies its list for each element, and nested macros multiply.
Knows no CEL beyond its tokens; a text has been compiled before it gets here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nessie_ops.errors import BadRequest

MAX_LENGTH = 2000  # characters
MAX_MACROS = 8
MAX_COPIES = 2  # `map` and `filter`: each can multiply the length of a text
MAX_NESTING = 2
LONG_LISTS = frozenset({"operations"})  # as long as a commit is: not to be walked for each element of another

MACROS = frozenset({"all", "exists", "exists_one", "map", "filter"})
COPYING = frozenset({"map", "filter"})
TYPES = frozenset({"bool", "bytes", "double", "duration", "int", "list", "map", "null_type", "string", "timestamp"})
TYPE_NAMES = TYPES | {"type", "uint"}
FUNCTIONS = TYPES - {"list", "map", "null_type"} | {
    *("contains", "dyn", "endsWith", "matches", "size", "startsWith", "type", "uint"),
    *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours"),
    *("getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
}
_FREE_MAPS = frozenset({"properties", "allProperties"})  # any key may be in them

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*)"
    r"|(?P<string>(?:[rR][bB]?|[bB][rR])(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|\"[^\"\n]*\"|'[^'\n]*')"
    r"|[bB]?(?:\"{3}(?:\\.|[\s\S])*?\"{3}|'{3}(?:\\.|[\s\S])*?'{3}|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))"
    r"|(?P<number>0[xX][0-9a-fA-F]+[uU]?|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[uU]?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>[\s\S])"
)
_UNKNOWN: Any = object()


class _Token(NamedTuple):
    kind: str
    text: str


_END = _Token("end", "")


def check_rules(
    text: str, variables: Sequence[str], functions: Sequence[str], example: Mapping[str, Any]
) -> frozenset[str]:
    """The names of the macros in `text`; BadRequest when a name or field is unknown, or it may cost too much.

    `variables` and `functions` are the names that the compiled text refers to, operators included;
    `example` has a value of its type for every variable and field.
    """
    for function in functions:
        if function[0].isalpha() and function not in FUNCTIONS:
            raise BadRequest(f"filter: the function '{function}' does not exist; CEL's standard functions do.")
    reader = _Reader(text, example)
    reader.check_work()
    bound = reader.check_fields()
    for variable in variables:
        if variable not in bound and variable not in example and variable not in TYPE_NAMES:
            known = ", ".join(sorted(example))
            raise BadRequest(f"filter: the variable '{variable}' does not exist here; these do: {known}.")
    return frozenset(macro for macro, _ in reader.macros())


class _Reader:
    def __init__(self, text: str, example: Mapping[str, Any]) -> None:
        found = (_Token(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(text))
        self._tokens = [token for token in found if token.kind != "space"]
        self._example = example

    def _at(self, index: int) -> _Token:
        return self._tokens[index] if 0 <= index < len(self._tokens) else _END

    def _is_macro(self, index: int) -> bool:
        token = self._at(index)
        called = self._at(index - 1).text == "." and self._at(index + 1).text == "("
        return called and token.kind == "name" and token.text in MACROS

    def macros(self) -> list[tuple[str, int]]:
        """(macro, nesting) in order of their begin; the outermost have nesting 1."""
        found, open_parens = [], [""]
        for index, token in enumerate(self._tokens):
            if token.text == "(":
                open_parens.append(self._at(index - 1).text if self._is_macro(index - 1) else "")
                if open_parens[-1]:
                    found.append((open_parens[-1], sum(map(bool, open_parens))))
            elif token.text == ")" and len(open_parens) > 1:
                open_parens.pop()
            elif token.text in LONG_LISTS and any(open_parens) and self._at(index - 1).text != ".":
                raise BadRequest(f"filter: '{token.text}' cannot be used inside a macro.")
        return found

    def check_work(self) -> None:
        found = self.macros()
        if len(found) > MAX_MACROS:
            raise BadRequest(f"filter: it has {len(found)} macros; at most {MAX_MACROS} are allowed.")
        if max((nesting for _, nesting in found), default=0) > MAX_NESTING:
            raise BadRequest(f"filter: macros are nested more than {MAX_NESTING} deep.")
        copying = [index for index, (macro, _) in enumerate(found) if macro in COPYING]
        if len(copying) > MAX_COPIES:
            raise BadRequest(f"filter: map and filter are used {len(copying)} times; at most {MAX_COPIES} are allowed.")
        for index in copying:
            inner = index + 1 < len(found) and found[index + 1][1] > found[index][1]
            if found[index][1] > 1 or inner:
                raise BadRequest("filter: map and filter cannot be nested in, or hold, another macro.")

    def check_fields(self) -> set[str]:
        """The names that macros bind; BadRequest for a field that no value of its kind has."""
        scope, bound = dict(self._example), set()
        for index, token in enumerate(self._tokens):
            if self._is_macro(index) and self._at(index + 2).kind == "name":
                bound.add(self._at(index + 2).text)
            if token.kind == "name" and self._at(index - 1).text != "." and self._at(index + 1).text != "(":
                self._check_chain(index, scope)
        return bound

    def _check_chain(self, index: int, scope: dict[str, Any]) -> None:
        """Follow `a.b[0].c` from its first name; a macro at its end gives its element to the name that it binds."""
        path = self._at(index).text
        value = scope.get(path, _UNKNOWN)
        index += 1
        while self._at(index).text in (".", "["):
            if self._at(index).text == "[":
                value, index = _element(value), self._after_bracket(index)
                continue
            name = self._at(index + 1).text
            if self._at(index + 2).text == "(":
                if self._is_macro(index + 1):
                    variable = self._at(index + 3).text
                    scope[variable] = _UNKNOWN if variable in scope else _element(value)
                return
            value, index = _field(value, path, name), index + 2
            path = f"{path}.{name}"

    def _after_bracket(self, index: int) -> int:
        depth = 0
        while self._at(index) is not _END:
            depth += {"[": 1, "]": -1}.get(self._at(index).text, 0)
            index += 1
            if depth == 0:
                break
        return index


def _element(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else _UNKNOWN


def _field(value: Any, path: str, name: str) -> Any:
    if value is _UNKNOWN or path.rpartition(".")[2] in _FREE_MAPS:
        return _UNKNOWN
    if not isinstance(value, dict) or name not in value:
        kind = f"; these do: {', '.join(sorted(value))}" if isinstance(value, dict) else ""
        raise BadRequest(f"filter: '{path}' has no field '{name}'{kind}.")
    return value[name]
