"""Webhooks over HTTP, below `/api/v2/events/subscribers`: an extension of Nessie's API."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response, delete, get, post

from nessie_ops.model import NewSubscriber
from nessie_ops.model.wire import Count, DeadLetterPage, Subscribers
from nessie_ops.server.parameters import Body, Hooks, Segment
from nessie_ops.server.paths import restore
from nessie_ops.server.problems import NoSuchPath
from nessie_ops.server.query import Query
from nessie_ops.server.requests import read_body
from nessie_ops.server.responses import json_response

MAX_LETTERS = 1_000  # of one page
PATH = "/events/subscribers"
ONE = PATH + "/{subscriber:str}"
LETTERS = ONE + "/dead-letters"
AnyRequest = Request[Any, Any, Any]


@get(PATH, sync_to_thread=True)
def list_subscribers(webhooks: Hooks) -> Response[bytes]:
    """All webhooks by name, with how far they have come."""
    return json_response(Subscribers(tuple(webhooks.list_subscribers())))


@post(PATH, sync_to_thread=True)
def create_subscriber(webhooks: Hooks, request: AnyRequest, body: Body) -> Response[bytes]:
    """Make a webhook; the answer alone has its secret."""
    return json_response(webhooks.create_subscriber(read_body(request, body, NewSubscriber)))


@get(ONE, sync_to_thread=True)
def get_subscriber(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    return json_response(webhooks.get_subscriber(restore(subscriber)))


@delete(ONE, status_code=200, sync_to_thread=True)
def delete_subscriber(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Delete a webhook with its dead letters; the answer is what it was."""
    return json_response(webhooks.delete_subscriber(restore(subscriber)))


@post(ONE + "/pause", sync_to_thread=True)
def pause_subscriber(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Send nothing until it is resumed."""
    return json_response(webhooks.pause_subscriber(restore(subscriber)))


@post(ONE + "/resume", sync_to_thread=True)
def resume_subscriber(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Go on at once where it stopped, with all attempts."""
    return json_response(webhooks.resume_subscriber(restore(subscriber)))


@post(ONE + "/test", sync_to_thread=True)
def send_test(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Send one event of kind TEST; the answer tells how it was taken."""
    return json_response(webhooks.send_test(restore(subscriber)))


@get(LETTERS, sync_to_thread=True)
def list_dead_letters(webhooks: Hooks, request: AnyRequest, subscriber: Segment) -> Response[bytes]:
    """Events that were not taken, after a sequence number (`after`)."""
    query = Query(request)
    limit = query.limit(MAX_LETTERS)
    letters = webhooks.list_dead_letters(restore(subscriber), after_seq=query.integer("after") or 0, limit=limit + 1)
    return json_response(DeadLetterPage(tuple(letters[:limit]), len(letters) > limit))


@post(LETTERS + "/retry", sync_to_thread=True)
def retry_dead_letters(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Send all once more; the answer counts them."""
    return json_response(Count(webhooks.retry_dead_letters(restore(subscriber))))


@post(LETTERS + "/{seq:str}/retry", sync_to_thread=True)
def retry_dead_letter(webhooks: Hooks, subscriber: Segment, seq: Segment) -> Response[bytes]:
    return json_response(Count(webhooks.retry_dead_letters(restore(subscriber), _to_seq(seq))))


@delete(LETTERS, status_code=200, sync_to_thread=True)
def discard_dead_letters(webhooks: Hooks, subscriber: Segment) -> Response[bytes]:
    """Delete all; the answer counts them."""
    return json_response(Count(webhooks.discard_dead_letters(restore(subscriber))))


@delete(LETTERS + "/{seq:str}", status_code=200, sync_to_thread=True)
def discard_dead_letter(webhooks: Hooks, subscriber: Segment, seq: Segment) -> Response[bytes]:
    return json_response(Count(webhooks.discard_dead_letters(restore(subscriber), _to_seq(seq))))


def _to_seq(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NoSuchPath
    return int(text)


HANDLERS = [
    list_subscribers,
    create_subscriber,
    get_subscriber,
    delete_subscriber,
    pause_subscriber,
    resume_subscriber,
    send_test,
    list_dead_letters,
    retry_dead_letters,
    retry_dead_letter,
    discard_dead_letters,
    discard_dead_letter,
]
