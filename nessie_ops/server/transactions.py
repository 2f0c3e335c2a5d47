"""Transactions over HTTP, below `/api/v2/transactions`: an extension of Nessie's API."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, get, post

from nessie_ops.model import CatalogTransactionState, NewCatalogTransaction
from nessie_ops.model.wire import AfterId, TransactionPage
from nessie_ops.server.once import answer
from nessie_ops.server.paging import make_token, read_token
from nessie_ops.server.parameters import Body, Segment, Transacting
from nessie_ops.server.paths import restore
from nessie_ops.server.query import Query
from nessie_ops.server.requests import read_body
from nessie_ops.server.responses import json_response

MAX_TRANSACTIONS = 1_000  # of one page
PATH = "/transactions"
ONE = PATH + "/{id:str}"
AnyRequest = Request[Any, Any, Any]


class CommitTransactionIn(msgspec.Struct, frozen=True):
    """What the commit says, in place of what was said at the beginning."""

    message: str = ""
    author: str = ""


class LeaseIn(msgspec.Struct, frozen=True, rename="camel"):
    lease_seconds: int = 3600


@post(PATH, sync_to_thread=True)
def begin_transaction(transacting: Transacting, request: AnyRequest, body: Body) -> Response[bytes]:
    """Begin a transaction: a branch from the head of its target."""
    new = read_body(request, body, NewCatalogTransaction)
    return answer(lambda: transacting.begin_transaction(new))


@get(PATH, sync_to_thread=True)
def list_transactions(transacting: Transacting, request: AnyRequest) -> Response[bytes]:
    """Transactions in a state, by id; open ones unless another state is asked for."""
    query = Query(request)
    limit = query.limit(MAX_TRANSACTIONS)
    token = read_token(query.text("page-token"), AfterId)
    state = CatalogTransactionState(query.choice("state", *CatalogTransactionState))
    found = transacting.list_transactions(state=state, after=token.id if token else "", limit=limit + 1)
    more = make_token(AfterId(found[limit - 1].id)) if len(found) > limit else None
    return json_response(TransactionPage(token=more, has_more=more is not None, transactions=tuple(found[:limit])))


@post(PATH + "/tidy", sync_to_thread=True)
def tidy_transactions(transacting: Transacting) -> Response[bytes]:
    """End those whose lease is over, forget those that ended a week ago; what a server does by itself all the time."""
    return json_response(transacting.tidy_transactions())


@get(ONE, sync_to_thread=True)
def get_transaction(transacting: Transacting, id: Segment) -> Response[bytes]:
    return json_response(transacting.get_transaction(restore(id)))


@post(ONE + "/commit", sync_to_thread=True)
def commit_transaction(transacting: Transacting, request: AnyRequest, body: Body, id: Segment) -> Response[bytes]:
    """Merge what it wrote into its target as one commit, once; 409 names who is in the way."""
    told = read_body(request, body, CommitTransactionIn)
    return answer(lambda: transacting.commit_transaction(restore(id), message=told.message, author=told.author))


@post(ONE + "/rollback", sync_to_thread=True)
def rollback_transaction(transacting: Transacting, id: Segment) -> Response[bytes]:
    """Drop it and its branch."""
    return answer(lambda: transacting.rollback_transaction(restore(id)))


@post(ONE + "/renew", sync_to_thread=True)
def renew_transaction(transacting: Transacting, request: AnyRequest, body: Body, id: Segment) -> Response[bytes]:
    """Let its lease end so many seconds from now."""
    told = read_body(request, body, LeaseIn)
    return answer(lambda: transacting.renew_transaction(restore(id), told.lease_seconds))


HANDLERS = [
    begin_transaction,
    list_transactions,
    tidy_transactions,
    get_transaction,
    commit_transaction,
    rollback_transaction,
    renew_transaction,
]
