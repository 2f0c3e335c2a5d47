"""Endpoints that write commits, and the one that lists them: commit, merge, transplant, history."""

from __future__ import annotations

from litestar import Response, get, post
from litestar.types import ASGIApp

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    CommitHash,
    Detached,
    Merge,
    NewCommit,
    Operation,
    Reference,
    ReferenceSpec,
    Transplant,
    parse_hash_spec,
)
from nessie_ops.model.wire import LogPage
from nessie_ops.server import listings
from nessie_ops.server.filter_variables import LOG
from nessie_ops.server.filters import read_filter
from nessie_ops.server.live import in_thread
from nessie_ops.server.once import answer, answering
from nessie_ops.server.parameters import Body, LiveStore, Segment, Store
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.requests import MergeIn, TransplantIn, read_body, read_commit, tidy_modes, to_new_commit
from nessie_ops.server.responses import JsonAnswer, json_response
from nessie_ops.server.specs import get_body_hash, parse_ref, read_source, read_target
from nessie_ops.versioning import VersionStore

MAX_INLINE_BODY = 64 << 10  # bytes of a commit that are read in the event loop
_STEPS = frozenset("~^*")
MAX_LOG_PAGE = 250  # commits; Nessie's limit


@get("/trees/{ref:str}/history", sync_to_thread=True)
def list_log(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    query = Query(request)
    effective = store.resolve(parse_ref(store, ref, "Youngest hash"))
    page, token = listings.list_log(
        store,
        effective.hash,
        limit_hash=_read_limit_hash(store, query, effective),
        full=query.choice("fetch", "MINIMAL", "ALL") == "ALL",
        wanted=read_filter(query, LOG),
        limit=query.limit(MAX_LOG_PAGE),
        token=query.text("page-token"),
    )
    return json_response(LogPage(log_entries=tuple(page), has_more=token is not None, token=token))


def _read_limit_hash(store: VersionStore, query: Query, head: Reference | Detached) -> CommitHash | None:
    text = query.text("limit-hash")
    if text is None:
        return None
    commit, steps = parse_hash_spec(text, "limit-hash")
    if commit is None and isinstance(head, Detached):
        raise BadRequest("Oldest hash must contain a starting commit ID.")
    return store.resolve(ReferenceSpec(None, commit or head.hash, steps)).hash if steps else commit


@post("/trees/{ref:str}/history/commit", status_code=200)
async def commit(live: LiveStore, request: AnyRequest, ref: Segment, body: Body) -> ASGIApp:
    if len(body) > MAX_INLINE_BODY or _STEPS & set(ref) or "@" not in ref:  # takes long, or reads the store
        branch, expected, meta, operations = await in_thread(_read_commit, live.store, request, ref, body)
    else:
        branch, expected, meta, operations = _read_commit(live.store, request, ref, body)
    with answering(json_response):
        return JsonAnswer(await live.commit(branch, expected, meta, operations))


def _read_commit(
    store: VersionStore, request: AnyRequest, ref: str, body: bytes
) -> tuple[str, CommitHash, NewCommit, tuple[Operation, ...]]:
    branch, expected = read_target(store, ref, "commit")
    return branch, expected, *read_commit(request, body)


@post("/trees/{ref:str}/history/merge", status_code=200, sync_to_thread=True)
def merge(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    branch, expected = read_target(store, ref, "merge")
    wanted = to_merge(store, request, read_body(request, body, MergeIn))
    return answer(lambda: store.merge(branch, expected, wanted))


def to_merge(store: VersionStore, request: AnyRequest, given: MergeIn) -> Merge:
    """What a request to merge asks for."""
    return Merge(
        from_ref=read_source(store, given.from_ref_name, "fromRefName"),
        from_hash=get_body_hash(store, given.from_hash, "fromHash", "Source hash"),
        meta=to_new_commit(given.commit_meta, request, given.message) or NewCommit(message=""),
        default_behavior=given.default_key_merge_mode,
        key_modes=tidy_modes(given.key_merge_modes),
        dry_run=given.wants_dry_run,
        conflicts_as_result=given.wants_conflicts,
        only_head=given.is_only_head,
    )


@post("/trees/{ref:str}/history/transplant", status_code=200, sync_to_thread=True)
def transplant(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    branch, expected = read_target(store, ref, "transplant")
    wanted = to_transplant(store, request, read_body(request, body, TransplantIn))
    return answer(lambda: store.transplant(branch, expected, wanted))


def to_transplant(
    store: VersionStore, request: AnyRequest, given: TransplantIn, message: str | None = None
) -> Transplant:
    """What a request to transplant asks for; `message` stands in for one in the body."""
    return Transplant(
        from_ref=read_source(store, given.from_ref_name, "fromRefName"),
        hashes=tuple(
            get_body_hash(store, text, "hashesToTransplant", "Hash to transplant")
            for text in given.hashes_to_transplant
        ),
        meta=to_new_commit(given.commit_meta, request, given.message or message) or NewCommit(message=""),
        default_behavior=given.default_key_merge_mode,
        key_modes=tidy_modes(given.key_merge_modes),
        dry_run=given.wants_dry_run,
        conflicts_as_result=given.wants_conflicts,
    )


HANDLERS = [list_log, commit, merge, transplant]
