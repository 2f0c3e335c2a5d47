"""Endpoints that read what a commit holds: entries, contents, differences."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec
from litestar import Response, get, post

from nessie_ops.errors import BadRequest, ContentNotFound
from nessie_ops.model import CommitHash, Content, ContentId, ContentKey, DiffEntry, Entry, ReferenceSpec
from nessie_ops.model.wire import Contents, DiffPage, EntryPage, KeyedContent, SingleContent
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query, parse_key
from nessie_ops.server.requests import KeysIn, check_keys, read_body
from nessie_ops.server.responses import json_response
from nessie_ops.server.specs import parse_ref
from nessie_ops.versioning.versionstore import MAX_PAGE, VersionStore


class _Position(msgspec.Struct, frozen=True):
    """Where a listing of keys goes on, and the commits that it lists."""

    key: ContentKey
    at: tuple[CommitHash, ...]


class _Range(msgspec.Struct, frozen=True):
    """The keys that a request asks for; `only` None means all in the range."""

    prefix: ContentKey | None
    first: ContentKey | None
    last: ContentKey | None
    only: tuple[ContentKey, ...] | None
    limit: int

    def select(self) -> list[ContentKey]:
        """Those of `only` that lie in the range, in order; there may be more than a page of them."""
        return [key for key in sorted(set(self.only or ())) if self._covers(key)]

    def _covers(self, key: ContentKey) -> bool:
        if self.prefix and key.elements[: len(self.prefix.elements)] != self.prefix.elements:
            return False
        return not ((self.first and key < self.first) or (self.last and self.last < key))


def _read_range(query: Query, start: _Position | None) -> _Range:
    query.refuse_filter()
    prefix, first, last = query.key("prefix-key"), query.key("min-key"), query.key("max-key")
    if prefix and (first or last):
        raise BadRequest("prefix-key: cannot be combined with min-key or max-key.")
    if start:
        first = max(first, start.key) if first else start.key
    only = query.keys("key")
    return _Range(prefix, first, last, tuple(only) or None, query.limit(MAX_PAGE))


def _read_position(query: Query, commits: int) -> _Position | None:
    start = read_token(query.text("page-token"), _Position)
    if start and len(start.at) != commits:
        raise BadRequest("page-token: it belongs to another kind of listing.")
    return start


def _pin(spec: ReferenceSpec, commit: CommitHash) -> ReferenceSpec:
    return ReferenceSpec(spec.name, commit)


def _next_token(keys: Iterable[ContentKey], limit: int, *at: CommitHash) -> str | None:
    """The token of the page that begins with the key after the first `limit`; None when there is none."""
    rest = list(keys)[limit:]
    return make_token(_Position(rest[0], at)) if rest else None


@get("/trees/{ref:str}/entries", sync_to_thread=True)
def list_entries(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    query, spec = Query(request), parse_ref(store, ref)
    start = _read_position(query, 1)
    effective = store.resolve(_pin(spec, start.at[0]) if start else spec)
    wanted, with_content = _read_range(query, start), query.flag("content")
    entries = _load_entries(store, effective.hash, wanted, with_content)
    token = _next_token((entry.name for entry in entries), wanted.limit, effective.hash)
    page = EntryPage(
        entries=tuple(entries[: wanted.limit]),
        effective_reference=effective,
        has_more=token is not None,
        token=token,
    )
    return json_response(page)


def _load_entries(store: VersionStore, at: CommitHash, wanted: _Range, with_content: bool) -> list[Entry]:
    """A page and one row more."""
    if wanted.only is None:
        return store.list_entries(
            at,
            prefix=wanted.prefix,
            first=wanted.first,
            last=wanted.last,
            limit=wanted.limit + 1,
            with_content=with_content,
        )
    found = store.get_contents(at, wanted.select())
    return [
        Entry(content.type, key, ContentId(str(content.id)), content if with_content else None)
        for key, content in islice(found.items(), wanted.limit + 1)
    ]


@get("/trees/{ref:str}/contents/{key:str}", sync_to_thread=True)
def get_content(store: Store, ref: Segment, key: Segment) -> Response[bytes]:
    wanted = parse_key(restore(key))
    effective = store.resolve(parse_ref(store, ref))
    found = store.get_contents(effective.hash, [wanted])
    if wanted not in found:
        raise ContentNotFound(f"Could not find content for key '{wanted}' in reference '{effective.name}'.", wanted)
    return json_response(SingleContent(found[wanted], effective))


@get("/trees/{ref:str}/contents", sync_to_thread=True)
def list_contents(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    keys = Query(request).keys("key")
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
    return json_response(Contents(rows, effective))


@get("/trees/{ref:str}/diff/{to_ref:str}", sync_to_thread=True)
def diff(store: Store, request: AnyRequest, ref: Segment, to_ref: Segment) -> Response[bytes]:
    query = Query(request)
    before_spec, after_spec = parse_ref(store, ref), parse_ref(store, to_ref)
    start = _read_position(query, 2)
    before = store.resolve(_pin(before_spec, start.at[0]) if start else before_spec)
    after = store.resolve(_pin(after_spec, start.at[1]) if start else after_spec)
    wanted = _read_range(query, start)
    rows = _load_diffs(store, before.hash, after.hash, wanted)
    token = _next_token((row.key for row in rows), wanted.limit, before.hash, after.hash)
    page = DiffPage(
        diffs=tuple(rows[: wanted.limit]),
        effective_from_reference=before,
        effective_to_reference=after,
        has_more=token is not None,
        token=token,
    )
    return json_response(page)


def _load_diffs(store: VersionStore, before: CommitHash, after: CommitHash, wanted: _Range) -> list[DiffEntry]:
    """A page and one row more."""
    if wanted.only is None:
        return store.diff(
            before, after, prefix=wanted.prefix, first=wanted.first, last=wanted.last, limit=wanted.limit + 1
        )
    keys = wanted.select()
    old: dict[ContentKey, Content] = store.get_contents(before, keys)
    new: dict[ContentKey, Content] = store.get_contents(after, keys)
    rows = [DiffEntry(key, old.get(key), new.get(key)) for key in keys if old.get(key) != new.get(key)]
    return rows[: wanted.limit + 1]


HANDLERS = [list_entries, get_content, list_contents, find_contents, diff]
