"""Which commit a request of v1 means: a plain name in the path, and hashes in query parameters."""

from __future__ import annotations

from nessie_ops.errors import BadRequest
from nessie_ops.model import DETACHED, CommitHash, Reference, ReferenceSpec, check_name, parse_hash_spec
from nessie_ops.server.paths import restore
from nessie_ops.server.query import Query
from nessie_ops.server.specs import get_body_hash
from nessie_ops.versioning import VersionStore


def read_name(segment: str) -> str:
    """The name of a branch or tag in a path segment."""
    return check_name(restore(segment), "ref")


def to_spec(name: str, hash_text: str | None, field: str) -> ReferenceSpec:
    """The reference `name`, or the word DETACHED, at the commit that the text from `field` means (None: its head)."""
    commit, steps = parse_hash_spec(hash_text or "", field)
    if name.upper() != DETACHED:
        return ReferenceSpec(check_name(name, "ref"), commit, steps)
    if commit is None:
        raise BadRequest(f"{field}: a detached commit needs its hash here.")
    return ReferenceSpec(None, commit, steps)


def read_spec(segment: str, query: Query) -> ReferenceSpec:
    """The reference in a path segment, at `hashOnRef`."""
    return to_spec(restore(segment), query.text("hashOnRef"), "hashOnRef")


def read_expected(store: VersionStore, query: Query) -> CommitHash:
    """The commit that a writer has seen: `expectedHash`."""
    return get_body_hash(store, query.text("expectedHash"), "expectedHash", "Expected hash")


def get_default(store: VersionStore) -> Reference:
    return store.get_reference(store.default_branch)
