"""Which commit a request means: reference specifications in paths, hashes in bodies.

Reads follow any specification.  Writes need an absolute hash, optionally followed by relative parts,
so that a client says what it has seen.
"""

from __future__ import annotations

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    DETACHED,
    CommitHash,
    Reference,
    ReferenceSpec,
    ReferenceType,
    Tag,
    check_spelling,
    parse_hash_spec,
)
from nessie_ops.server.paths import restore
from nessie_ops.versioning.versionstore import VersionStore


def parse_ref(store: VersionStore, segment: str, what: str = "Expected hash") -> ReferenceSpec:
    """The specification in a path segment; `what` its hash is, when it is missed."""
    return ReferenceSpec.parse(restore(segment), store.default_branch, what=what)


def parse_plain_ref(store: VersionStore, segment: str) -> str:
    """The name in a path segment that may hold no hash."""
    spec = parse_ref(store, segment)
    if spec.name is None or spec.hash or spec.steps:
        raise BadRequest(f"ref: '{restore(segment)[:80]}' must be the name of a branch or tag, without a hash.")
    return spec.name


def get_expected(store: VersionStore, spec: ReferenceSpec, action: str | None = None) -> CommitHash:
    """The commit that a writer has seen; what it writes to must exist, and be a branch for an `action`."""
    if spec.hash is None and spec.name is not None:
        reference = store.get_reference(spec.name)
        if action and isinstance(reference, Tag):
            raise BadRequest(f"Reference to {action} into must be a branch.")
    return get_absolute(store, spec, "Expected hash")


def get_absolute(store: VersionStore, spec: ReferenceSpec, what: str) -> CommitHash:
    """The commit of `spec`, which must name one by hash; BadRequest begins with `what`, such as "Expected hash"."""
    if spec.hash is None:
        missing = "must contain a starting commit ID" if spec.steps else "must be provided"
        raise BadRequest(f"{what} {missing}.")
    if not spec.steps:
        return spec.hash
    return store.resolve(ReferenceSpec(None, spec.hash, spec.steps)).hash


def read_target(store: VersionStore, ref: str, action: str) -> tuple[str, CommitHash]:
    """(branch, expected commit) of a write's path."""
    spec = parse_ref(store, ref)
    if spec.name is None:
        raise BadRequest(f"Reference to {action} into must be a branch.")
    return spec.name, get_expected(store, spec, action)


def get_body_hash(store: VersionStore, text: str | None, field: str, what: str) -> CommitHash:
    """The commit that a hash in a request body means."""
    commit, steps = parse_hash_spec(text or "", field)
    return get_absolute(store, ReferenceSpec(None, commit, steps), what)


def read_source(store: VersionStore, name: str | None, field: str) -> str:
    """The reference that a request body names as source, or DETACHED; BadRequest names `field`, ReferenceNotFound."""
    if name is None or name == DETACHED:
        return DETACHED
    return store.get_reference(store.default_branch if name == "-" else check_spelling(name, field)).name


def check_type(reference: Reference, wanted: ReferenceType | None) -> None:
    """BadRequest when a request says which kind of reference it means, and it is the other one."""
    kind = ReferenceType.TAG if isinstance(reference, Tag) else ReferenceType.BRANCH
    if wanted and wanted != kind:
        raise BadRequest(f"type: '{reference.name}' is a {kind}, not a {wanted}.")
