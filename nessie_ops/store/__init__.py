"""Rows in, rows out: knows SQL, not Git.  The only importer of SQLModel and SQLAlchemy."""

from nessie_ops.store import once
from nessie_ops.store.cache import Cache
from nessie_ops.store.groups import Job
from nessie_ops.store.heads import WatchedHeads
from nessie_ops.store.rows import (
    CatalogTransactionRecord,
    Kind,
    MergeRequestRecord,
    Move,
    ReadRecord,
    ReferenceRecord,
)
from nessie_ops.store.schema import Upgrade
from nessie_ops.store.store import Store
from nessie_ops.store.transactions import NotCached, Objects, Transaction
from nessie_ops.store.upgrade import upgrade_store
from nessie_ops.store.writing import WriteTransaction

__all__ = [
    "Cache",
    "CatalogTransactionRecord",
    "Job",
    "Kind",
    "MergeRequestRecord",
    "Move",
    "NotCached",
    "Objects",
    "ReadRecord",
    "ReferenceRecord",
    "Store",
    "Transaction",
    "Upgrade",
    "WatchedHeads",
    "WriteTransaction",
    "once",
    "upgrade_store",
]
