"""`nessie-ops revert` and `transplant`: new commits made of what is in the history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.errors import BadRequest
from nessie_ops.model import DETACHED, ContentKey, MergeResult, NewCommit, Transplant

Target = Annotated[str, typer.Option("--branch", "-b", help="The branch that gets the new commit; - is the default.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing.")]
Message = Annotated[str, typer.Option("--message", "-m", help="Message of the new commit, instead of the usual one.")]
Author = Annotated[str, typer.Option("--author", help="Author of the new commit.")]


def revert(
    commit: Annotated[str, typer.Argument(help="The commit to undo: @HASH, or a branch or tag, maybe with ~N.")] = "",
    keys: Annotated[list[str] | None, typer.Option("--key", "-k", help="Put only this key back; repeatable.")] = None,
    to: Annotated[str, typer.Option("--to", help="Where keys have the state to go back to, such as main~3.")] = "",
    allow_deletes: Annotated[
        bool, typer.Option("--allow-deletes", help="Delete keys that do not exist in that state.")
    ] = False,
    branch: Target = "-",
    message: Message = "",
    author: Author = "",
    dry_run: DryRun = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Undo a commit, or put single keys back to an older state, by a new commit."""
    if bool(commit) == bool(keys) or bool(keys) != bool(to):
        raise BadRequest("give either a commit, or --key and --to.")
    meta = _make_meta(message, author)
    with open_catalog(uri, store) as catalog:
        at = catalog.resolve(commit or to).hash
        name = catalog.default_branch if branch == "-" else branch
        if keys:
            wanted = [ContentKey.from_path(text) for text in keys]
            result = catalog.revert_contents(
                name, None, wanted, at, allow_deletes=allow_deletes, meta=meta, dry_run=dry_run
            )
        else:
            result = catalog.revert(name, None, at, meta=meta, dry_run=dry_run)
    _show(result, "reverted on", dry_run, as_json)


def transplant(
    commits: Annotated[list[str], typer.Argument(help="The commits, oldest first: @HASH, or a reference with ~N.")],
    branch: Target = "-",
    source: Annotated[
        str, typer.Option("--from", help="The branch that they are taken from, which may not be in quarantine.")
    ] = DETACHED,
    message: Message = "",
    dry_run: DryRun = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Apply what each of some commits changed to a branch, as one new commit each."""
    with open_catalog(uri, store) as catalog:
        name = catalog.default_branch if branch == "-" else branch
        hashes = tuple(catalog.resolve(commit).hash for commit in commits)
        wanted = Transplant(from_ref=source, hashes=hashes, meta=_make_meta(message, ""), dry_run=dry_run)
        result = catalog.transplant(name, None, wanted)
    _show(result, "transplanted to", dry_run, as_json)


def _make_meta(message: str, author: str) -> NewCommit:
    return NewCommit(message=message, authors=(author,) if author else ())


def _show(result: MergeResult, done: str, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    print_rows([(str(row.key),) for row in result.details])
    if result.was_applied:
        typer.echo(f"{done} {result.target_branch}, now at {result.resultant_target_hash}")
    elif dry_run and result.resultant_target_hash is None:
        typer.echo(f"nothing written: a dry run on {result.target_branch}")
    else:
        typer.echo(f"nothing to do on {result.target_branch}")


COMMANDS: dict[str, Callable[..., None]] = {"revert": revert, "transplant": transplant}
