"""What `nessie-ops merge`, `transplant` and `revert` share: options, and how a result is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from nessie_ops.cli.connection import Catalog, reference_option
from nessie_ops.cli.exits import CONFLICT
from nessie_ops.cli.output import print_json, print_rows
from nessie_ops.errors import BadRequest
from nessie_ops.model import CommitHash, ContentKey, KeyMergeMode, MergeBehavior, MergeResult, NewCommit, parse_hash

Target = Annotated[str, reference_option("--branch", "-b", help="The branch that gets the commit; - is the default.")]
Message = Annotated[str, typer.Option("--message", "-m", help="Message of the new commit, instead of the usual one.")]
Author = Annotated[str, typer.Option("--author", help="Author of the new commit.")]
Expected = Annotated[
    str, typer.Option(help="A commit that the branch must have in its history.", metavar="HASH", show_default=False)
]
Behavior = Annotated[
    MergeBehavior,
    typer.Option("--behavior", help="Of keys that both changed: refuse, take the source's, or leave them out."),
]
KeyModes = Annotated[
    list[str] | None,
    typer.Option("--key", "-k", metavar="KEY=BEHAVIOR", help="Another behavior for this key; repeatable."),
]


def target_of(catalog: Catalog, branch: str) -> str:
    """The name of the branch that `--branch` names."""
    return catalog.default_branch if branch == "-" else branch


def make_meta(message: str, author: str) -> NewCommit:
    """What the options say of the new commit."""
    return NewCommit(message=message, authors=(author,) if author else ())


def parse_expected(text: str) -> CommitHash | None:
    """The hash of `--expected`, if there is one; BadRequest."""
    return parse_hash(text, "expected") if text else None


def parse_modes(texts: Sequence[str] | None) -> tuple[KeyMergeMode, ...]:
    """Behaviors of single keys; BadRequest."""
    modes = []
    for text in texts or ():
        key, _, name = text.rpartition("=")
        if not key or name.upper() not in MergeBehavior.__members__:
            raise BadRequest(f"--key: '{text[:200]}' is not KEY=BEHAVIOR with one of {', '.join(MergeBehavior)}.")
        modes.append(KeyMergeMode(key=ContentKey.from_path(key), merge_behavior=MergeBehavior(name.upper())))
    return tuple(modes)


def tell(result: MergeResult, done: str, *, dry_run: bool, as_json: bool) -> None:
    """Print a result; a conflict ends the command with its exit code, after all conflicts have been told."""
    if as_json:
        print_json(result)
    else:
        for row in result.details:
            print_rows([(str(row.key), row.conflict.message) if row.conflict else (str(row.key),)])
        if result.was_applied:
            typer.echo(f"{done} {result.target_branch}, now at {result.resultant_target_hash}")
        elif result.was_successful and dry_run and result.resultant_target_hash is None:
            typer.echo(f"nothing written: a dry run on {result.target_branch}")
        elif result.was_successful:
            typer.echo(f"nothing to do on {result.target_branch}")
    if not result.was_successful:
        keys = ", ".join(f"'{row.key}'" for row in result.details if row.conflict)
        typer.echo(f"nessie-ops: conflicts, so nothing was written to {result.target_branch}: {keys}", err=True)
        raise typer.Exit(CONFLICT)
