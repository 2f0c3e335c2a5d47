"""References (branches, tags, detached commits) and the text that names a commit through them.

Grammar of a reference specification (Nessie REST API): `[name|-] [@[hash]] {~n | ^n | *time}`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

import msgspec

from nessie_ops.errors import BadRequest
from nessie_ops.model.ids import CommitHash, parse_hash

DETACHED = "DETACHED"
QUARANTINED = "quarantined"
"""Reference property: the reason why this branch may not be merged."""
VALIDATE = "validate"
"""Reference property: where to the branch's commits shall be merged once they are validated."""

_NAME = re.compile(r"[A-Za-z](?:[A-Za-z0-9./_-]*[A-Za-z0-9_-])?")
_HEX = re.compile(r"[0-9a-fA-F]{8,}")
_STEP = re.compile(r"[~^]([0-9]{1,18})|\*([^~^*]+)")


class ReferenceType(StrEnum):
    BRANCH = "BRANCH"
    TAG = "TAG"


class Branch(msgspec.Struct, frozen=True, tag="BRANCH", tag_field="type", omit_defaults=True):
    """A named pointer that commits move.  `properties` are free text, such as why it is quarantined."""

    name: str
    hash: CommitHash
    properties: dict[str, str] = {}


class Tag(msgspec.Struct, frozen=True, tag="TAG", tag_field="type", omit_defaults=True):
    """A named pointer that only `assign` moves."""

    name: str
    hash: CommitHash
    properties: dict[str, str] = {}


class Detached(msgspec.Struct, frozen=True, tag="DETACHED", tag_field="type"):
    """A commit reached by its hash alone."""

    hash: CommitHash

    @property
    def name(self) -> str:
        return DETACHED


Reference = Branch | Tag
AnyReference = TypeVar("AnyReference", Branch, Tag, Detached, Reference, Reference | Detached)


def bare(reference: AnyReference) -> AnyReference:
    """The reference without its properties."""
    if isinstance(reference, Detached) or not reference.properties:
        return reference
    return msgspec.structs.replace(reference, properties={})


class ReferenceMove(msgspec.Struct, frozen=True, rename="camel"):
    """A change of a reference.  `before` is None for a creation, `after` for a deletion."""

    seq: int
    name: str
    type: ReferenceType
    action: str
    before: CommitHash | None
    after: CommitHash | None
    at: datetime


class Ancestor(msgspec.Struct, frozen=True):
    """`~n`: n direct parents up."""

    n: int


class Parent(msgspec.Struct, frozen=True):
    """`^n`: the n-th parent; 1 is the direct one, more are merge parents."""

    n: int


class AsOf(msgspec.Struct, frozen=True):
    """`*time`: the first commit, going back, with a commit time at or before `time`."""

    time: datetime


Step = Ancestor | Parent | AsOf


class ReferenceSpec(msgspec.Struct, frozen=True):
    """A parsed specification; name None is a detached commit, "-" in text is `default`."""

    name: str | None
    hash: CommitHash | None = None
    steps: tuple[Step, ...] = ()

    @classmethod
    def parse(cls, text: str, default: str, field: str = "ref", *, what: str | None = None) -> ReferenceSpec:
        """Read a specification; BadRequest names `field`; `what` is a hash that is missed (None: so does this)."""
        start = re.search(r"[~^*]", text)
        head, tail = (text[: start.start()], text[start.start() :]) if start else (text, "")
        name, _, digits = head.partition("@")
        if name == "-":
            name = default
        if not name and not digits and tail:
            raise BadRequest(f"{what or field} must contain a starting commit ID.")
        commit = parse_hash(digits, field) if digits else None
        detached = not name or name == DETACHED
        if detached and commit is None:
            raise BadRequest(f"{field}: '{text[:80]}' names neither a reference nor a commit.")
        if not detached:
            check_name(name, field)
        return cls(None if detached else name, commit, parse_steps(tail, field))


def parse_hash_spec(text: str, field: str) -> tuple[CommitHash | None, tuple[Step, ...]]:
    """`[hash] {steps}` as used in request bodies."""
    start = re.search(r"[~^*]", text)
    head, tail = (text[: start.start()], text[start.start() :]) if start else (text, "")
    return (parse_hash(head, field) if head else None), parse_steps(tail, field)


def parse_steps(text: str, field: str) -> tuple[Step, ...]:
    """The relative parts of a specification, in order."""
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if not match:
            raise BadRequest(f"{field}: cannot read '{text[at:][:80]}'; use ~n, ^n or *timestamp.")
        if match[1] is not None:
            n = int(match[1])
            if n < 1:
                raise BadRequest(f"{field}: the number in '{match[0]}' must be at least 1.")
            steps.append(Ancestor(n) if match[0][0] == "~" else Parent(n))
        else:
            steps.append(AsOf(parse_time(match[2], field)))
        at = match.end()
    return tuple(steps)


def parse_time(text: str, field: str) -> datetime:
    """Milliseconds since 1970, or an ISO-8601 instant; UTC when it names no zone."""
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        raise BadRequest(f"{field}: '{text[:80]}' is not a timestamp (milliseconds or ISO-8601).") from None


def check_name(name: str, field: str = "name") -> str:
    """`name`, if it may name a reference; else BadRequest."""
    if check_spelling(name, field).upper() in ("HEAD", DETACHED) or _HEX.fullmatch(name):
        raise BadRequest(f"{field}: Reference name must not be HEAD, DETACHED or a potential commit ID: '{name[:80]}'")
    return name


def check_spelling(name: str, field: str = "name") -> str:
    """`name`, if it is spelled as names are; else BadRequest.  No reference needs to have, or may have, it."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise BadRequest(
            f"{field}: Reference name must start with a letter, followed by letters, digits, one of the ./_- "
            f"characters, not end with a slash or dot, not contain '..': '{name[:80]}'"
        )
    return name
