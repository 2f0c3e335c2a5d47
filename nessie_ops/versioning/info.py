"""What a store is and how much it holds."""

from __future__ import annotations

from datetime import datetime

import msgspec

from nessie_ops.model import CommitHash
from nessie_ops.store import Store, figures
from nessie_ops.store.tables import FORMAT
from nessie_ops.versioning import references
from nessie_ops.versioning.codec import from_micros, to_hash


class TableSize(msgspec.Struct, frozen=True):
    rows: int
    bytes: int | None  # on disk, with indexes; None where this build of SQLite does not tell


class CommitAt(msgspec.Struct, frozen=True):
    hash: CommitHash
    time: datetime


class StoreInfo(msgspec.Struct, frozen=True, rename="camel"):
    """`cache_bytes` is the most that the cache of one process holds."""

    format: int
    database: str
    default_branch: str | None
    created_at: datetime | None
    references: dict[str, int]
    tables: dict[str, TableSize]
    oldest_commit: CommitAt | None
    newest_commit: CommitAt | None
    cache_bytes: int


def get_store_info(store: Store) -> StoreInfo:
    """Reads every table once."""
    with store.snapshot() as tx:
        rows, sizes = figures.count_rows(tx), figures.measure_bytes(tx)
        repository = references.get_info(tx)
        ends = figures.get_oldest_and_newest_commit(tx)
        oldest, newest = (CommitAt(to_hash(end.id), from_micros(end.time)) for end in ends) if ends else (None, None)
        return StoreInfo(
            format=FORMAT,
            database=figures.get_url(tx),
            default_branch=repository.default_branch if repository else None,
            created_at=repository.created_at if repository else None,
            references=figures.count_references(tx),
            tables={name: TableSize(rows[name], sizes[name]) for name in rows},
            oldest_commit=oldest,
            newest_commit=newest,
            cache_bytes=store.cache.capacity,
        )
