"""Where a statement reads: from the words of a place to a commit."""

from __future__ import annotations

import re

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import Detached, Reference, Tag
from nessie_ops.sql.statements import AtKind, Place

_HASH = re.compile(r"[0-9a-fA-F]{8,}(?:[~^*].*)?", re.DOTALL)
_STEPS = re.compile(r"[~^*].*", re.DOTALL)


def to_spec(place: Place, current: str) -> str:
    """A place as a reference specification of the API: `main`, `main@<hash>~2`, `main*2026-01-31T00:00:00Z`.

    AT goes from the reference, not from the commit that the session reads it at.
    """
    if place.at is None:
        return place.name or current
    name = place.name or current.partition("@")[0]
    value, kind = place.at.value.strip(), place.at.kind
    if kind is None:
        kind = AtKind.COMMIT if _HASH.fullmatch(value) or _STEPS.fullmatch(value) else AtKind.TIMESTAMP
    if kind is AtKind.TIMESTAMP:
        return f"{name}*{value}"
    if _STEPS.fullmatch(value):
        return f"{name}{value}"
    if not _HASH.fullmatch(value):
        raise BadRequest(f"AT COMMIT: '{value[:80]}' is neither a hash nor steps such as ~2.")
    return f"{name}@{value}"


def find(client: NessieClient, place: Place, current: str) -> Reference | Detached:
    """The reference, with the commit that is meant as its hash; ReferenceNotFound, BadRequest."""
    return client.resolve(to_spec(place, current))


def describe(found: Reference | Detached) -> tuple[str, str, str]:
    """A row: its type, name, hash."""
    if isinstance(found, Detached):
        return "Hash", found.name, found.hash
    return "Tag" if isinstance(found, Tag) else "Branch", found.name, str(found.hash)
