"""A process that ends transactions in one way, each at its time; see test_reaping."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from nessie_ops.errors import TransactionNotOpen
from nessie_ops.transactions import Transactions
from nessie_ops.versioning import VersionStore

Jobs = list[tuple[str, datetime]]
"""Ids of transactions and when to act."""


def act(transactions: Transactions, what: str, jobs: Jobs) -> None:
    """Act on each in turn."""
    for id, at in jobs:
        time.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))
        with contextlib.suppress(TransactionNotOpen):
            if what == "commit":
                transactions.commit_transaction(id)
            elif what == "renew":
                transactions.renew_transaction(id, 3600)
            else:
                transactions.reap_transactions()


def _run(url: str, what: str, pipe: Connection) -> None:
    with closing(VersionStore.open(url)) as versions:
        transactions = Transactions(versions)
        pipe.send("ready")
        act(transactions, what, pipe.recv())


@contextmanager
def acting(url: str, what: str) -> Iterator[tuple[BaseProcess, Connection]]:
    """A process that has started and waits for its jobs; it has ended when the context does."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_run, args=(url, what, theirs))
    process.start()
    try:
        assert ours.poll(120) and ours.recv() == "ready"
        yield process, ours
        process.join(120)
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        ours.close()
