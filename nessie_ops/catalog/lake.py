"""The version store and the warehouse together: what namespaces, tables and views share.

Invariant: a commit names a metadata file only after that file is durable; a file whose commit is
refused is deleted again, and one whose commit may have happened is kept.  Messages use the words of
Iceberg's own catalogs, which people search for.  Knows neither HTTP nor what is inside metadata files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import ParamSpec, TypeVar

import msgspec

from nessie_ops.buffering import BufferedTransaction
from nessie_ops.catalog.files import MetadataFiles
from nessie_ops.catalog.locations import folder_name
from nessie_ops.catalog.outlines import Check
from nessie_ops.errors import (
    BadRequest,
    NamespaceNotEmpty,
    NamespaceNotFound,
    NameTaken,
    NessieOpsError,
    OutcomeUnknown,
    Overtaken,
    ReferenceConflict,
    ReferenceNotFound,
)
from nessie_ops.model import (
    Branch,
    CommitHash,
    ConflictType,
    Content,
    ContentKey,
    ContentType,
    Isolation,
    Namespace,
    NewCommit,
    Operation,
    ReferenceSpec,
)
from nessie_ops.store import once
from nessie_ops.versioning.versionstore import VersionStore

ANONYMOUS = NewCommit(message="")
"""Commit meta that leaves everything, also the message, to the catalog."""

_P = ParamSpec("_P")
_T = TypeVar("_T")
_TRIES = 8  # each of a table leaves a metadata file, if only for a moment

_KINDS = {
    ContentType.ICEBERG_TABLE: "table",
    ContentType.ICEBERG_VIEW: "view",
    ContentType.NAMESPACE: "namespace",
    ContentType.UDF: "function",
    ContentType.DELTA_LAKE_TABLE: "Delta Lake table",
}


def again_when_overtaken(write: Callable[_P, _T]) -> Callable[_P, _T]:
    """A method that reads the head of a branch and commits, tried anew while others commit between the two.

    What its caller wants is compared with the new head then: its requirements decide, not who came first.
    """

    @wraps(write)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        for _ in range(_TRIES - 1):
            try:
                return write(*args, **kwargs)
            except Overtaken:
                continue
        return write(*args, **kwargs)

    return call


class Lake:
    """Reads and commits at references given as text, such as `main`, `run/7` or `main@<hash>`."""

    def __init__(
        self, store: VersionStore, files: MetadataFiles, clock: Callable[[], datetime], new_id: Callable[[], str]
    ) -> None:
        self.store = store
        self.files = files
        self.clock = clock
        self.new_id = new_id

    def resolve(self, ref: str) -> CommitHash:
        """The commit to read at; BadRequest, ReferenceNotFound."""
        return self.store.resolve(ref).hash

    def get_branch(self, ref: str) -> Branch:
        """The branch to write to, with its head; BadRequest when `ref` is a tag or names a commit."""
        spec = ReferenceSpec.parse(ref, self.store.default_branch)
        if spec.name is None or spec.hash or spec.steps:
            raise BadRequest(f"ref: '{ref[:80]}' names a commit, which is read-only; name a branch to write to.")
        found = self.store.get_reference(spec.name)
        if not isinstance(found, Branch):
            raise BadRequest(f"ref: '{found.name}' is a tag, which is read-only; name a branch to write to.")
        return found

    def get(self, at: CommitHash, key: ContentKey) -> Content | None:
        return self.store.get_contents(at, [key]).get(key)

    def get_free_place(self, at: CommitHash, key: ContentKey, kind: ContentType) -> dict[ContentKey, Namespace]:
        """The namespaces above `key`, outermost first.

        NameTaken, NamespaceNotFound unless a content of `kind` can be created there.
        """
        above = ancestors(key)
        found = self.store.get_contents(at, [*above, key])
        if key in found:
            raise NameTaken(_already(found[key], kind, key))
        return {name: require_namespace(found.get(name), name) for name in above}

    def default_location(self, namespaces: dict[ContentKey, Namespace], key: ContentKey) -> str:
        """Where files of `key` go: below the nearest namespace that has a location, else below the warehouse.

        BadRequest when a client of the Nessie API gave that namespace a location that is not allowed.
        """
        base, rest = self.files.warehouse.location, key.elements
        for name, namespace in reversed(namespaces.items()):
            own = namespace.properties.get("location") if namespace.properties else None
            if own:
                base = self.files.warehouse.check(own, f"location of namespace {name}")
                rest = key.elements[len(name.elements) :]
                break
        return "/".join([base, *map(folder_name, rest)])

    def check_target(self, at: CommitHash, source: ContentKey, target: ContentKey) -> None:
        """NameTaken, NamespaceNotFound unless `source` can be renamed to `target`."""
        found = self.get(at, target)
        if found is not None:
            raise NameTaken(f"Cannot rename {source} to {target}. {_kind(found.type)} already exists")
        if target.parent is not None:
            require_namespace(self.get(at, target.parent), target.parent)

    def new_location(self, at: CommitHash, key: ContentKey, kind: ContentType, wanted: str | None) -> str:
        """The location of a new table or view: `wanted`, else one that no other ever had."""
        namespaces = self.get_free_place(at, key, kind)
        if wanted is not None:
            return self.files.warehouse.check(wanted, "location")
        return f"{self.default_location(namespaces, key)}_{self.new_id()}"

    def commit(
        self, branch: Branch, message: str, operations: Sequence[Operation], meta: NewCommit, result: object = None
    ) -> None:
        """One commit on what `branch` was when it was read; the errors are those that Iceberg clients know.

        `result` is what the caller returns then: the answer to a request with a key is made of it.
        """
        full = msgspec.structs.replace(meta, message=meta.message or message)
        buffer = BufferedTransaction(self.store, branch.name, Isolation.REPEATED_READ, full, start=branch.hash)
        buffer.apply(operations)
        try:
            with once.returning(lambda _: result):
                buffer.send()
        except ReferenceConflict as conflict:
            raise explain(conflict) from conflict
        except ReferenceNotFound as gone:  # the branch was deleted, or set to another commit
            raise Overtaken(gone.message) from gone

    @contextmanager
    def new_files(self) -> Iterator[Callable[[str, bytes, Check], None]]:
        """A function that writes metadata files, which a check has passed, for the commit that ends the block."""
        written: list[str] = []

        def write(location: str, data: bytes, check: Check) -> None:
            self.files.write(location, data, check)
            written.append(location)  # only what this block created: never a file that was there before

        try:
            yield write
        except NessieOpsError as error:
            if not isinstance(error, OutcomeUnknown):
                for location in written:
                    self.files.discard(location)
            raise


def ancestors(key: ContentKey) -> list[ContentKey]:
    """The namespaces that hold `key`, outermost first."""
    return [ContentKey(key.elements[:n]) for n in range(1, len(key.elements))]


def missing(kind: ContentType, found: Content | None, key: ContentKey) -> str:
    """The message for a key where nothing, or something of another kind, was found."""
    instead = f" (it is a {_KINDS[found.type]})" if found else ""
    return f"{_kind(kind)} does not exist: {key}{instead}"


def _already(found: Content, kind: ContentType, key: ContentKey) -> str:
    same_name = "" if found.type == kind else " with same name"
    return f"{_kind(found.type)}{same_name} already exists: {key}"


def _kind(kind: ContentType) -> str:
    return _KINDS[kind][0].upper() + _KINDS[kind][1:]


def require_namespace(found: Content | None, key: ContentKey) -> Namespace:
    """`found`, if it is a namespace; else NamespaceNotFound."""
    if isinstance(found, Namespace):
        return found
    raise NamespaceNotFound(missing(ContentType.NAMESPACE, found, key), key)


def explain(conflict: ReferenceConflict) -> NessieOpsError:
    """A refused commit as the most telling of its conflicts.  Nothing was applied."""
    kinds = {item.conflict_type: item.key for item in reversed(conflict.conflicts)}
    for kind in (ConflictType.NAMESPACE_ABSENT, ConflictType.NOT_A_NAMESPACE):
        if (key := kinds.get(kind)) is not None:
            return NamespaceNotFound(conflict.message, key)
    if (key := kinds.get(ConflictType.NAMESPACE_NOT_EMPTY)) is not None:
        return NamespaceNotEmpty(f"Namespace is not empty: {key}", key)
    kind_of_error = NameTaken if ConflictType.KEY_EXISTS in kinds else Overtaken
    return kind_of_error(conflict.message, conflict.conflicts)
