"""Which catalog a command talks to: a server (`--uri`), or else a database on this machine.

An option goes before the environment: with `--store`, no server is asked that only `NESSIE_OPS_URI` names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, TypeAlias, Union

import typer

from nessie_ops.cli.completion import complete_reference
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, NessieOpsError, ReferenceNotFound
from nessie_ops.runtime.home import get_home, store_url

if TYPE_CHECKING:
    from nessie_ops.versioning import VersionStore

Catalog: TypeAlias = Union["VersionStore", NessieClient]
OpenClient = Callable[[str, str], AbstractContextManager[NessieClient]]
"""A client of the server at a URI, or of one in this process over a database."""

Uri = Annotated[str, typer.Option("--uri", envvar="NESSIE_OPS_URI", help="Server, such as http://127.0.0.1:19120.")]
StoreUrl = Annotated[
    str, typer.Option("--store", envvar="NESSIE_OPS_STORE", help="Database to read when there is no server.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Filter = Annotated[
    str,
    typer.Option(
        "--filter", metavar="CEL", help="Only rows for which this is true; docs/server.md names the variables."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing.")]
SPEC = "a branch, a tag, @HASH, or one of them with ~N or *TIME"
_QUOTED = re.compile(r"'([^']+)'")
_NEAR = 3  # names offered in place of one that does not exist
_LOOKED_AT = 2_000  # names that are compared with it


def reference_argument(help: str) -> typer.models.ArgumentInfo:
    """An argument that is a reference, whose names the shell completes."""
    return typer.Argument(help=help, autocompletion=complete_reference)  # type: ignore[no-any-return]


def reference_option(*names: str, help: str) -> typer.models.OptionInfo:
    """An option whose value is a reference, whose names the shell completes."""
    return typer.Option(*names, help=help, autocompletion=complete_reference)  # type: ignore[no-any-return]


@contextmanager
def open_catalog(uri: str, store: str) -> Iterator[Catalog]:
    """The catalog, closed at the end; BadRequest when there is none, so that no command creates one.

    ReferenceNotFound, raised while it is open, tells of names near the one that does not exist.
    """
    if chooses_server(uri, store):
        with NessieClient(uri) as client, with_names_near(client):
            yield client
        return
    from nessie_ops.transactions import Transactions  # here, as they load a database's libraries
    from nessie_ops.versioning import VersionStore

    local = VersionStore.open(find_store(store), create=False)
    Transactions(local)  # what is read through a transaction's branch counts, whoever reads it
    try:
        with with_names_near(local):
            yield local
    finally:
        local.close()


def open_filtered(context: typer.Context, filter: str, uri: str, store: str) -> AbstractContextManager[Catalog]:
    """The catalog as `open_catalog` gives it; with a filter always by way of a server, which alone can filter."""
    if not filter or chooses_server(uri, store):
        return open_catalog(uri, store)
    find_store(store)
    open_client: OpenClient = context.obj
    return open_client("", store)


def no_client(uri: str, store: str) -> AbstractContextManager[NessieClient]:
    """What a command line without a server of its own has for OpenClient."""
    if not chooses_server(uri, store):
        raise BadRequest("--filter: give --uri; only a server can filter.")
    return NessieClient(uri)


@contextmanager
def with_names_near(catalog: Catalog) -> Iterator[None]:
    """A ReferenceNotFound that is raised within tells of names near the one that does not exist."""
    try:
        yield
    except ReferenceNotFound as error:
        near = _find_near(catalog, error.message)
        if not near:
            raise
        names = " or ".join(f"'{name}'" for name in near)
        raise ReferenceNotFound(f"{error.message.rstrip('.')}. Did you mean {names}?") from None


def _find_near(catalog: Catalog, message: str) -> list[str]:
    quoted = _QUOTED.search(message)
    if not quoted:
        return []
    try:
        names = [found.name for found in catalog.list_references(limit=_LOOKED_AT)]
    except NessieOpsError:  # what was wrong first is what counts
        return []
    return get_close_matches(quoted[1], names, n=_NEAR)


def find_store(store: str) -> str:
    """The URL of the database, by default that of the home; BadRequest when the home has none."""
    home = get_home()
    if not store and not (home / "catalog.db").exists():
        raise BadRequest(
            f"there is no catalog in {home}: `nessie-ops serve` makes one; or name another by --uri, --store or "
            "NESSIE_OPS_HOME."
        )
    return store or store_url(home)


def chooses_server(uri: str, store: str) -> bool:
    """Whether to ask the server; BadRequest when the options name a server and a database."""
    if store == os.environ.get("NESSIE_OPS_STORE", ""):
        return bool(uri)
    if uri != os.environ.get("NESSIE_OPS_URI", ""):
        raise BadRequest("give --uri or --store, not both.")
    return False
