"""From the parser's tree to statements: one method per rule of the grammar."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer, v_args

from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey, ContentType, Isolation, MergeBehavior, ReferenceType
from nessie_ops.sql import statements as s
from nessie_ops.sql.statements import At, AtKind, OnConflict, Place, Resolution, Selection, Statement

_TYPES = {
    "TABLE": ContentType.ICEBERG_TABLE,
    "VIEW": ContentType.ICEBERG_VIEW,
    "NAMESPACE": ContentType.NAMESPACE,
}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
Keys = tuple[ContentKey, ...]


@dataclass(frozen=True)
class _Option:
    """A clause of MERGE, which come in any order."""

    name: str
    value: Any


@v_args(inline=True)
class Builder(Transformer[Token, list[Statement]]):
    """Children come in the order of the grammar; None for what is left out."""

    def start(self, *found: Statement) -> list[Statement]:
        return list(found)

    # -- words --------------------------------------------------------------------------------

    def name(self, token: Token) -> str:
        return _unquote(token)

    value = name

    def key(self, token: Token) -> ContentKey:
        return ContentKey.from_path(_unquote(token))

    def keys(self, *found: ContentKey) -> Keys:
        return found

    def kind(self, token: Token) -> ReferenceType:
        return ReferenceType(token.upper())

    def number(self, token: Token) -> int:
        if len(token) > 9 or int(token) == 0:
            raise BadRequest(f"{token[:20]} is not a number between 1 and 999999999")
        return int(token)

    def any_kind(self, token: Token) -> ReferenceType | None:
        return None if token.upper() == "REFERENCE" else ReferenceType(token.upper())

    def at(self, kind: Token | None, value: str) -> At:
        return At(value, AtKind(kind.upper()) if kind else None)

    def place(self, name: str, at: At | None) -> Place:
        return Place(name, at)

    def on(self, name: str) -> str:
        return name

    log_of = on

    def if_exists(self) -> bool:
        return True

    if_not_exists = dry = allow_deletes = if_exists

    def setting(self, name: str, value: str) -> tuple[str, str]:
        return name, value

    def settings(self, *found: tuple[str, str]) -> tuple[tuple[str, str], ...]:
        _refuse_twice("SET", [name for name, _ in found])
        return found

    def removals(self, *found: str) -> tuple[str, ...]:
        return found

    def filter(self, token: Token) -> Selection:
        return Selection(filter=_unquote(token))

    def starting(self, value: str) -> Selection:
        return Selection(starts_with=value)

    def containing(self, value: str) -> Selection:
        return Selection(contains=value)

    def selection(self, first: Selection | None = None, second: Selection | None = None) -> Selection:
        first = first or Selection()
        return Selection(first.filter, first.starts_with, second.contains) if second else first

    # -- references ---------------------------------------------------------------------------

    def create_reference(
        self, kind: ReferenceType, new: bool | None, name: str, catalog: str | None, source: str | None, at: At | None
    ) -> Statement:
        return s.CreateReference(kind, name, Place(source, at), bool(new), catalog)

    def drop_reference(self, kind: ReferenceType, if_exists: bool | None, name: str, catalog: str | None) -> Statement:
        return s.DropReference(kind, name, bool(if_exists), catalog)

    def assign(
        self, kind: ReferenceType, name: str | None, target: str | None, at: At | None, catalog: str | None
    ) -> Statement:
        return s.AssignReference(kind, name, Place(target, at), catalog)

    def use(self, kind: ReferenceType | None, name: str, at: At | None, catalog: str | None) -> Statement:
        return s.Use(kind, Place(name, at), catalog)

    def show_reference(self, name: str | None, at: At | None, catalog: str | None) -> Statement:
        return s.ShowReference(Place(name, at), catalog)

    def list_references(self, selection: Selection, catalog: str | None) -> Statement:
        return s.ListReferences(selection, catalog)

    def show_log(self, name: str | None, at: At | None, limit: int | None, catalog: str | None) -> Statement:
        return s.ShowLog(Place(name, at), limit, catalog)

    def show_diff(self, before: Place | None, after: Place | None, limit: int | None, catalog: str | None) -> Statement:
        return s.ShowDiff(before, after or Place(), limit, catalog)

    # -- transactions -------------------------------------------------------------------------

    def start_transaction(self, level: Token | None, on: str | None, catalog: str | None) -> Statement:
        words = "_".join(level.upper().split()) if level else Isolation.SERIALIZABLE
        return s.StartTransaction(Isolation(words.replace("REPEATABLE", "REPEATED")), on, catalog)

    def commit_transaction(self, message: Token | None) -> Statement:
        return s.CommitTransaction(_unquote(message) if message else "")

    def rollback_transaction(self) -> Statement:
        return s.RollbackTransaction()

    # -- merges -------------------------------------------------------------------------------

    def merge(
        self,
        dry: bool | None,
        kind: ReferenceType,
        dry_run: bool | None,
        name: str | None,
        at: At | None,
        *options: _Option,
    ) -> Statement:
        _refuse_twice("MERGE", [option.name for option in options])
        given = {option.name: option.value for option in options}
        if "on_conflict" in given and given.keys() & {"behavior", "behaviors"}:
            raise BadRequest("ON CONFLICT says what BEHAVIOR says, too; give one of them")
        return s.MergeReference(kind, Place(name, at), dry_run=bool(dry or dry_run), **given)

    def into(self, name: str) -> _Option:
        return _Option("into", name)

    def in_catalog(self, name: str) -> _Option:
        return _Option("catalog", name)

    def behavior(self, token: Token) -> _Option:
        return _Option("behavior", MergeBehavior(token.upper()))

    def key_behavior(self, key: ContentKey, token: Token) -> tuple[ContentKey, MergeBehavior]:
        return key, MergeBehavior(token.upper())

    def behaviors(self, *found: tuple[ContentKey, MergeBehavior]) -> _Option:
        _refuse_twice("BEHAVIORS", [str(key) for key, _ in found])
        return _Option("behaviors", found)

    def exception(self, token: Token, *keys: ContentKey) -> list[tuple[ContentKey, Resolution]]:
        return [(key, Resolution(token.upper())) for key in keys]

    def on_conflict(self, token: Token, *exceptions: list[tuple[ContentKey, Resolution]]) -> _Option:
        every = tuple(pair for some in exceptions for pair in some)
        _refuse_twice("EXCEPT", [str(key) for key, _ in every])
        return _Option("on_conflict", OnConflict(Resolution(token.upper()), every))

    # -- contents -----------------------------------------------------------------------------

    def create_namespace(
        self, key: ContentKey, on: str | None, settings: tuple[tuple[str, str], ...] | None
    ) -> Statement:
        return s.CreateNamespace(key, on, settings or ())

    def alter_namespace(
        self,
        key: ContentKey,
        on: str | None,
        settings: tuple[tuple[str, str], ...] | None,
        removals: tuple[str, ...] | None,
    ) -> Statement:
        if not settings and not removals:
            raise BadRequest("ALTER NAMESPACE needs SET or REMOVE")
        return s.AlterNamespace(key, on, settings or (), removals or ())

    def drop_content(self, kind: Token, key: ContentKey, on: str | None) -> Statement:
        return s.DropContent(_TYPES[kind.upper()], key, on)

    def list_contents(self, on: str | None, at: At | None, selection: Selection) -> Statement:
        return s.ListContents(Place(on, at), selection)

    def show_content(self, kind: Token, *parts: ContentKey | str | At | None) -> Statement:
        [key] = [part for part in parts if isinstance(part, ContentKey)]
        on = next((part for part in parts if isinstance(part, str)), None)
        at = next((part for part in parts if isinstance(part, At)), None)
        return s.ShowContent(_TYPES[kind.upper()], key, Place(on, at))

    def revert_content(
        self, dry: bool | None, keys: Keys, on: str | None, state: str | None, at: At | None, deletes: bool | None
    ) -> Statement:
        if state is None and at is None:
            raise BadRequest("TO STATE needs ON or AT: where the keys have the values to go back to")
        return s.RevertContent(keys, Place(state, at), on, bool(dry), bool(deletes))


def _unquote(token: Token) -> str:
    if token.type == "NAME":
        return str(token)
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), token[1:-1])


def _refuse_twice(where: str, names: list[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise BadRequest(f"{where} has {', '.join(twice)} twice")
