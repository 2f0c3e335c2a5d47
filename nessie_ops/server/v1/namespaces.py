"""Endpoints of v1 for namespaces.  The server makes the commits; who changed a namespace is not known here."""

from __future__ import annotations

import msgspec
from litestar import Response, delete, get, post, put
from msgspec import UNSET

from nessie_ops.errors import (
    BadRequest,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    ReferenceConflict,
    ReferenceNotFound,
)
from nessie_ops.model import (
    CommitHash,
    CommitResult,
    ConflictType,
    Content,
    ContentKey,
    ContentType,
    Delete,
    Namespace,
    NewCommit,
    Put,
    with_id,
)
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import ENTRIES
from nessie_ops.server.filters import Filter
from nessie_ops.server.once import answer, carry_out
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query, parse_key
from nessie_ops.server.requests import read_body
from nessie_ops.server.responses import json_response
from nessie_ops.server.v1.specs import read_spec
from nessie_ops.server.v1.wire import Namespaces
from nessie_ops.versioning import MAX_PAGE, VersionStore

_ONLY_NAMESPACES = "entry.contentType == 'NAMESPACE'"


class NamespaceIn(msgspec.Struct, frozen=True):
    """The namespace to create; where it is, is in the path."""

    properties: dict[str, str] = {}


class NamespaceUpdate(msgspec.Struct, frozen=True, rename="camel"):
    property_updates: dict[str, str] = {}
    property_removals: tuple[str, ...] = ()


def _find(store: VersionStore, at: CommitHash, key: ContentKey) -> Content | None:
    return store.get_contents(at, [key]).get(key)


def _require(store: VersionStore, at: CommitHash, key: ContentKey) -> Namespace:
    found = _find(store, at, key)
    if not isinstance(found, Namespace):
        raise NamespaceNotFound(f"Namespace '{key}' does not exist", key)
    return found


def _read_branch(store: VersionStore, ref: str, request: AnyRequest) -> tuple[str, CommitHash]:
    """(branch, commit to start from) of a write."""
    spec = read_spec(ref, Query(request))
    if spec.name is None:
        raise BadRequest("ref: a namespace can only be changed on a branch.")
    return spec.name, store.resolve(spec).hash


def _commit(store: VersionStore, branch: str, at: CommitHash, message: str, operation: Put | Delete) -> CommitResult:
    """Commit; conflicts become what the namespace API calls them."""
    try:
        return store.commit(branch, at, NewCommit(message=message), [operation])
    except ReferenceConflict as error:
        kinds = {conflict.conflict_type for conflict in error.conflicts}
        key = operation.key
        if ConflictType.NAMESPACE_NOT_EMPTY in kinds:
            raise NamespaceNotEmpty(f"Namespace '{key}' is not empty", key) from error
        if ConflictType.KEY_EXISTS in kinds:
            raise NamespaceAlreadyExists(f"Namespace '{key}' already exists", key) from error
        if ConflictType.KEY_DOES_NOT_EXIST in kinds:
            raise NamespaceNotFound(f"Namespace '{key}' does not exist", key) from error
        if kinds & {ConflictType.NAMESPACE_ABSENT, ConflictType.NOT_A_NAMESPACE}:
            raise ReferenceNotFound(error.message) from error  # what this API says of a missing parent
        raise


def _new_id(result: CommitResult) -> str:
    assert result.added_contents
    return str(result.added_contents[0].content_id)


@get("/namespaces/{ref:str}", sync_to_thread=True)
def list_namespaces(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    """The namespace `name` and all below it; all that there are without `name`."""
    query = Query(request)
    keys = listings.KeyRange(prefix=query.key("name"))
    spec, wanted = read_spec(ref, query), Filter(_ONLY_NAMESPACES, ENTRIES)
    found: list[Namespace] = []
    token: str | None = ""
    while token is not None:
        _, (page, token) = listings.list_entries(
            store, spec, keys, with_content=True, wanted=wanted, limit=MAX_PAGE, token=token or None
        )
        found += [row.content for row in page if isinstance(row.content, Namespace)]
    return json_response(Namespaces(tuple(found)))


@get("/namespaces/namespace/{ref:str}/{name:str}", sync_to_thread=True)
def get_namespace(store: Store, request: AnyRequest, ref: Segment, name: Segment) -> Response[bytes]:
    key, at = parse_key(restore(name)), store.resolve(read_spec(ref, Query(request))).hash
    return json_response(_require(store, at, key))


@put("/namespaces/namespace/{ref:str}/{name:str}", sync_to_thread=True)
def create_namespace(store: Store, request: AnyRequest, ref: Segment, name: Segment, body: Body) -> Response[bytes]:
    key, (branch, at) = parse_key(restore(name)), _read_branch(store, ref, request)
    given = read_body(request, body, NamespaceIn)
    existing = _find(store, at, key)
    if existing is not None:
        other = "Namespace" if existing.type is ContentType.NAMESPACE else "Another content object with name"
        raise NamespaceAlreadyExists(f"{other} '{key}' already exists", key)
    namespace = Namespace(elements=key.elements, properties=given.properties or UNSET)
    operation = Put(key, namespace)
    return answer(
        lambda: _commit(store, branch, at, f"create namespace '{key}'", operation),
        lambda result: json_response(with_id(namespace, _new_id(result))),
    )


@delete("/namespaces/namespace/{ref:str}/{name:str}", sync_to_thread=True)
def delete_namespace(store: Store, request: AnyRequest, ref: Segment, name: Segment) -> Response[None]:
    key, (branch, at) = parse_key(restore(name)), _read_branch(store, ref, request)
    _require(store, at, key)
    carry_out(lambda: _commit(store, branch, at, f"delete namespace '{key}'", Delete(key)))
    return Response(None)


@post("/namespaces/namespace/{ref:str}/{name:str}", status_code=204, sync_to_thread=True)
def update_namespace(store: Store, request: AnyRequest, ref: Segment, name: Segment, body: Body) -> Response[None]:
    key, (branch, at) = parse_key(restore(name)), _read_branch(store, ref, request)
    wanted = read_body(request, body, NamespaceUpdate)
    before = _require(store, at, key)
    kept = {name: text for name, text in (before.properties or {}).items() if name not in wanted.property_removals}
    properties = kept | wanted.property_updates
    after = Namespace(elements=before.elements, properties=properties or UNSET)
    message = f"update properties for namespace '{key}'"
    operation = Put(key, with_id(after, str(before.id)))
    carry_out(lambda: _commit(store, branch, at, message, operation))
    return Response(None)


HANDLERS = [list_namespaces, get_namespace, create_namespace, delete_namespace, update_namespace]
