"""Rows in, rows out: the only package that knows SQL.  It does not know Git semantics."""

from nessie_ops.store.cache import Cache
from nessie_ops.store.store import Kind, Move, ReferenceRecord, Store, Transaction, WriteTransaction

__all__ = ["Cache", "Kind", "Move", "ReferenceRecord", "Store", "Transaction", "WriteTransaction"]
