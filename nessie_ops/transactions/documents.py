"""Transactions as rows: what the database looks for has columns, all else is JSON."""

from __future__ import annotations

import msgspec

from nessie_ops.model import CatalogTransaction, CatalogTransactionState
from nessie_ops.store import CatalogTransactionRecord
from nessie_ops.versioning.codec import to_micros

KEPT_US = 7 * 24 * 3600 * 1_000_000  # how long one that has ended is known

_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(CatalogTransaction)


def to_record(given: CatalogTransaction) -> CatalogTransactionRecord:
    """The row of a transaction."""
    is_open = given.state is CatalogTransactionState.OPEN
    until = to_micros(given.expires_at) if is_open or given.ended_at is None else to_micros(given.ended_at) + KEPT_US
    return CatalogTransactionRecord(given.id, given.state, given.target, until, _encoder.encode(given).decode())


def from_record(record: CatalogTransactionRecord) -> CatalogTransaction:
    """The transaction of a row."""
    return _decoder.decode(record.document)
