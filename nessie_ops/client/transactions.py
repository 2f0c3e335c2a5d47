"""Transactions over HTTP: the methods of Transactions."""

from __future__ import annotations

from urllib.parse import quote

from nessie_ops.client.connection import Connection
from nessie_ops.model import (
    CatalogTransaction,
    CatalogTransactionState,
    NewCatalogTransaction,
    TidiedTransactions,
    wire,
)

_PATH = "transactions"


class TransactionMethods(Connection):
    """What a client can do about transactions.  All but the first may be repeated when an answer was lost."""

    def begin_transaction(self, new: NewCatalogTransaction) -> CatalogTransaction:
        """Begin a transaction; BadRequest, ReferenceNotFound (the target).  A forgotten one ends with its lease."""
        return self._write("POST", _PATH, CatalogTransaction, new)

    def list_transactions(
        self,
        *,
        state: CatalogTransactionState = CatalogTransactionState.OPEN,
        after: str = "",
        limit: int = 1_000,
    ) -> list[CatalogTransaction]:
        """Those in a state, by id, from after `after`."""
        token = wire.make_token(wire.AfterId(after)) if after else ""
        rows = self._rows(_PATH, {"state": state}, wire.TransactionPage, lambda page: page.transactions, limit, token)
        return list(rows)

    def get_transaction(self, id: str) -> CatalogTransaction:
        """TransactionNotFound."""
        return self._get(f"{_PATH}/{quote(id, safe='')}", CatalogTransaction)

    def tidy_transactions(self) -> TidiedTransactions:
        """Reap all whose lease is over, forget those that ended a week ago, delete branches of none that is open."""
        return self._write("POST", f"{_PATH}/tidy", TidiedTransactions, {})

    def commit_transaction(self, id: str, *, message: str = "", author: str = "") -> CatalogTransaction:
        """Merge what it wrote into its target as one commit, once; TransactionConflict, TransactionNotOpen."""
        body = {"message": message, "author": author}
        return self._write("POST", f"{_PATH}/{quote(id, safe='')}/commit", CatalogTransaction, body)

    def rollback_transaction(self, id: str) -> CatalogTransaction:
        """Drop it and its branch; TransactionNotOpen when it was committed."""
        return self._write("POST", f"{_PATH}/{quote(id, safe='')}/rollback", CatalogTransaction, {})

    def renew_transaction(self, id: str, lease_seconds: int) -> CatalogTransaction:
        """Let its lease end so many seconds from now; TransactionNotOpen."""
        body = {"leaseSeconds": lease_seconds}
        return self._write("POST", f"{_PATH}/{quote(id, safe='')}/renew", CatalogTransaction, body)
