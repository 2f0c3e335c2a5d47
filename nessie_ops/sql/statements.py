"""The statements, one frozen value each.  Names are as written; nothing is looked up.

`catalog` is what stands after IN; None where a clause is left out, which each statement's carrying out fills in.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nessie_ops.model import ContentKey, ContentType, Isolation, MergeBehavior, ReferenceType


class AtKind(StrEnum):
    """What the value after AT is; without a word, what it looks like."""

    COMMIT = "COMMIT"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True)
class At:
    """A commit or time: `AT [COMMIT | TIMESTAMP] value`."""

    value: str
    kind: AtKind | None = None


@dataclass(frozen=True)
class Place:
    """A reference, or its commit `at`; the name None is the reference that the session uses."""

    name: str | None = None
    at: At | None = None


@dataclass(frozen=True)
class Selection:
    """Which rows of a listing: those for which a CEL expression is true, or whose name begins so, or has this."""

    filter: str = ""
    starts_with: str = ""
    contains: str = ""


@dataclass(frozen=True)
class CreateReference:
    kind: ReferenceType
    name: str
    source: Place
    if_not_exists: bool = False
    catalog: str | None = None


@dataclass(frozen=True)
class DropReference:
    kind: ReferenceType
    name: str
    if_exists: bool = False
    catalog: str | None = None


@dataclass(frozen=True)
class AssignReference:
    kind: ReferenceType
    name: str | None
    target: Place
    catalog: str | None = None


@dataclass(frozen=True)
class Use:
    """`kind` None is any: USE REFERENCE."""

    kind: ReferenceType | None
    place: Place
    catalog: str | None = None


@dataclass(frozen=True)
class ShowReference:
    place: Place
    catalog: str | None = None


@dataclass(frozen=True)
class ListReferences:
    selection: Selection
    catalog: str | None = None


@dataclass(frozen=True)
class ShowLog:
    place: Place
    limit: int | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class ShowDiff:
    """`before` None is the default branch."""

    before: Place | None
    after: Place
    limit: int | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class StartTransaction:
    """`on` None is the reference that the session uses."""

    isolation: Isolation
    on: str | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class CommitTransaction:
    message: str = ""


@dataclass(frozen=True)
class RollbackTransaction:
    pass


class Resolution(StrEnum):
    """What becomes of a key that both sides changed: the source's value, the target's, or no merge at all."""

    OVERWRITE = "OVERWRITE"
    DISCARD = "DISCARD"
    CANCEL = "CANCEL"


@dataclass(frozen=True)
class OnConflict:
    default: Resolution
    exceptions: tuple[tuple[ContentKey, Resolution], ...] = ()


@dataclass(frozen=True)
class MergeReference:
    """`behavior` is for all keys, `on_conflict` for those in conflict; never both.

    `into` None is the branch of the open transaction, or else the default branch.
    """

    kind: ReferenceType
    source: Place
    into: str | None = None
    dry_run: bool = False
    behavior: MergeBehavior = MergeBehavior.NORMAL
    behaviors: tuple[tuple[ContentKey, MergeBehavior], ...] = ()
    on_conflict: OnConflict | None = None
    catalog: str | None = None


@dataclass(frozen=True)
class CreateNamespace:
    key: ContentKey
    on: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AlterNamespace:
    key: ContentKey
    on: str | None = None
    updates: tuple[tuple[str, str], ...] = ()
    removals: tuple[str, ...] = ()


@dataclass(frozen=True)
class DropContent:
    type: ContentType
    key: ContentKey
    on: str | None = None


@dataclass(frozen=True)
class ListContents:
    place: Place
    selection: Selection


@dataclass(frozen=True)
class ShowContent:
    type: ContentType
    key: ContentKey
    place: Place


@dataclass(frozen=True)
class RevertContent:
    """`state` is where the keys have the values to go back to; its name None is the branch `on`."""

    keys: tuple[ContentKey, ...]
    state: Place
    on: str | None = None
    dry_run: bool = False
    allow_deletes: bool = False


Statement = (
    CreateReference
    | DropReference
    | AssignReference
    | Use
    | ShowReference
    | ListReferences
    | ShowLog
    | ShowDiff
    | StartTransaction
    | CommitTransaction
    | RollbackTransaction
    | MergeReference
    | CreateNamespace
    | AlterNamespace
    | DropContent
    | ListContents
    | ShowContent
    | RevertContent
)
