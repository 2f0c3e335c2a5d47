"""`nessie-ops revert`: what was done is undone, or put back, by a new commit."""

from __future__ import annotations

from typing import Annotated

import typer

from nessie_ops.cli.applying import Author, Expected, Message, Target, make_meta, parse_expected, target_of, tell
from nessie_ops.cli.connection import (
    AsJson,
    DryRun,
    StoreUrl,
    Uri,
    open_catalog,
    reference_argument,
    reference_option,
)
from nessie_ops.errors import BadRequest
from nessie_ops.model import ContentKey


def revert(
    commit: Annotated[str, reference_argument("The commit to undo: @HASH, or a branch or tag, maybe with ~N.")] = "",
    keys: Annotated[list[str] | None, typer.Option("--key", "-k", help="Put only this key back; repeatable.")] = None,
    to: Annotated[str, reference_option("--to", help="Where keys have the state to go back to, such as main~3.")] = "",
    allow_deletes: Annotated[
        bool, typer.Option("--allow-deletes", help="Delete keys that do not exist in that state.")
    ] = False,
    branch: Target = "-",
    message: Message = "",
    author: Author = "",
    expected: Expected = "",
    dry_run: DryRun = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Undo a commit, or put single keys back to an older state, by a new commit.

    Output and exit codes are those of `merge`.
    """
    if bool(commit) == bool(keys) or bool(keys) != bool(to):
        raise BadRequest("give either a commit, or --key and --to.")
    meta, head = make_meta(message, author), parse_expected(expected)
    with open_catalog(uri, store) as catalog:
        at = catalog.resolve(commit or to).hash
        name = target_of(catalog, branch)
        if keys:
            wanted = [ContentKey.from_path(text) for text in keys]
            result = catalog.revert_contents(
                name,
                head,
                wanted,
                at,
                allow_deletes=allow_deletes,
                meta=meta,
                dry_run=dry_run,
                conflicts_as_result=True,
            )
        else:
            result = catalog.revert(name, head, at, meta=meta, dry_run=dry_run, conflicts_as_result=True)
    tell(result, "reverted on", dry_run=dry_run, as_json=as_json)
