"""Tables over Iceberg's REST protocol: a table's metadata at any state, and updates of it that Spark has no words for.

One request each, to the server that the catalog resource names or starts, so it works for any warehouse.  An update is
sent once: when its answer is lost, whether it was made is for the caller to look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from nessie_ops.catalog.tablemetadata import TableMetadata, parse_metadata
from nessie_ops.client import without_user
from nessie_ops.errors import BadRequest, ReferenceConflict, StoreUnavailable
from nessie_ops.model import ContentKey
from resources.catalog import CatalogResource

_TIMEOUT_S = 120
Json = dict[str, Any]


class TableApi:
    """The tables of a catalog."""

    def __init__(self, catalog: CatalogResource) -> None:
        self._base = f"{catalog.base_uri()}/iceberg/v1"
        self._trust_env = urlsplit(self._base).hostname not in ("127.0.0.1", "localhost", "::1")

    def load(self, ref: str, key: ContentKey) -> TableMetadata:
        """The metadata of a table at a reference specification, such as `main` or `main@<hash>`; BadRequest."""
        answer = self._send("GET", ref, key)
        return parse_metadata(msgspec.json.encode(answer["metadata"]), str(answer.get("metadata-location")))

    def update(self, branch: str, key: ContentKey, requirements: Sequence[Json], updates: Sequence[Json]) -> None:
        """Commit updates to a branch; ReferenceConflict when a requirement is not met any more, BadRequest."""
        self._send("POST", branch, key, {"requirements": list(requirements), "updates": list(updates)})

    def _send(self, method: str, ref: str, key: ContentKey, body: Json | None = None) -> Json:
        namespace = "\x1f".join(key.elements[:-1])
        at, within, name = (quote(part, safe="") for part in (ref, namespace, key.name))
        uri = f"{self._base}/{at}/namespaces/{within}/tables/{name}"
        try:
            answer = httpx.request(method, uri, json=body, timeout=_TIMEOUT_S, trust_env=self._trust_env)
        except httpx.HTTPError as error:
            raise StoreUnavailable(f"{without_user(uri)}: {error!r}") from error
        if answer.status_code == httpx.codes.CONFLICT:
            raise ReferenceConflict(f"{key} on {ref}: {answer.text[:500]}")
        if answer.is_server_error:
            raise StoreUnavailable(f"{without_user(uri)}: {answer.status_code} {answer.text[:500]}")
        if answer.is_error:
            raise BadRequest(f"{key} on {ref}: {answer.status_code} {answer.text[:500]}")
        found: Json = answer.json()
        return found
