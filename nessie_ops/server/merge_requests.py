"""Merge requests over HTTP, below `/api/v2/merge-requests`: an extension of Nessie's API."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, get, post

from nessie_ops.errors import BadRequest
from nessie_ops.model import CheckResult, CommitHash, MergeRequestState, NewMergeRequest, parse_hash
from nessie_ops.model.wire import BeforeNumber, MergeRequestPage
from nessie_ops.server.once import answer
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.server.parameters import Body, Merging, Segment
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import NoSuchPath
from nessie_ops.server.query import Query
from nessie_ops.server.requests import read_body
from nessie_ops.server.responses import json_response

MAX_REQUESTS = 1_000  # of one page
MAX_NUMBER = 10**18  # above all that are given
PATH = "/merge-requests"
ONE = PATH + "/{number:str}"
AnyRequest = Request[Any, Any, Any]


class ChecksIn(msgspec.Struct, frozen=True):
    """What checks found at a commit."""

    hash: CommitHash
    checks: tuple[CheckResult, ...]
    by: str = ""


class ApprovalIn(msgspec.Struct, frozen=True):
    """Who approves the merge of exactly this commit."""

    hash: CommitHash
    by: str


class ClosingIn(msgspec.Struct, frozen=True):
    """With `hash`, only while the request is about this commit."""

    reason: str
    by: str = ""
    hash: CommitHash | None = None


class WhoIn(msgspec.Struct, frozen=True):
    by: str = ""


@get(PATH, sync_to_thread=True)
def list_merge_requests(merging: Merging, request: AnyRequest) -> Response[bytes]:
    """Merge requests, newest first, of a `state`, a `source`, a `target`."""
    query = Query(request)
    limit = query.limit(MAX_REQUESTS)
    token = read_token(query.text("page-token"), BeforeNumber)
    if token and abs(token.number) > MAX_NUMBER:
        raise BadRequest("page-token: this is not a token that a listing has returned.")
    state = query.choice("state", "", *MergeRequestState)
    found = merging.list_merge_requests(
        state=MergeRequestState(state) if state else None,
        source=query.text("source") or "",
        target=query.text("target") or "",
        before=token.number if token else None,
        limit=limit + 1,
    )
    more = make_token(BeforeNumber(found[limit - 1].number)) if len(found) > limit else None
    return json_response(MergeRequestPage(token=more, has_more=more is not None, merge_requests=tuple(found[:limit])))


@post(PATH, sync_to_thread=True)
def create_merge_request(merging: Merging, request: AnyRequest, body: Body) -> Response[bytes]:
    """Ask for a merge; the same request again for the same commit."""
    new = read_body(request, body, NewMergeRequest)
    return answer(lambda: merging.create_merge_request(new))


@get(ONE, sync_to_thread=True)
def get_merge_request(merging: Merging, number: Segment) -> Response[bytes]:
    return json_response(merging.get_merge_request(_to_number(number)))


@post(ONE + "/checks", sync_to_thread=True)
def report_checks(merging: Merging, request: AnyRequest, body: Body, number: Segment) -> Response[bytes]:
    """Tell what checks found at the commit that is to be merged."""
    told = read_body(request, body, ChecksIn)
    at = parse_hash(told.hash, "hash")
    return answer(lambda: merging.report_checks(_to_number(number), at, told.checks, by=told.by))


@post(ONE + "/approve", sync_to_thread=True)
def approve_merge_request(merging: Merging, request: AnyRequest, body: Body, number: Segment) -> Response[bytes]:
    """Approve the merge of one commit."""
    told = read_body(request, body, ApprovalIn)
    at = parse_hash(told.hash, "hash")
    return answer(lambda: merging.approve_merge_request(_to_number(number), at, by=told.by))


@post(ONE + "/merge", sync_to_thread=True)
def merge_merge_request(merging: Merging, request: AnyRequest, body: Body, number: Segment) -> Response[bytes]:
    """Merge once; the state of the answer tells what became of it."""
    told = read_body(request, body, WhoIn)
    return answer(lambda: merging.merge_merge_request(_to_number(number), by=told.by))


@post(ONE + "/retry", sync_to_thread=True)
def retry_merge_request(merging: Merging, request: AnyRequest, body: Body, number: Segment) -> Response[bytes]:
    """Open again, at the commit where the source ends now."""
    told = read_body(request, body, WhoIn)
    return answer(lambda: merging.retry_merge_request(_to_number(number), by=told.by))


@post(ONE + "/close", sync_to_thread=True)
def close_merge_request(merging: Merging, request: AnyRequest, body: Body, number: Segment) -> Response[bytes]:
    """Close without merging."""
    told = read_body(request, body, ClosingIn)
    at = parse_hash(told.hash, "hash") if told.hash is not None else None
    return answer(lambda: merging.close_merge_request(_to_number(number), told.reason, by=told.by, commit=at))


def _to_number(text: str) -> int:
    digits = restore(text)
    if not (digits.isascii() and digits.isdecimal() and len(digits) < len(str(MAX_NUMBER))):
        raise NoSuchPath
    return int(digits)


HANDLERS = [
    list_merge_requests,
    create_merge_request,
    get_merge_request,
    report_checks,
    approve_merge_request,
    merge_merge_request,
    retry_merge_request,
    close_merge_request,
]
