"""`nessie-ops txn`: transactions over many tables, begun and ended from a shell; engines write on their branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog, reference_option
from nessie_ops.cli.output import first_line, print_json, print_table
from nessie_ops.client import NessieClient
from nessie_ops.errors import TransactionConflict
from nessie_ops.model import (
    TRANSACTIONS,
    CatalogTransaction,
    CatalogTransactionState,
    Isolation,
    NewCatalogTransaction,
)
from nessie_ops.model.repository import parse_duration

if TYPE_CHECKING:
    from nessie_ops.transactions import Transactions

app = typer.Typer(help="Transactions over many tables, each on a branch of its own.", no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the transaction, or its branch.")]
Lease = Annotated[str, typer.Option(help="How long it may stay open, such as PT1H; at most P7D.", metavar="DURATION")]
_WIDTH = 16  # characters of a hash for people


@contextmanager
def _open(uri: str, store: str) -> Iterator[Transactions | NessieClient]:
    with open_catalog(uri, store) as catalog:
        if isinstance(catalog, NessieClient):
            yield catalog
            return
        from nessie_ops.transactions import Transactions

        yield Transactions(catalog)


@app.command("begin")
def begin(
    target: Annotated[
        str, reference_option("--on", help="Where its commit shall go.  [default: the default branch]")
    ] = "",
    isolation: Annotated[
        Isolation, typer.Option(help="What it sees of others' commits.", case_sensitive=False)
    ] = Isolation.SERIALIZABLE,
    lease: Lease = "PT1H",
    message: Annotated[str, typer.Option("--message", "-m", help="Message of its commit.")] = "",
    author: Annotated[str, typer.Option("--author", help="Author of its commit.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Begin a transaction, and print its branch, on which any client can read and write."""
    new = NewCatalogTransaction(
        target=target, isolation=isolation, lease_seconds=_seconds(lease), author=author, message=message
    )
    with _open(uri, store) as transactions:
        begun = transactions.begin_transaction(new)
    _tell(begun, f"began {begun.branch} on {begun.target}, open until {begun.expires_at:%Y-%m-%d %H:%M:%S}Z", as_json)


@app.command("list")
def list_transactions(
    state: Annotated[
        CatalogTransactionState, typer.Option(help="Only those in this state.", case_sensitive=False)
    ] = CatalogTransactionState.OPEN,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")] = 1_000,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List transactions in a state, by id; those that have ended are known for seven days."""
    with _open(uri, store) as transactions:
        found = transactions.list_transactions(state=state, limit=limit)
    if as_json:
        print_json(found)
        return
    rows = [
        (row.id, row.target, row.isolation, f"{row.ended_at or row.expires_at:%Y-%m-%d %H:%M:%S}Z", row.author)
        for row in found
    ]
    print_table(("id", "target", "isolation", "open until" if state == "OPEN" else "ended", "author"), rows)


@app.command("show")
def show(id: Id, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Show a transaction."""
    with _open(uri, store) as transactions:
        found = transactions.get_transaction(_id(id))
    if as_json:
        print_json(found)
        return
    rows = [("id", found.id), ("state", found.state), ("branch", found.branch), ("target", found.target)]
    rows += [("isolation", found.isolation), ("started", f"{found.started_at:%Y-%m-%d %H:%M:%S}Z")]
    ends = ("ended", found.ended_at) if found.ended_at else ("open until", found.expires_at)
    rows += [(ends[0], f"{ends[1]:%Y-%m-%d %H:%M:%S}Z"), ("sees", found.base_hash), ("started at", found.start_hash)]
    told = {"commit": found.commit_hash or "", "author": found.author, "message": first_line(found.message)}
    print_table(("", ""), rows + [(label, text) for label, text in told.items() if text], cuts=False)


@app.command("commit")
def commit(
    id: Id,
    message: Annotated[str, typer.Option("--message", "-m", help="Message, instead of that of `begin`.")] = "",
    author: Annotated[str, typer.Option("--author", help="Author, instead of that of `begin`.")] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Merge what a transaction wrote into its target, as one commit, once.

    Exit code 3 when others changed what it wrote or, if it is SERIALIZABLE, read: says who, and it stays open.
    """
    with _open(uri, store) as transactions:
        try:
            done = transactions.commit_transaction(_id(id), message=message, author=author)
        except TransactionConflict as conflict:
            _tell_conflict(conflict)
            raise
    _tell(done, f"committed {done.id} to {done.target}, now at {done.commit_hash}", as_json)


def _tell_conflict(conflict: TransactionConflict) -> None:
    for row in conflict.changes:
        commit = f"{row.commit_hash[:_WIDTH]} {row.time:%Y-%m-%d %H:%M:%S}Z {row.author} {first_line(row.message)}"
        typer.echo(f"{row.key}: {commit.rstrip()}", err=True)


@app.command("rollback")
def rollback(id: Id, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Drop a transaction, its branch and what it wrote."""
    with _open(uri, store) as transactions:
        done = transactions.rollback_transaction(_id(id))
    _tell(done, f"rolled back {done.id}", as_json)


@app.command("renew")
def renew(id: Id, lease: Lease = "PT1H", uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Let the lease of a transaction end later, counted from now."""
    with _open(uri, store) as transactions:
        done = transactions.renew_transaction(_id(id), _seconds(lease))
    _tell(done, f"{done.id} is open until {done.expires_at:%Y-%m-%d %H:%M:%S}Z", as_json)


@app.command("reap")
def reap(uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """End the transactions whose leases are over, as a server does by itself.

    Also forgets those that ended a week ago, and deletes branches of none that is open.
    """
    with _open(uri, store) as transactions:
        done = transactions.tidy_transactions()
    if as_json:
        print_json(done)
        return
    print_table(("", "id"), [("expired", id) for id in done.expired])
    typer.echo(f"{len(done.expired):,} expired, {done.forgotten:,} forgotten, {len(done.branches):,} branches deleted")


def _id(given: str) -> str:
    return given.removeprefix(TRANSACTIONS)


def _seconds(lease: str) -> int:
    return int(parse_duration(lease, "--lease").total_seconds())


def _tell(done: CatalogTransaction, text: str, as_json: bool) -> None:
    print_json(done) if as_json else typer.echo(text)
