"""Completion of references' names in a shell: a few names, soon, or none.  Never an error, nor a word on stderr."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import typer

_MOST = 50  # names offered
_PATIENCE_S = 1.0  # somebody has pressed a key and waits


def complete_reference(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of branches and tags that begin so, of the catalog that the line so far or the environment names."""
    given = ctx.params
    uri = str(given.get("uri") or os.environ.get("NESSIE_OPS_URI", ""))
    store = str(given.get("store") or os.environ.get("NESSIE_OPS_STORE", ""))
    with suppress(Exception):
        return [found.name for found in _list(uri, store, incomplete)]
    return []


def _list(uri: str, store: str, prefix: str) -> list[Any]:
    from nessie_ops.cli.connection import chooses_server, find_store  # not above: it uses this module
    from nessie_ops.client import NessieClient

    if chooses_server(uri, store):
        with NessieClient(uri, connect_timeout_s=_PATIENCE_S, read_timeout_s=_PATIENCE_S) as client:
            return list(client.list_references(prefix=prefix, limit=_MOST))
    from nessie_ops.versioning import VersionStore

    versions = VersionStore.open(find_store(store), create=False)
    try:
        return list(versions.list_references(prefix=prefix, limit=_MOST))
    finally:
        versions.close()
