"""Answers that tables and views share: metadata as loaded, and pages of names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from litestar import Response
from litestar.datastructures import ETag

from nessie_ops.catalog import Loaded, Names, is_immutable
from nessie_ops.model import ContentKey
from nessie_ops.server.iceberg_requests import Page, next_token
from nessie_ops.server.problems import AnyRequest
from nessie_ops.server.responses import empty, json_response

NOTHING: Mapping[str, Any] = MappingProxyType({})
ALL, REFS = "all", "refs"  # the snapshots that an answer holds


def loaded_response(loaded: Loaded, access: Mapping[str, Any] = NOTHING) -> Response[bytes]:
    """A table or view; its metadata goes out as the text that the file holds."""
    location = {"metadata-location": loaded.metadata_location} if loaded.metadata_location else {}
    return json_response({**location, "metadata": msgspec.Raw(loaded.metadata), "config": {}, **access})


def table_response(loaded: Loaded, snapshots: str = ALL, access: Mapping[str, Any] = NOTHING) -> Response[bytes]:
    """A table, with the tag by which a client asks later whether it has changed.

    None with `access` to its files: that ends some time, so the client must not keep the answer.
    """
    answer = loaded_response(loaded, access)
    tag = make_etag(loaded.metadata_location, snapshots) if loaded.metadata_location else None
    if access:
        answer.set_header("Cache-Control", "no-store")
    elif tag:
        answer.set_etag(tag)
    return answer


def make_etag(metadata_location: str, snapshots: str) -> ETag | None:
    """The tag of a table's metadata with these `snapshots`; weak, since an answer may be packed or not.

    None for a file that may be written anew, since the tag is made of its name alone.
    """
    if not is_immutable(metadata_location):
        return None
    return ETag(value=hashlib.sha256(f"{snapshots} {metadata_location}".encode()).hexdigest()[:32], weak=True)


def not_modified(tag: ETag) -> Response[bytes]:
    """The answer to a client that has what `tag` stands for."""
    answer = empty(304)
    answer.set_etag(tag)
    return answer


def is_known(request: AnyRequest, tag: ETag) -> bool:
    """Whether the client has what `tag` stands for, says `If-None-Match`."""
    known = request.headers.get("if-none-match", "").split(",")
    return any(text.strip() == "*" or text.strip().removeprefix("W/").strip('"') == tag.value for text in known)


def get_names(list_page: Callable[[str | None], Names], page: Page) -> Names:
    """The wanted page; all pages when the client does not page."""
    found = list_page(page.after)
    while found.more and page.limit is None:
        following = list_page(found.names[-1])
        found = Names(found.names + following.names, following.more)
    return found


def identifiers_response(page: Page, namespace: ContentKey, found: Names) -> Response[bytes]:
    """A page of tables or views."""
    identifiers = [{"namespace": namespace.elements, "name": name} for name in found.names]
    return json_response({"identifiers": identifiers, **next_token(page, found)})
