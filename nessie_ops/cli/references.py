"""`list`, `create`, `delete` and `assign` of `nessie-ops branch` and `nessie-ops tag`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from nessie_ops.cli.connection import (
    SPEC,
    AsJson,
    Catalog,
    DryRun,
    Filter,
    StoreUrl,
    Uri,
    open_catalog,
    open_filtered,
    reference_argument,
    reference_option,
)
from nessie_ops.cli.output import print_json, print_table
from nessie_ops.client import NessieClient
from nessie_ops.errors import BadRequest, ReferenceAlreadyExists, ReferenceConflict
from nessie_ops.model import (
    QUARANTINED,
    Branch,
    CommitHash,
    Conflict,
    ConflictType,
    Reference,
    ReferenceType,
    Tag,
    parse_hash,
)

_PAGE = 10_000  # rows of one listing, as in VersionStore
_AFTER_ALL = "z" * 1000  # the last of all names: no letter comes after it, and no name is longer
_TYPES: dict[ReferenceType, type[Branch] | type[Tag]] = {ReferenceType.BRANCH: Branch, ReferenceType.TAG: Tag}

Prefix = Annotated[str, typer.Option(help="Only those whose name begins so.")]
From = Annotated[str, reference_option("--from", help="Where it begins, such as main, main~2 or @HASH.")]
Expected = Annotated[str, typer.Option(help="Only if the head is this commit.", metavar="HASH")]


def make_tag() -> typer.Typer:
    """The commands of `nessie-ops tag`."""
    app = typer.Typer(help="Tags: list, create, delete and assign.", no_args_is_help=True)
    add_commands(app, ReferenceType.TAG)
    return app


def add_commands(app: typer.Typer, kind: ReferenceType) -> None:
    """The four commands for references of a kind."""
    app.command("list")(_make_list(kind))
    app.command("create", help=f"Create a {kind.lower()}; one row, whatever the size of the catalog.")(
        _make_create(kind)
    )
    app.command("delete", help=f"Delete a {kind.lower()}.  Its commits stay until they are collected.")(
        _make_delete(kind)
    )
    app.command("assign", help=f"Let a {kind.lower()} end at another commit, whatever it was at.")(_make_assign(kind))


def _make_list(kind: ReferenceType) -> Callable[..., None]:
    if kind is ReferenceType.TAG:

        def list_tags(
            context: typer.Context,
            prefix: Prefix = "",
            filter: Filter = "",
            uri: Uri = "",
            store: StoreUrl = "",
            as_json: AsJson = False,
        ) -> None:
            """List tags with the commits that they name."""
            with open_filtered(context, filter, uri, store) as catalog:
                _show(list(_list_all(catalog, kind, prefix, filter, hidden=False)), as_json)

        return list_tags

    def list_branches(
        context: typer.Context,
        prefix: Prefix = "",
        filter: Filter = "",
        hidden: Annotated[bool, typer.Option("--hidden", help="Those of transactions, too.")] = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        """List branches with their heads, and why a branch is quarantined."""
        with open_filtered(context, filter, uri, store) as catalog:
            _show(list(_list_all(catalog, kind, prefix, filter, hidden=hidden)), as_json)

    return list_branches


def _list_all(catalog: Catalog, kind: ReferenceType, prefix: str, filter: str, *, hidden: bool) -> Iterator[Reference]:
    after = (ReferenceType.BRANCH, _AFTER_ALL) if kind is ReferenceType.TAG else None
    while True:
        if isinstance(catalog, NessieClient):
            page = catalog.list_references(prefix=prefix, after=after, limit=_PAGE, hidden=hidden, filter=filter)
        else:
            page = catalog.list_references(prefix=prefix, after=after, limit=_PAGE, hidden=hidden)
        yield from (found for found in page if isinstance(found, _TYPES[kind]))
        if len(page) < _PAGE or not isinstance(page[-1], _TYPES[kind]):
            return
        after = (kind, page[-1].name)


def _show(found: list[Reference], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    reasons = [row.properties.get(QUARANTINED) for row in found]
    notes = [f"quarantined: {reason}" if reason is not None else "" for reason in reasons]
    print_table(("name", "commit", ""), [(row.name, row.hash[:16], note) for row, note in zip(found, notes)])


def _make_create(kind: ReferenceType) -> Callable[..., None]:
    def create(
        name: Annotated[str, typer.Argument(help="The new name.")],
        source: From = "-",
        dry_run: DryRun = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        with open_catalog(uri, store) as catalog:
            at = catalog.resolve(source).hash
            if dry_run:
                if any(found.name == name for found in catalog.list_references(prefix=name, hidden=True)):
                    raise ReferenceAlreadyExists(f"Named reference '{name}' already exists.")
                created: Reference = _TYPES[kind](name, at)
            else:
                created = catalog.create_reference(kind, name, at)
        _tell(created, f"{'would create' if dry_run else 'created'} {created.name} at {created.hash}", as_json)

    return create


def _make_delete(kind: ReferenceType) -> Callable[..., None]:
    def delete(
        name: Annotated[str, reference_argument("Name of it.")],
        expected: Expected = "",
        dry_run: DryRun = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        with open_catalog(uri, store) as catalog:
            before = _find(catalog, kind, name, expected)
            if dry_run and name == catalog.default_branch:
                raise BadRequest(f"name: the default branch '{name}' cannot be deleted.")
            gone = before if dry_run else catalog.delete_reference(name, _parse(expected))
        verb = "would delete" if dry_run else "deleted"
        _tell(gone, f"{verb} {gone.name}, which {'is' if dry_run else 'was'} at {gone.hash}", as_json)

    return delete


def _make_assign(kind: ReferenceType) -> Callable[..., None]:
    def assign(
        name: Annotated[str, reference_argument("Name of it.")],
        to: Annotated[str, reference_option("--to", help=f"Where to: {SPEC}.")],
        expected: Expected = "",
        dry_run: DryRun = False,
        uri: Uri = "",
        store: StoreUrl = "",
        as_json: AsJson = False,
    ) -> None:
        with open_catalog(uri, store) as catalog:
            before = _find(catalog, kind, name, expected)
            at = catalog.resolve(to).hash
            if dry_run:
                after: Reference = _TYPES[kind](name, at, before.properties)
            else:
                after = catalog.assign_reference(name, _parse(expected), at)
        verb = "would assign" if dry_run else "assigned"
        _tell(after, f"{verb} {name} to {after.hash}; it {'is' if dry_run else 'was'} at {before.hash}", as_json)

    return assign


def _find(catalog: Catalog, kind: ReferenceType, name: str, expected: str) -> Reference:
    """The reference of this name and kind; BadRequest when it is of the other, ReferenceConflict unless at its head."""
    found, wanted = catalog.get_reference(name), _parse(expected)
    if not isinstance(found, _TYPES[kind]):
        other = "tag" if kind is ReferenceType.BRANCH else "branch"
        raise BadRequest(f"'{name}' is a {other}; use `nessie-ops {other}`.")
    if wanted and found.hash != wanted:
        why = f"expected to be at {wanted}, but is at {found.hash}"
        conflict = Conflict(ConflictType.UNEXPECTED_HASH, None, why)
        raise ReferenceConflict(f"'{name}' was {why}.", (conflict,))
    return found


def _parse(expected: str) -> CommitHash | None:
    return parse_hash(expected, "expected") if expected else None


def _tell(value: Reference, text: str, as_json: bool) -> None:
    print_json(value) if as_json else typer.echo(text)
