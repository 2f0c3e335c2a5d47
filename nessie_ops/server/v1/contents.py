"""Endpoints of v1 that read what a commit holds: entries, contents, differences."""

from __future__ import annotations

from collections.abc import Iterator

from litestar import Response, get, post

from nessie_ops.errors import BadRequest, ContentNotFound
from nessie_ops.model import ContentKey, ContentType, DiffEntry, Entry, ReferenceSpec
from nessie_ops.model.wire import KeyedContent
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import ENTRIES
from nessie_ops.server.filters import Filter, read_filter
from nessie_ops.server.listings import KeyRange
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query, parse_key
from nessie_ops.server.requests import KeysIn, check_keys, read_body
from nessie_ops.server.responses import json_response
from nessie_ops.server.v1.specs import read_spec, to_spec
from nessie_ops.server.v1.wire import ContentsV1, Diffs, EntryPageV1, EntryV1
from nessie_ops.versioning import MAX_PAGE, VersionStore


@get("/trees/tree/{ref:str}/entries", sync_to_thread=True)
def list_entries(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    query, spec = Query(request), read_spec(ref, Query(request))
    depth, wanted = query.integer("namespaceDepth") or 0, read_filter(query, ENTRIES)
    if depth > 0:
        rows = tuple(dict.fromkeys(_truncate(store, spec, wanted, depth)))
        return json_response(EntryPageV1(entries=rows))
    _, (page, token) = listings.list_entries(
        store,
        spec,
        KeyRange(),
        with_content=False,
        wanted=wanted,
        limit=query.limit(MAX_PAGE, "maxRecords"),
        token=query.text("pageToken"),
    )
    entries = tuple(EntryV1(row.type, row.name) for row in page)
    return json_response(EntryPageV1(entries=entries, has_more=token is not None, token=token))


def _truncate(store: VersionStore, spec: ReferenceSpec, wanted: Filter[Entry] | None, depth: int) -> Iterator[EntryV1]:
    """Entries of `depth` elements, and for deeper ones the namespaces of that depth that hold them: again and again."""
    token: str | None = ""
    while token is not None:
        _, (page, token) = listings.list_entries(
            store, spec, KeyRange(), with_content=False, wanted=wanted, limit=MAX_PAGE, token=token or None
        )
        for row in page:
            if len(row.name.elements) == depth:
                yield EntryV1(row.type, row.name)
            elif len(row.name.elements) > depth:
                yield EntryV1(ContentType.NAMESPACE, ContentKey(row.name.elements[:depth]))


def _read_spec(store: VersionStore, query: Query) -> ReferenceSpec:
    return to_spec(query.text("ref") or store.default_branch, query.text("hashOnRef"), "hashOnRef")


@get("/contents/{key:str}", sync_to_thread=True)
def get_content(store: Store, request: AnyRequest, key: Segment) -> Response[bytes]:
    wanted = parse_key(restore(key))
    effective = store.resolve(_read_spec(store, Query(request)))
    found = store.get_contents(effective.hash, [wanted])
    if wanted not in found:
        raise ContentNotFound(f"Could not find content for key '{wanted}' in reference '{effective.name}'.", wanted)
    return json_response(found[wanted])


@post("/contents", status_code=200, sync_to_thread=True)
def find_contents(store: Store, request: AnyRequest, body: Body) -> Response[bytes]:
    keys = read_body(request, body, KeysIn).requested_keys
    check_keys(keys)
    found = store.get_contents(store.resolve(_read_spec(store, Query(request))).hash, keys)
    return json_response(ContentsV1(tuple(KeyedContent(key, content) for key, content in found.items())))


@get("/diffs/{refs:str}", sync_to_thread=True)
def diff(store: Store, refs: Segment) -> Response[bytes]:
    """All differences between `from[*hash]...to[*hash]`; v1 knows no pages here."""
    before, separator, after = restore(refs).partition("...")
    if not separator:
        raise BadRequest(f"refs: '{refs[:80]}' is not of the form from...to or from*hash...to*hash.")
    specs = _read_side(store, before), _read_side(store, after)
    rows: list[DiffEntry] = []
    token: str | None = ""
    while token is not None:
        *_, (page, token) = listings.list_diffs(
            store, *specs, KeyRange(), wanted=None, limit=MAX_PAGE, token=token or None
        )
        rows += page
    return json_response(Diffs(tuple(rows)))


def _read_side(store: VersionStore, text: str) -> ReferenceSpec:
    name, _, hash_text = text.partition("*")
    return to_spec(store.default_branch if name == "-" else name, hash_text, "hash")


HANDLERS = [list_entries, get_content, find_contents, diff]
