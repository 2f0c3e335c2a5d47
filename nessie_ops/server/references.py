"""Endpoints of branches and tags: list, create, get, assign, delete, set properties.

Properties are no part of Nessie's references, and its Java client refuses an answer that has them.  So they are in
the answers to requests that speak of them, or that have the header `Nessie-Ops-Properties: true`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.types import ASGIApp

from nessie_ops.errors import BadRequest
from nessie_ops.model import Reference, ReferenceType
from nessie_ops.model.references import bare
from nessie_ops.model.wire import ReferenceMetadata, ReferencePage, SingleReference
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import REFERENCES
from nessie_ops.server.filters import read_filter
from nessie_ops.server.live import in_thread
from nessie_ops.server.once import answer
from nessie_ops.server.parameters import Body, LiveStore, Segment, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.requests import PropertiesIn, ReferenceIn, read_body
from nessie_ops.server.responses import JsonAnswer, json_response
from nessie_ops.server.specs import (
    check_type,
    get_absolute,
    get_body_hash,
    get_expected,
    parse_plain_ref,
    parse_ref,
    read_source,
)
from nessie_ops.versioning import MAX_PAGE, VersionStore

PROPERTIES_HEADER = "Nessie-Ops-Properties"
MAX_METADATA_PAGE = 250  # references with metadata in a page: each costs a walk of the commit graph

_TYPES = {"BRANCH": ReferenceType.BRANCH, "branch": ReferenceType.BRANCH} | {
    "TAG": ReferenceType.TAG,
    "tag": ReferenceType.TAG,
}


def _read_type(query: Query) -> ReferenceType | None:
    text = query.text("type")
    if text is not None and text not in _TYPES:
        raise BadRequest(f"type: '{text[:80]}' is not a type of reference; use BRANCH or TAG.")
    return _TYPES[text] if text else None


def to_plain(reference: Reference, metadata: ReferenceMetadata | None) -> dict[str, Any]:
    """A reference with its metadata as one object."""
    plain: dict[str, Any] = msgspec.to_builtins(reference)
    return {**plain, "metadata": metadata} if metadata else plain


def choose(request: AnyRequest) -> Callable[[Reference], Reference]:
    """What becomes of a reference in the answer to a request."""
    return _keep if request.headers.get(PROPERTIES_HEADER) == "true" else bare


def _keep(reference: Reference) -> Reference:
    return reference


def _show(reference: Reference) -> Response[bytes]:
    return json_response(SingleReference(reference))


def wants_hidden(request: AnyRequest, query: Query) -> bool:
    """Whether a listing has the branches of open transactions: as it says, else when it comes from a program.

    Nessie's Java client, which says so with each request, is what its garbage collector is made of.  What that is not
    shown it deletes the files of.
    """
    if query.text("hidden") is not None:
        return query.flag("hidden")
    return "nessie-client-spec" in request.headers


@get("/trees", sync_to_thread=True)
def list_references(store: Store, request: AnyRequest) -> Response[bytes]:
    query = Query(request)
    full = query.choice("fetch", "MINIMAL", "ALL") == "ALL"
    page, token = listings.list_references(
        store,
        prefix=query.text("name-prefix") or "",
        hidden=wants_hidden(request, query),
        full=full,
        wanted=read_filter(query, REFERENCES),
        limit=query.limit(MAX_METADATA_PAGE if full else MAX_PAGE),
        token=query.text("page-token"),
    )
    chosen = choose(request)
    if not full:
        references = tuple(chosen(row.reference) for row in page)
        return json_response(ReferencePage(references=references, has_more=token is not None, token=token))
    rows = [to_plain(chosen(row.reference), row.metadata) for row in page]
    return json_response({"references": rows, "hasMore": token is not None, "token": token})


@post("/trees", sync_to_thread=True)
def create_reference(store: Store, request: AnyRequest, body: Body) -> Response[bytes]:
    query = Query(request)
    name, kind = query.text("name"), _read_type(query)
    if not name or not kind:
        raise BadRequest(f"{'type' if name else 'name'}: must be given in the query.")
    source = read_body(request, body, ReferenceIn)
    read_source(store, source.source_name, "name")
    target = get_body_hash(store, source.hash, "hash", "Target hash")
    properties = source.new_properties
    return answer(lambda: store.create_reference(kind, name, target, properties=properties), _show)


@get("/trees/{ref:str}")
async def get_reference(live: LiveStore, request: AnyRequest, ref: Segment) -> ASGIApp:
    full = Query(request).choice("fetch", "MINIMAL", "ALL") == "ALL"
    reference = choose(request)(await live.get_reference(parse_plain_ref(live.store, ref)))
    if not full:
        return JsonAnswer(SingleReference(reference))
    return JsonAnswer({"reference": await in_thread(_describe, live.store, reference)})


def _describe(store: VersionStore, reference: Reference) -> dict[str, Any]:
    default = store.get_reference(store.default_branch).hash
    return to_plain(reference, listings.get_metadata(store, reference, default))


@put("/trees/{ref:str}", sync_to_thread=True)
def assign_reference(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    spec, wanted = parse_ref(store, ref), _read_type(Query(request))
    if spec.name is None:
        raise BadRequest("Assignment target must be a branch or a tag.")
    expected = get_expected(store, spec)
    given = read_body(request, body, ReferenceIn)
    read_source(store, given.source_name, "name")
    target = get_body_hash(store, given.hash, "hash", "Target hash")
    check_type(store.get_reference(spec.name), wanted)
    name = spec.name
    return answer(lambda: store.assign_reference(name, expected, target), lambda done: _show(choose(request)(done)))


@delete("/trees/{ref:str}", status_code=200, sync_to_thread=True)
def delete_reference(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    spec, wanted = parse_ref(store, ref), _read_type(Query(request))
    if spec.name is None:
        raise BadRequest("Reference to delete must be a branch or a tag.")
    expected = get_expected(store, spec)
    check_type(store.get_reference(spec.name), wanted)
    name = spec.name
    return answer(lambda: store.delete_reference(name, expected), lambda gone: _show(choose(request)(gone)))


@put("/trees/{ref:str}/properties", sync_to_thread=True)
def update_properties(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    """Set and remove properties; `name@hash` in the path makes the head a condition."""
    spec = parse_ref(store, ref)
    if spec.name is None:
        raise BadRequest("Reference with properties must be a branch or a tag.")
    expected = get_absolute(store, spec, "Expected hash") if spec.hash or spec.steps else None
    given = read_body(request, body, PropertiesIn)
    name = spec.name
    return answer(lambda: store.update_properties(name, given.updates, given.removals, expected=expected), _show)


HANDLERS = [
    list_references,
    create_reference,
    get_reference,
    assign_reference,
    delete_reference,
    update_properties,
]
