"""Which catalog a command talks to: a server (`--uri`), or else a database on this machine."""

from __future__ import annotations

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
    """The catalog, closed at the end; BadRequest when there is none, so that reading creates nothing."""
    if uri:
        with NessieClient(uri) as client:
            yield client
        return
    home = get_home()
    if not store and not (home / "catalog.db").exists():
        raise BadRequest(f"there is no catalog in {home}; give --uri or --store, or set NESSIE_OPS_HOME.")
    local = VersionStore.open(store or store_url(home))
    try:
        yield local
    finally:
        local.close()
