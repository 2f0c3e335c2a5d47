"""`nessie-ops events`: webhooks, what they did not take, and the events themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from nessie_ops.cli.connection import AsJson, StoreUrl, Uri, open_catalog
from nessie_ops.cli.output import print_json, print_table
from nessie_ops.client import NessieClient
from nessie_ops.errors import NessieOpsError
from nessie_ops.model import EventKind, NewSubscriber, Subscriber

if TYPE_CHECKING:
    from nessie_ops.events import Webhooks

app = typer.Typer(help="Webhooks that are told of every change of a reference.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the subscriber.")]
Seq = Annotated[int | None, typer.Option(help="One dead letter; without it, all.", min=0)]


@contextmanager
def _open(uri: str, store: str) -> Iterator[Webhooks | NessieClient]:
    with open_catalog(uri, store) as catalog:
        if isinstance(catalog, NessieClient):
            yield catalog
            return
        from nessie_ops.events import Webhooks  # here, as it loads a database's libraries

        yield Webhooks(catalog)


@app.command("show")
def show_events(
    after: Annotated[int, typer.Option(help="Begin after this sequence number.", min=0)] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Show events as subscribers are told them."""
    with open_catalog(uri, store) as catalog:
        events = catalog.list_events(after_seq=after, limit=limit).events
    if as_json:
        print_json(events)
        return
    rows = [
        (
            str(event.seq),
            f"{event.time:%Y-%m-%d %H:%M:%S}Z",
            event.kind,
            event.reference,
            (event.hash_after or "")[:16],
        )
        for event in events
    ]
    print_table(("number", "time", "kind", "reference", "commit"), rows)


@app.command("list")
def list_subscribers(uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """List subscribers with how far they have come."""
    with _open(uri, store) as webhooks:
        found = webhooks.list_subscribers()
    if as_json:
        print_json(found)
    else:
        print_table(("name", "url", "", "", "", ""), [(row.name, row.url, *_describe(row)) for row in found])


def _describe(row: Subscriber) -> tuple[str, str, str, str]:
    letters = f"{row.dead_letters} dead letters" if row.dead_letters else ""
    return "active" if row.active else "paused", f"{row.behind} behind", letters, row.error


@app.command("add")
def add_subscriber(
    name: Name,
    url: Annotated[str, typer.Argument(help="Where events are posted to: http or https.")],
    kind: Annotated[
        list[EventKind] | None, typer.Option(help="A kind to send; repeat it for more. Default: all.")
    ] = None,
    references: Annotated[str, typer.Option(help="Regular expression for whole reference names. Default: all.")] = "",
    after: Annotated[int | None, typer.Option(help="Begin after this sequence number. Default: now.", min=0)] = None,
    max_attempts: Annotated[int, typer.Option(help="Attempts before an event is a dead letter.", min=1)] = 12,
    secret: Annotated[
        str, typer.Option(envvar="NESSIE_OPS_EVENTS_SECRET", help="whsec_ and base64. Default: one is drawn.")
    ] = "",
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """Add a subscriber.  Its secret is shown this once."""
    new = NewSubscriber(
        name=name,
        url=url,
        secret=secret or None,
        kinds=tuple(kind or ()),
        references=references,
        max_attempts=max_attempts,
        after=after,
    )
    with _open(uri, store) as webhooks:
        created = webhooks.create_subscriber(new)
    if as_json:
        print_json(created)
    else:
        typer.echo(f"added {created.subscriber.name}, which begins after {created.subscriber.cursor}")
        typer.echo(f"secret: {created.secret}")


@app.command("delete")
def delete_subscriber(name: Name, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Delete a subscriber with its dead letters."""
    with _open(uri, store) as webhooks:
        deleted = webhooks.delete_subscriber(name)
    _print(deleted, f"deleted {deleted.name}, which was {deleted.behind} behind", as_json)


@app.command("pause")
def pause_subscriber(name: Name, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Send a subscriber nothing until it is resumed."""
    with _open(uri, store) as webhooks:
        paused = webhooks.pause_subscriber(name)
    _print(paused, f"paused {paused.name} after {paused.cursor}", as_json)


@app.command("resume")
def resume_subscriber(name: Name, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Go on where a subscriber stopped, at once and with all attempts."""
    with _open(uri, store) as webhooks:
        resumed = webhooks.resume_subscriber(name)
    _print(resumed, f"resumed {resumed.name}, which is {resumed.behind} behind", as_json)


@app.command("test")
def send_test(name: Name, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False) -> None:
    """Send a subscriber one event of kind TEST; exit code 1 when it is not accepted."""
    with _open(uri, store) as webhooks:
        delivered = webhooks.send_test(name)
    if not as_json and not delivered.accepted:
        raise NessieOpsError(f"{name} did not accept it: {delivered.error}")
    _print(delivered, f"{name} accepted it", as_json)
    if not delivered.accepted:
        raise typer.Exit(1)


@app.command("dead-letters")
def list_dead_letters(
    name: Name,
    after: Annotated[int, typer.Option(help="Begin after this sequence number.", min=0)] = 0,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")] = 100,
    uri: Uri = "",
    store: StoreUrl = "",
    as_json: AsJson = False,
) -> None:
    """List events that a subscriber did not take."""
    with _open(uri, store) as webhooks:
        letters = webhooks.list_dead_letters(name, after_seq=after, limit=limit)
    if as_json:
        print_json(letters)
        return
    rows = [
        (str(row.seq), row.event.kind, row.event.reference, f"{row.attempts} attempts", row.error) for row in letters
    ]
    print_table(("number", "kind", "reference", "", "error"), rows)


@app.command("retry")
def retry_dead_letters(
    name: Name, seq: Seq = None, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False
) -> None:
    """Have dead letters sent once more."""
    with _open(uri, store) as webhooks:
        count = webhooks.retry_dead_letters(name, seq)
    _print({"count": count}, f"{count} will be sent again", as_json)


@app.command("discard")
def discard_dead_letters(
    name: Name, seq: Seq = None, uri: Uri = "", store: StoreUrl = "", as_json: AsJson = False
) -> None:
    """Delete dead letters."""
    with _open(uri, store) as webhooks:
        count = webhooks.discard_dead_letters(name, seq)
    _print({"count": count}, f"discarded {count}", as_json)


def _print(value: object, text: str, as_json: bool) -> None:
    print_json(value) if as_json else typer.echo(text)
