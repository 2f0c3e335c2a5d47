"""Answers that tables and views share: metadata as loaded, and pages of names."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from litestar import Response

from nessie_ops.catalog import Loaded, Names
from nessie_ops.model import ContentKey
from nessie_ops.server.iceberg_requests import Page, next_token
from nessie_ops.server.responses import json_response


def loaded_response(loaded: Loaded) -> Response[bytes]:
    """A table or view; its metadata goes out as the text that the file holds."""
    location = {"metadata-location": loaded.metadata_location} if loaded.metadata_location else {}
    return json_response({**location, "metadata": msgspec.Raw(loaded.metadata), "config": {}})


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
