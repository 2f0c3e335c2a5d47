"""`nessie-ops why`: which commit, run, asset, checks and version of the code a table's data comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from nessie_ops.catalog.catalog import IcebergCatalog
from nessie_ops.catalog.changes import LoadMetadata, read_from, read_through
from nessie_ops.catalog.provenance import Origin, Wanted, trace
from nessie_ops.catalog.stores import S3
from nessie_ops.cli.connection import AsJson, Catalog, StoreUrl, Uri, find_store, open_catalog, reference_option
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, CommitMeta, ContentKey
from nessie_ops.runtime.home import allowed_locations, get_home, warehouse_url

if TYPE_CHECKING:
    from pyiceberg.table import Table

LoadTable = Callable[[CommitHash, ContentKey], "Table"]
"""The table as it is at a commit."""

_FIGURES = ("operation", "added-records", "deleted-records", "total-records", "added-data-files", "added-files-size")
_PROPERTIES = {
    "run": "nessie_ops.run_id",
    "job": "nessie_ops.job",
    "partition": "nessie_ops.partition",
    "tables": "nessie_ops.assets",
    "page": "nessie_ops.run_url",
    "undoes": "nessie_ops.reverted_commit",
    "code version": "nessie_ops.code_version",
    "merge request": "nessie_ops.merge_request",
    "checks": "nessie_ops.checks",
}


def why(
    table: Annotated[str, typer.Argument(help="The table, such as silver.flights.")],
    ref: Annotated[
        str, reference_option("--ref", help="A branch, a tag, @HASH, or one of them with ~N or *TIME.")
    ] = "-",
    snapshot: Annotated[int | None, typer.Option("--snapshot", help="What brought this snapshot.")] = None,
    file: Annotated[str, typer.Option("--file", help="What brought this file: its path, or the end of it.")] = "",
    row: Annotated[
        str, typer.Option("--row", help='What brought the rows for which this is true, such as "month = 4".')
    ] = "",
    warehouse: Annotated[str, typer.Option(envvar="NESSIE_OPS_WAREHOUSE", help="Of a store of one's own.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Tell where a table's data comes from: the commit, the run, its checks and the version of the code."""
    if sum((snapshot is not None, bool(file), bool(row))) > 1:
        raise BadRequest("give one of --snapshot, --file and --row.")
    key = ContentKey.from_path(table)
    with open_catalog(uri, store) as catalog, open_tables(catalog, store, warehouse) as load:
        wanted = Wanted(snapshot, file, row)
        found = trace(catalog, catalog.resolve(ref).hash, key, load, wanted)
    if as_json:
        print_json([_to_json(origin) for origin in found])
        return
    if not found:
        typer.echo("no row is like that")
    for origin in found:
        _show(origin)


@contextmanager
def open_tables(catalog: Catalog, store: str, warehouse: str) -> Iterator[LoadTable]:
    """How to read a table at a commit: through the server, or from the store itself."""
    from pyiceberg.catalog.rest import RestCatalog

    from nessie_ops.catalog.pyiceberg import NessieOpsCatalog

    if isinstance(catalog, NessieClient):
        base = f"{catalog.base_uri}/iceberg"
        yield lambda at, key: RestCatalog("why", uri=f"{base}/{quote(f'@{at}', safe='')}").load_table(key.elements)
        return
    given = {"warehouse": warehouse} if warehouse else {}
    with NessieOpsCatalog("why", uri=find_store(store), **given) as embedded:
        yield lambda at, key: embedded.on(f"@{at}").load_table(key.elements)


def open_metadata(catalog: Catalog, warehouse: str) -> LoadMetadata:
    """How to read a table's metadata at a commit: through the server, or from the store itself."""
    if isinstance(catalog, NessieClient):
        return read_through(catalog)
    place = warehouse or warehouse_url(get_home())
    return read_from(IcebergCatalog(catalog, place, allowed_locations=allowed_locations(), s3=S3.from_env()))


def _to_json(origin: Origin) -> dict[str, Any]:
    return {
        "snapshotId": origin.snapshot_id,
        "summary": origin.summary,
        "commit": origin.commit,
        "files": origin.files,
    }


def _show(origin: Origin) -> None:
    meta = origin.commit
    rows = [("snapshot", "none" if origin.snapshot_id is None else str(origin.snapshot_id))]
    rows += [("", f"{name} {origin.summary[name]}") for name in _FIGURES if name in origin.summary]
    rows += [("file", file) for file in origin.files]
    if meta is None:
        rows.append(("commit", "none that is left has it: it expired, or was never committed here"))
    print_rows(rows + (describe_commit(meta) if meta else []))


def describe_commit(meta: CommitMeta) -> list[tuple[str, str]]:
    """What is said of a commit, as rows of a label and a value."""
    rows = [("commit", meta.hash), ("at", f"{meta.commit_time:%Y-%m-%d %H:%M:%S}Z"), ("message", meta.message)]
    rows += [("by", author) for author in meta.authors if author]
    for label, name in _PROPERTIES.items():
        rows += [(label, value) for value in meta.all_properties.get(name, ())]
    return rows
