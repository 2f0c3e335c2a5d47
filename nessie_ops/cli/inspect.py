"""`nessie-ops log`, `diff`, `contents` and `entries`: what a reference holds and how it came to be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from nessie_ops.cli.connection import (
    SPEC,
    AsJson,
    Catalog,
    Filter,
    StoreUrl,
    Uri,
    open_catalog,
    open_filtered,
    reference_argument,
    reference_option,
)
from nessie_ops.cli.output import first_line, print_json, print_rows, print_table
from nessie_ops.client import NessieClient
from nessie_ops.model import CommitHash, ContentKey, ContentType, DiffEntry, Entry, LogEntry, PutLog

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many rows at most.")]
Prefix = Annotated[str, typer.Option("--prefix", metavar="KEY", help="Only this key and all below it.")]
_PAGE = 10_000  # rows of one listing, as in VersionStore


def log(
    context: typer.Context,
    ref: Annotated[str, reference_argument(f"Where to begin: {SPEC}.")] = "-",
    limit: Limit = 20,
    back_to: Annotated[
        str, reference_option("--back-to", help="The last commit to show, such as main~3; it counts itself.")
    ] = "",
    filter: Filter = "",
    operations: Annotated[bool, typer.Option("--operations", help="Show what each commit put and deleted.")] = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show commits, newest first."""
    with open_filtered(context, filter, uri, store) as catalog:
        at, last = catalog.resolve(ref).hash, catalog.resolve(back_to).hash if back_to else None
        if isinstance(catalog, NessieClient):
            found = catalog.list_log(at, limit_hash=last, limit=limit, with_operations=operations, filter=filter)
        else:
            found = catalog.list_log(at, limit_hash=last, limit=limit, with_operations=operations)
    if as_json:
        print_json(found)
    elif operations:
        for entry in found:
            print_rows([_describe(entry)])
            print_rows([("", *_operation(row)) for row in entry.operations or ()])
    else:
        print_table(("commit", "time", "author", "message"), [_describe(entry) for entry in found])


def _describe(entry: LogEntry) -> tuple[str, str, str, str]:
    meta = entry.commit_meta
    time = f"{meta.commit_time:%Y-%m-%d %H:%M:%S}Z"
    return meta.hash[:16], time, ", ".join(meta.authors), first_line(meta.message)


def _operation(row: object) -> tuple[str, str, str]:
    if isinstance(row, PutLog):
        return "put", str(row.key), str(row.content.type)
    return "delete", str(getattr(row, "key", "")), ""


def diff(
    context: typer.Context,
    before: Annotated[str, reference_argument(f"The old state: {SPEC}.")],
    after: Annotated[str, reference_argument("The new state.")] = "-",
    limit: Limit = 1000,
    prefix: Prefix = "",
    filter: Filter = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show keys that differ: + added, - removed, ~ changed."""
    below = ContentKey.from_path(prefix) if prefix else None
    with open_filtered(context, filter, uri, store) as catalog:
        old, new = catalog.resolve(before).hash, catalog.resolve(after).hash
        if isinstance(catalog, NessieClient):
            rows = catalog.diff(old, new, prefix=below, limit=limit, filter=filter)
        else:
            rows = catalog.diff(old, new, prefix=below, limit=limit)
    if as_json:
        print_json(rows)
    else:
        found = [(_sign(row), str(row.key), (row.after or row.before).type) for row in rows]  # type: ignore[union-attr]
        print_table(("", "key", "type"), found)


def _sign(row: DiffEntry) -> str:
    return "+" if row.before is None else "-" if row.after is None else "~"


def contents(
    context: typer.Context,
    ref: Annotated[str, reference_argument(f"What to list: {SPEC}.")] = "-",
    types: Annotated[
        list[ContentType] | None, typer.Option("--type", "-t", help="Only of this type; repeatable.")
    ] = None,
    prefix: Prefix = "",
    filter: Filter = "",
    limit: Limit = 1000,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List tables, views, namespaces and other contents."""
    below = ContentKey.from_path(prefix) if prefix else None
    with open_filtered(context, filter, uri, store) as catalog:
        rows = _list_all(catalog, catalog.resolve(ref).hash, below, filter, as_json)
        found = list(islice((row for row in rows if not types or row.type in types), limit))
    _show(found, as_json)


def _list_all(
    catalog: Catalog, at: CommitHash, below: ContentKey | None, filter: str, with_content: bool
) -> Iterator[Entry]:
    first: ContentKey | None = None
    while True:
        if isinstance(catalog, NessieClient):
            page = catalog.list_entries(
                at, prefix=below, first=first, limit=_PAGE, with_content=with_content, filter=filter
            )
        else:
            page = catalog.list_entries(at, prefix=below, first=first, limit=_PAGE, with_content=with_content)
        yield from page[1:] if first and page and page[0].name == first else page
        if len(page) < _PAGE:
            return
        first = page[-1].name


def entries(
    ref: Annotated[str, reference_argument(f"What to list: {SPEC}.")] = "-",
    limit: Limit = 1000,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List tables, views and namespaces."""
    with open_catalog(uri, store) as catalog:
        found = catalog.list_entries(catalog.resolve(ref).hash, limit=limit)
    _show(found, as_json)


def _show(found: list[Entry], as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_table(("key", "type", "id"), [(str(entry.name), entry.type, entry.content_id) for entry in found])
