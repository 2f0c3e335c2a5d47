"""Which catalog a command talks to: a server (`--uri`), or else a database on this machine.

An option goes before the environment: with `--store`, no server is asked that only `NESSIE_OPS_URI` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.runtime.home import get_home, store_url
from nessie_ops.versioning import VersionStore

Catalog = VersionStore | NessieClient

Uri = Annotated[str, typer.Option("--uri", envvar="NESSIE_OPS_URI", help="Server, such as http://127.0.0.1:19120.")]
StoreUrl = Annotated[
    str, typer.Option("--store", envvar="NESSIE_OPS_STORE", help="Database to read when there is no server.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def open_catalog(uri: str, store: str) -> Iterator[Catalog]:
    """The catalog, closed at the end; BadRequest when there is none, so that no command creates one."""
    if chooses_server(uri, store):
        with NessieClient(uri) as client:
            yield client
        return
    local = VersionStore.open(find_store(store), create=False)
    try:
        yield local
    finally:
        local.close()


def find_store(store: str) -> str:
    """The URL of the database, by default that of the home; BadRequest when the home has none."""
    home = get_home()
    if not store and not (home / "catalog.db").exists():
        raise BadRequest(f"there is no catalog in {home}; give --uri or --store, or set NESSIE_OPS_HOME.")
    return store or store_url(home)


def chooses_server(uri: str, store: str) -> bool:
    """Whether to ask the server; BadRequest when the options name a server and a database."""
    if store == os.environ.get("NESSIE_OPS_STORE", ""):
        return bool(uri)
    if uri != os.environ.get("NESSIE_OPS_URI", ""):
        raise BadRequest("give --uri or --store, not both.")
    return False
