"""Transactions over many tables: an ephemeral branch, what was read through it, and how it ended."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from nessie_ops.model.ids import CommitHash
from nessie_ops.model.merges import Conflict

DEFAULT_LEASE_S = 3600
TRANSACTIONS = "txn/"
"""What the names of transactions' branches begin with; no other reference's may."""


class Isolation(StrEnum):
    """What a transaction sees of others' commits.

    `READ_COMMITTED`: all, but for the tables that it has written.  `REPEATED_READ`: nothing since it started.
    `SERIALIZABLE`: nothing, and it commits only if what it has read is still the same.
    """

    READ_COMMITTED = "READ_COMMITTED"
    REPEATED_READ = "REPEATED_READ"
    SERIALIZABLE = "SERIALIZABLE"


class CatalogTransactionState(StrEnum):
    """All but `OPEN` are final."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    ROLLED_BACK = "ROLLED_BACK"
    EXPIRED = "EXPIRED"


class NewCatalogTransaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a caller says of a transaction; without `target` it is the default branch."""

    target: str = ""
    isolation: Isolation = Isolation.SERIALIZABLE
    lease_seconds: int = DEFAULT_LEASE_S
    author: str = ""
    message: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who changed a key: the newest commit of the target that did since the transaction read it."""

    key: str
    commit_hash: CommitHash
    author: str
    time: datetime
    message: str = ""


class TidiedTransactions(msgspec.Struct, frozen=True):
    """Ids of transactions that have expired, how many were forgotten a week after their end, stray branches deleted."""

    expired: tuple[str, ...] = ()
    forgotten: int = 0
    branches: tuple[str, ...] = ()


class CatalogTransaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A transaction as it is now.

    `base_hash` is the target's commit that it sees: where it started, or, at READ_COMMITTED, where it read last.
    `commit_hash` is the target's commit that it became, or where the target was when there was nothing to commit.
    """

    id: str
    branch: str
    target: str
    isolation: Isolation
    state: CatalogTransactionState
    start_hash: CommitHash
    base_hash: CommitHash
    started_at: datetime
    expires_at: datetime
    author: str = ""
    message: str = ""
    commit_hash: CommitHash | None = None
    ended_at: datetime | None = None
    overtaken: tuple[Conflict, ...] = ()
