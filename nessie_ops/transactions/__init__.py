"""Transactions over many tables: optimistic, at three levels of isolation, for any engine."""

from nessie_ops.transactions.transactions import Transactions

__all__ = ["Transactions"]
