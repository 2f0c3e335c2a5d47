"""Renews the lease of a transaction for as long as somebody works in it.

A process that dies renews nothing, so what it left behind ends with its lease.
"""

from __future__ import annotations

import threading

from nessie_ops.client import NessieClient
from nessie_ops.errors import NessieOpsError, TransactionNotFound, TransactionNotOpen


class Lease:
    """A thread that renews a transaction's lease thrice in its time, from now until `end`."""

    def __init__(self, client: NessieClient, transaction: str, seconds: int) -> None:
        self._ended = threading.Event()
        arguments = (client, transaction, seconds, self._ended)
        self._thread = threading.Thread(target=_renew, args=arguments, name=f"lease-{transaction}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Renew it no more; may be called again."""
        self._ended.set()
        self._thread.join()


def _renew(client: NessieClient, transaction: str, seconds: int, ended: threading.Event) -> None:
    while not ended.wait(seconds / 3):
        try:
            client.renew_transaction(transaction, seconds)
        except (TransactionNotFound, TransactionNotOpen):
            return  # COMMIT will say so
        except NessieOpsError:
            continue  # the server may be back before the lease is over
