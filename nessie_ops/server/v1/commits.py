"""Endpoints of v1 that write commits, and the one that lists them."""

from __future__ import annotations

from litestar import Response, get, post

from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, MergeResult, ReferenceSpec, parse_hash_spec
from nessie_ops.server import listings
from nessie_ops.server.commits import MAX_LOG_PAGE, to_merge, to_transplant
from nessie_ops.server.filter_variables import LOG
from nessie_ops.server.filters import read_filter
from nessie_ops.server.once import answer
from nessie_ops.server.parameters import Body, Segment, Store
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.query import Query
from nessie_ops.server.requests import MergeIn, TransplantIn, read_body, read_commit
from nessie_ops.server.responses import json_response
from nessie_ops.server.v1.specs import read_expected, read_name, to_spec
from nessie_ops.server.v1.wire import LoggedCommit, LogPageV1, Merged, to_reference
from nessie_ops.versioning import VersionStore


@get("/trees/tree/{ref:str}/log", sync_to_thread=True)
def list_log(store: Store, request: AnyRequest, ref: Segment) -> Response[bytes]:
    """Newest first, from `endHash` back to `startHash`; pynessie calls the former `hashOnRef`."""
    query = Query(request)
    young = "endHash" if query.text("endHash") else "hashOnRef"
    begin = store.resolve(to_spec(restore(ref), query.text(young), young)).hash
    page, token = listings.list_log(
        store,
        begin,
        limit_hash=_read_old_end(store, query, begin),
        full=query.choice("fetch", "MINIMAL", "ALL") == "ALL",
        wanted=read_filter(query, LOG),
        limit=query.limit(MAX_LOG_PAGE, "maxRecords"),
        token=query.text("pageToken"),
    )
    rows = tuple(LoggedCommit.of(entry) for entry in page)
    return json_response(LogPageV1(log_entries=rows, has_more=token is not None, token=token))


def _read_old_end(store: VersionStore, query: Query, begin: CommitHash) -> CommitHash | None:
    text = query.text("startHash")
    if text is None:
        return None
    commit, steps = parse_hash_spec(text, "startHash")
    return store.resolve(ReferenceSpec(None, commit or begin, steps)).hash if steps else commit


@post("/trees/branch/{ref:str}/commit", status_code=200, sync_to_thread=True)
def commit(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    branch, expected = read_name(ref), read_expected(store, Query(request))
    meta, operations = read_commit(request, body)
    return answer(
        lambda: store.commit(branch, expected, meta, operations),
        lambda result: json_response(to_reference(result.target_branch)),
    )


def _show(result: MergeResult) -> Response[bytes]:
    return json_response(Merged.of(result))


class MergeV1In(MergeIn, frozen=True, kw_only=True, rename="camel"):
    keep_individual_commits: bool = False


@post("/trees/branch/{ref:str}/merge", status_code=200, sync_to_thread=True)
def merge(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    branch, expected = read_name(ref), read_expected(store, Query(request))
    given = read_body(request, body, MergeV1In)
    if given.keep_individual_commits:
        raise BadRequest("keepIndividualCommits: a merge makes one commit; leave it out, or use transplant.")
    wanted = to_merge(store, request, given)
    return answer(lambda: store.merge(branch, expected, wanted), _show)


class TransplantV1In(TransplantIn, frozen=True, kw_only=True, rename="camel"):
    keep_individual_commits: bool = True


@post("/trees/branch/{ref:str}/transplant", status_code=200, sync_to_thread=True)
def transplant(store: Store, request: AnyRequest, ref: Segment, body: Body) -> Response[bytes]:
    query = Query(request)
    branch, expected = read_name(ref), read_expected(store, query)
    given = read_body(request, body, TransplantV1In)
    if not given.keep_individual_commits:
        raise BadRequest("keepIndividualCommits: a transplant makes one commit each; leave it out, or use merge.")
    wanted = to_transplant(store, request, given, query.text("message"))
    return answer(lambda: store.transplant(branch, expected, wanted), _show)


HANDLERS = [list_log, commit, merge, transplant]
