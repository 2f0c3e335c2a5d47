"""`nessie-ops merge` and `transplant`: what others committed comes to a branch."""

from __future__ import annotations

from typing import Annotated

from nessie_ops.cli.applying import (
    Author,
    Behavior,
    Expected,
    KeyModes,
    Message,
    Target,
    make_meta,
    parse_expected,
    parse_modes,
    target_of,
    tell,
)
from nessie_ops.cli.connection import (
    SPEC,
    AsJson,
    DryRun,
    StoreUrl,
    Uri,
    open_catalog,
    reference_argument,
    reference_option,
)
from nessie_ops.model import DETACHED, Merge, MergeBehavior, Transplant


def merge(
    source: Annotated[str, reference_argument(f"What to merge: {SPEC}.")],
    branch: Target = "-",
    message: Message = "",
    author: Author = "",
    behavior: Behavior = MergeBehavior.NORMAL,
    keys: KeyModes = None,
    expected: Expected = "",
    dry_run: DryRun = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Merge a branch, tag or commit into a branch, as one commit.

    Prints a key per line; exit code 3, with each conflict, when both sides changed a key.
    """
    modes = parse_modes(keys)
    with open_catalog(uri, store) as catalog:
        found = catalog.resolve(source)
        wanted = Merge(
            from_ref=found.name,
            from_hash=found.hash,
            meta=make_meta(message, author),
            default_behavior=behavior,
            key_modes=modes,
            dry_run=dry_run,
            conflicts_as_result=True,
        )
        at = parse_expected(expected)
        result = catalog.merge(target_of(catalog, branch), at, wanted)
    tell(result, f"merged {source} into", dry_run=dry_run, as_json=as_json)


def transplant(
    commits: Annotated[list[str], reference_argument("The commits, oldest first: @HASH, or a reference with ~N.")],
    branch: Target = "-",
    source: Annotated[
        str, reference_option("--from", help="The branch that they are taken from, which may not be in quarantine.")
    ] = DETACHED,
    message: Message = "",
    author: Author = "",
    behavior: Behavior = MergeBehavior.NORMAL,
    keys: KeyModes = None,
    expected: Expected = "",
    dry_run: DryRun = False,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Apply what each of some commits changed to a branch, as one new commit each.

    Each commit must be the direct child of the one before.  --message counts for a single commit, --author is
    added to the authors.  Output and exit codes are those of `merge`.
    """
    modes = parse_modes(keys)
    with open_catalog(uri, store) as catalog:
        wanted = Transplant(
            from_ref=source,
            hashes=tuple(catalog.resolve(commit).hash for commit in commits),
            meta=make_meta(message, author),
            default_behavior=behavior,
            key_modes=modes,
            dry_run=dry_run,
            conflicts_as_result=True,
        )
        at = parse_expected(expected)
        result = catalog.transplant(target_of(catalog, branch), at, wanted)
    tell(result, "transplanted to", dry_run=dry_run, as_json=as_json)
