"""Endpoints that read what a commit holds: entries, contents, differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from litestar import Response, get, post
from litestar.types import ASGIApp

from nessie_ops.errors import BadRequest, ContentNotFound
from nessie_ops.model import Content, ContentKey, Detached, Reference, ReferenceSpec
from nessie_ops.model.references import bare
from nessie_ops.model.wire import Contents, DiffPage, EntryPage, KeyedContent, SingleContent
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import DIFFS, ENTRIES
from nessie_ops.server.filters import read_filter
from nessie_ops.server.listings import KeyRange
from nessie_ops.server.live import in_thread
from nessie_ops.server.parameters import Body, LiveStore, Segment, Store
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query, parse_key
from nessie_ops.server.references import choose
from nessie_ops.server.requests import KeysIn, check_keys, read_body
from nessie_ops.server.responses import JsonAnswer, json_response
from nessie_ops.server.specs import parse_ref
from nessie_ops.versioning import MAX_PAGE, VersionStore
from nessie_ops.versioning.reading import is_transaction


def _read_range(query: Query) -> KeyRange:
    prefix, first, last = query.key("prefix-key"), query.key("min-key"), query.key("max-key")
    if prefix and (first or last):
        raise BadRequest("prefix-key: cannot be combined with min-key or max-key.")
    return KeyRange(prefix, first, last, tuple(query.keys("key")) or None)


@get("/trees/{ref:str}/entries", sync_to_thread=True)
def list_entries(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    query = Query(request)
    effective, (page, token) = listings.list_entries(
        store,
        parse_ref(store, ref),
        _read_range(query),
        with_content=query.flag("content"),
        wanted=read_filter(query, ENTRIES),
        limit=query.limit(MAX_PAGE),
        token=query.text("page-token"),
    )
    shown = effective if isinstance(effective, Detached) else choose(request)(effective)
    return json_response(
        EntryPage(entries=tuple(page), effective_reference=shown, has_more=token is not None, token=token)
    )


@get("/trees/{ref:str}/contents/{key:str}")
async def get_content(live: LiveStore, ref: Segment, key: Segment) -> ASGIApp:
    wanted = parse_key(restore(key))
    spec = parse_ref(live.store, ref)
    if is_transaction(spec.name):  # in one thread, so that the read is recorded
        return await in_thread(_answer_content, live.store, spec, wanted)
    effective = await live.resolve(spec)
    return _show(wanted, effective, await live.get_contents(effective.hash, [wanted]))


def _answer_content(store: VersionStore, spec: ReferenceSpec, wanted: ContentKey) -> ASGIApp:
    effective = store.resolve(spec)
    return _show(wanted, effective, store.get_contents(effective.hash, [wanted]))


def _show(wanted: ContentKey, effective: Reference | Detached, found: Mapping[ContentKey, Content]) -> ASGIApp:
    if wanted not in found:
        raise ContentNotFound(f"Could not find content for key '{wanted}' in reference '{effective.name}'.", wanted)
    return JsonAnswer(SingleContent(found[wanted], bare(effective)))


@get("/trees/{ref:str}/contents", sync_to_thread=True)
def list_contents(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    keys = [ContentKey.from_path(text) for text in Query(request).texts("key")]
    if not keys:
        raise BadRequest("key: at least one key must be given in the query.")
    return _answer_contents(store, ref, keys)


@post("/trees/{ref:str}/contents", sync_to_thread=True)
def find_contents(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    keys = read_body(request, body, KeysIn).requested_keys
    check_keys(keys)
    return _answer_contents(store, ref, keys)


def _answer_contents(store: VersionStore, ref: str, keys: Iterable[ContentKey]) -> Response[bytes]:
    effective = store.resolve(parse_ref(store, ref))
    found = store.get_contents(effective.hash, keys)
    rows = tuple(KeyedContent(key, content) for key, content in found.items())
    return json_response(Contents(rows, bare(effective)))


@get("/trees/{ref:str}/diff/{to_ref:str}", sync_to_thread=True)
def diff(store: Store, request: AnyRequest, ref: Segment, to_ref: Segment) -> Response[bytes]:
    query = Query(request)
    before, after, (page, token) = listings.list_diffs(
        store,
        parse_ref(store, ref, '"From" hash'),
        parse_ref(store, to_ref, '"To" hash'),
        _read_range(query),
        wanted=read_filter(query, DIFFS),
        limit=query.limit(MAX_PAGE),
        token=query.text("page-token"),
    )
    answer = DiffPage(
        diffs=tuple(page),
        effective_from_reference=bare(before),
        effective_to_reference=bare(after),
        has_more=token is not None,
        token=token,
    )
    return json_response(answer)


HANDLERS = [list_entries, get_content, list_contents, find_contents, diff]
