"""Endpoints of v1 for branches and tags: list, get, create, assign, delete."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar import Response, delete, get, post, put

from nessie_ops.model import Reference, ReferenceType
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import REFERENCES
from nessie_ops.server.filters import read_filter
from nessie_ops.server.once import answer, carry_out
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.references import MAX_METADATA_PAGE, wants_hidden
from nessie_ops.server.requests import ReferenceIn, read_body
from nessie_ops.server.responses import json_response
from nessie_ops.server.specs import check_type, get_body_hash, read_source
from nessie_ops.server.v1.specs import get_default, read_expected, read_name
from nessie_ops.server.v1.wire import BranchV1, ReferencePageV1, TagV1, to_reference
from nessie_ops.versioning import MAX_PAGE, VersionStore


class NewReference(msgspec.Struct, frozen=True):
    """The reference to create."""

    type: ReferenceType
    name: Annotated[str, msgspec.Meta(min_length=1)]
    hash: str | None = None


def _wants_metadata(query: Query) -> bool:
    return query.choice("fetch", "MINIMAL", "ALL") == "ALL"


def _show(store: VersionStore, reference: Reference, *, full: bool) -> BranchV1 | TagV1:
    if not full:
        return to_reference(reference)
    return to_reference(reference, listings.get_metadata(store, reference, get_default(store).hash))


@get("/trees", sync_to_thread=True)
def list_references(store: Store, request: AnyRequest) -> Response[bytes]:
    query = Query(request)
    full = _wants_metadata(query)
    page, token = listings.list_references(
        store,
        prefix="",
        hidden=wants_hidden(request, query),
        full=full,
        wanted=read_filter(query, REFERENCES),
        limit=query.limit(MAX_METADATA_PAGE if full else MAX_PAGE, "maxRecords"),
        token=query.text("pageToken"),
    )
    rows = tuple(to_reference(row.reference, row.metadata) for row in page)
    return json_response(ReferencePageV1(references=rows, has_more=token is not None, token=token))


@get("/trees/tree", sync_to_thread=True)
def get_default_branch(store: Store) -> Response[bytes]:
    return json_response(to_reference(get_default(store)))


@get("/trees/tree/{ref:str}", sync_to_thread=True)
def get_reference(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    reference = store.get_reference(read_name(ref))
    return json_response(_show(store, reference, full=_wants_metadata(Query(request))))


@post("/trees/tree", status_code=200, sync_to_thread=True)
def create_reference(store: Store, request: AnyRequest, body: Body) -> Response[bytes]:
    wanted = read_body(request, body, NewReference)
    read_source(store, Query(request).text("sourceRefName"), "sourceRefName")
    target = get_body_hash(store, wanted.hash, "hash", "Target hash")
    return answer(
        lambda: store.create_reference(wanted.type, wanted.name, target),
        lambda created: json_response(to_reference(created)),
    )


def _assign(store: VersionStore, request: AnyRequest, ref: str, body: bytes, kind: ReferenceType) -> Response[None]:
    name, expected = read_name(ref), read_expected(store, Query(request))
    given = read_body(request, body, ReferenceIn)
    read_source(store, given.source_name, "name")
    target = get_body_hash(store, given.hash, "hash", "Target hash")
    check_type(store.get_reference(name), kind)
    carry_out(lambda: store.assign_reference(name, expected, target))
    return Response(None)


def _delete(store: VersionStore, request: AnyRequest, ref: str, kind: ReferenceType) -> Response[None]:
    name, expected = read_name(ref), read_expected(store, Query(request))
    check_type(store.get_reference(name), kind)
    carry_out(lambda: store.delete_reference(name, expected))
    return Response(None)


@put("/trees/branch/{ref:str}", status_code=204, sync_to_thread=True)
def assign_branch(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[None]:
    return _assign(store, request, ref, body, ReferenceType.BRANCH)


@put("/trees/tag/{ref:str}", status_code=204, sync_to_thread=True)
def assign_tag(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[None]:
    return _assign(store, request, ref, body, ReferenceType.TAG)


@delete("/trees/branch/{ref:str}", sync_to_thread=True)
def delete_branch(store: Store, request: AnyRequest, ref: Segment) -> Response[None]:
    return _delete(store, request, ref, ReferenceType.BRANCH)


@delete("/trees/tag/{ref:str}", sync_to_thread=True)
def delete_tag(store: Store, request: AnyRequest, ref: Segment) -> Response[None]:
    return _delete(store, request, ref, ReferenceType.TAG)


HANDLERS = [
    list_references,
    get_default_branch,
    get_reference,
    create_reference,
    assign_branch,
    assign_tag,
    delete_branch,
    delete_tag,
]
