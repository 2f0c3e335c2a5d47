"""`nessie-ops log`, `diff` and `entries`: what a reference holds and how it came to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.model import DiffEntry

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many rows at most.")]
Spec = "a branch, a tag, @HASH, or one of them with ~N or *TIME"


def log(
    ref: Annotated[str, typer.Argument(help=f"Where to begin: {Spec}.")] = "-",
    limit: Limit = 20,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show commits, newest first."""
    with open_catalog(uri, store) as catalog:
        entries = catalog.list_log(catalog.resolve(ref).hash, limit=limit)
    if as_json:
        print_json(entries)
        return
    metas = [entry.commit_meta for entry in entries]
    print_rows(
        [
            (
                meta.hash[:16],
                f"{meta.commit_time:%Y-%m-%d %H:%M:%S}Z",
                ", ".join(meta.authors),
                _first_line(meta.message),
            )
            for meta in metas
        ]
    )


def _first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def diff(
    before: Annotated[str, typer.Argument(help=f"The old state: {Spec}.")],
    after: Annotated[str, typer.Argument(help="The new state.")] = "-",
    limit: Limit = 1000,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show keys that differ: + added, - removed, ~ changed."""
    with open_catalog(uri, store) as catalog:
        rows = catalog.diff(catalog.resolve(before).hash, catalog.resolve(after).hash, limit=limit)
    if as_json:
        print_json(rows)
    else:
        print_rows([(_sign(row), str(row.key), (row.after or row.before).type) for row in rows])  # type: ignore[union-attr]


def _sign(row: DiffEntry) -> str:
    return "+" if row.before is None else "-" if row.after is None else "~"


def entries(
    ref: Annotated[str, typer.Argument(help=f"What to list: {Spec}.")] = "-",
    limit: Limit = 1000,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List tables, views and namespaces."""
    with open_catalog(uri, store) as catalog:
        found = catalog.list_entries(catalog.resolve(ref).hash, limit=limit)
    if as_json:
        print_json(found)
    else:
        print_rows([(str(entry.name), entry.type, entry.content_id) for entry in found])


COMMANDS: dict[str, Callable[..., None]] = {"log": log, "diff": diff, "entries": entries}
