"""Rows of webhooks and of the events that they did not take.  Times: microseconds since 1970, UTC.

A webhook's progress is written by the owner of its lease alone: `save_progress` changes nothing for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import and_, delete, func, insert, or_, select, update

from nessie_ops.store import tables
from nessie_ops.store.transactions import Transaction
from nessie_ops.store.writing import WriteTransaction

subscriber, letter = tables.subscriber, tables.dead_letter


class SubscriberRecord(NamedTuple):
    name: str
    url: str
    secret: str
    kinds: str
    pattern: str
    max_attempts: int
    active: int
    created_at: int
    seq: int
    attempts: int = 0
    retry_at: int = 0
    error: str = ""
    owner: str = ""
    leased_until: int = 0


class LetterRecord(NamedTuple):
    subscriber: str
    seq: int
    event: str
    error: str
    attempts: int
    at: int
    retrying: int = 0


def get_last_seq(tx: Transaction) -> int:
    """The number of the newest row of the reference log."""
    found: int | None = tx.connection.execute(select(func.max(tables.reference_log.c.seq))).scalar()
    return found or 0


def get_subscriber(tx: Transaction, name: str) -> SubscriberRecord | None:
    row = tx.connection.execute(select(subscriber).where(subscriber.c.name == name)).first()
    return SubscriberRecord(*row) if row else None


def list_subscribers(tx: Transaction) -> list[SubscriberRecord]:
    """All, by name."""
    rows = tx.connection.execute(select(subscriber).order_by(subscriber.c.name))
    return [SubscriberRecord(*row) for row in rows]


def insert_subscriber(tx: WriteTransaction, record: SubscriberRecord) -> None:
    tx.connection.execute(insert(subscriber), record._asdict())


def delete_subscriber(tx: WriteTransaction, name: str) -> None:
    """Delete a webhook with its dead letters."""
    tx.connection.execute(delete(subscriber).where(subscriber.c.name == name))
    tx.connection.execute(delete(letter).where(letter.c.subscriber == name))


def update_subscriber(tx: WriteTransaction, name: str, **values: Any) -> None:
    tx.connection.execute(update(subscriber).where(subscriber.c.name == name).values(values))


def list_names_with_work(tx: Transaction, now: int) -> list[str]:
    """Active webhooks that nobody sends to and that have rows of the log or letters to be sent, and may be tried."""
    last = select(func.max(tables.reference_log.c.seq)).scalar_subquery()
    letters = select(letter.c.subscriber).where(letter.c.retrying == 1)
    has_events = and_(subscriber.c.seq < last, subscriber.c.retry_at <= now)
    statement = (
        select(subscriber.c.name)
        .where(subscriber.c.active == 1, _is_free(now))
        .where(or_(has_events, subscriber.c.name.in_(letters)))
    )
    return [row.name for row in tx.connection.execute(statement.order_by(subscriber.c.name))]


def has_subscribers(tx: Transaction) -> bool:
    """Whether any webhook is active."""
    found = tx.connection.execute(select(subscriber.c.name).where(subscriber.c.active == 1).limit(1))
    return found.first() is not None


def lease(tx: WriteTransaction, name: str, owner: str, now: int, until: int) -> SubscriberRecord | None:
    """Take a free, active webhook for `owner`; None when it is not to be had."""
    statement = update(subscriber).where(subscriber.c.name == name, subscriber.c.active == 1, _is_free(now))
    changed = tx.connection.execute(statement.values(owner=owner, leased_until=until)).rowcount
    return get_subscriber(tx, name) if changed else None


def renew_leases(tx: WriteTransaction, names: Iterable[str], owner: str, until: int) -> None:
    """Keep webhooks that `owner` still has."""
    mine = and_(subscriber.c.name.in_(list(names)), subscriber.c.owner == owner)
    tx.connection.execute(update(subscriber).where(mine).values(leased_until=until))


def save_progress(tx: WriteTransaction, name: str, owner: str, values: Mapping[str, Any]) -> SubscriberRecord | None:
    """Change columns of a webhook that `owner` still has, and read it; None when it is somebody else's or gone."""
    statement = update(subscriber).where(subscriber.c.name == name, subscriber.c.owner == owner)
    changed = tx.connection.execute(statement.values(**values)).rowcount
    return get_subscriber(tx, name) if changed else None


def _is_free(now: int) -> Any:
    return or_(subscriber.c.owner == "", subscriber.c.leased_until < now)


def insert_letter(tx: WriteTransaction, record: LetterRecord) -> None:
    tx.connection.execute(insert(letter), record._asdict())


def count_letters(tx: Transaction) -> dict[str, int]:
    """How many each webhook has; those without are left out."""
    rows = tx.connection.execute(select(letter.c.subscriber, func.count()).group_by(letter.c.subscriber))
    return {row[0]: row[1] for row in rows}


def list_letters(
    tx: Transaction, name: str, after_seq: int, limit: int, *, retrying: bool = False
) -> list[LetterRecord]:
    """Letters of one webhook by sequence number; with `retrying` those alone that are to be sent again."""
    statement = select(letter).where(letter.c.subscriber == name, letter.c.seq > after_seq)
    if retrying:
        statement = statement.where(letter.c.retrying == 1)
    return [LetterRecord(*row) for row in tx.connection.execute(statement.order_by(letter.c.seq).limit(limit))]


def update_letters(tx: WriteTransaction, name: str, seq: int | None, **values: Any) -> None:
    """Change one letter, or all of a webhook."""
    tx.connection.execute(update(letter).where(_letters(name, seq)).values(values))


def delete_letters(tx: WriteTransaction, name: str, seq: int | None) -> int:
    """Delete one letter, or all of a webhook; how many there were."""
    return tx.connection.execute(delete(letter).where(_letters(name, seq))).rowcount


def count_letters_of(tx: Transaction, name: str, seq: int | None) -> int:
    return tx.connection.execute(select(func.count()).where(_letters(name, seq))).scalar() or 0


def _letters(name: str, seq: int | None) -> Any:
    one = letter.c.subscriber == name
    return one if seq is None else and_(one, letter.c.seq == seq)
