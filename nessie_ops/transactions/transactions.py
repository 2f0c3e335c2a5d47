"""Transactions: the facade through which transactions over many tables begin, are read through, and end.

A transaction is a branch from the target's head, which engines read and write as any other.  COMMIT is one merge into
the target; that, the end of the branch and the state COMMITTED are one database transaction, so however often it is
asked for, and whatever answers are lost, a transaction is committed once, and whoever asks again learns of the same
commit.  All levels are optimistic: nobody waits, and a conflict is found at COMMIT, by table.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec

from nessie_ops.errors import BadRequest, TransactionNotFound, TransactionNotOpen
from nessie_ops.model import (
    TRANSACTIONS,
    CatalogTransaction,
    CatalogTransactionState,
    CommitHash,
    Isolation,
    NewCatalogTransaction,
    ReferenceType,
    TidiedTransactions,
)
from nessie_ops.store import Transaction, WriteTransaction, once
from nessie_ops.transactions import committing, refreshing
from nessie_ops.transactions.documents import from_record, to_record
from nessie_ops.transactions.reaping import Reaping, drop
from nessie_ops.transactions.recording import ReadRecorder
from nessie_ops.versioning import VersionStore, references
from nessie_ops.versioning.codec import to_hash
from nessie_ops.versioning.reading import Recorder

MAX_LEASE_S = 7 * 24 * 3600
MAX_WORDS = 1_000  # characters of author and message
OPEN = CatalogTransactionState.OPEN
End = Callable[[WriteTransaction, CatalogTransaction, datetime], CatalogTransaction]


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Transactions:
    """The transactions of a catalog.  Each method is one database transaction, `reap_…` and `tidy_…` are many."""

    def __init__(
        self,
        versions: VersionStore,
        *,
        clock: Callable[[], datetime] = _utc_now,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """From now on, `versions` tells of what is read through transactions' branches."""
        self._versions, self._store = versions, versions.store
        self._clock, self._new_id = clock, new_id
        self._recorder = ReadRecorder(versions.store)
        self._reaping = Reaping(versions.store, versions.default_branch, clock)
        versions.watch = self.watch

    def begin_transaction(self, new: NewCatalogTransaction) -> CatalogTransaction:
        """Begin a transaction; BadRequest, ReferenceNotFound (the target)."""
        _check_lease(new.lease_seconds)
        for name in ("author", "message"):
            if len(getattr(new, name)) > MAX_WORDS:
                raise BadRequest(f"{name}: has more than {MAX_WORDS} characters.")
        target = new.target or self._versions.default_branch
        if target.startswith(TRANSACTIONS):
            raise BadRequest(f"target: '{target[:80]}' is a transaction's own branch.")
        id = self._new_id()

        def run(tx: WriteTransaction) -> CatalogTransaction:
            now = self._clock()
            head = to_hash(references.get_branch_record(tx, target, "commit").head)
            begun = _begin(new, id, target, head, now)
            about = {"transaction": id, "target": target, "isolation": new.isolation}
            references.create_reference(tx, ReferenceType.BRANCH, begun.branch, head, about, now)
            tx.save_catalog_transaction(to_record(begun))
            return begun

        return self._store.run(run, target, TRANSACTIONS + id)

    def get_transaction(self, id: str) -> CatalogTransaction:
        """TransactionNotFound."""
        with self._store.read() as tx:
            return _find(tx, id)

    def list_transactions(
        self, *, state: CatalogTransactionState = OPEN, after: str = "", limit: int = 1_000
    ) -> list[CatalogTransaction]:
        """Those in a state, by id, from after `after`."""
        with self._store.read() as tx:
            return [from_record(row) for row in tx.list_catalog_transactions(state, after=after, limit=limit)]

    def commit_transaction(self, id: str, *, message: str = "", author: str = "") -> CatalogTransaction:
        """Merge what the transaction wrote into its target, as one commit; the same again when it was committed.

        TransactionConflict names the tables that others changed, and who did; the transaction stays open then.
        TransactionNotOpen when it was rolled back, or its lease has ended.
        """

        def end(tx: WriteTransaction, open: CatalogTransaction, now: datetime) -> CatalogTransaction:
            return committing.commit(tx, open, message, author, self._versions.default_branch, self._clock)

        return self._end(id, CatalogTransactionState.COMMITTED, end)

    def rollback_transaction(self, id: str) -> CatalogTransaction:
        """Drop the transaction and its branch; TransactionNotOpen when it was committed."""

        def end(tx: WriteTransaction, open: CatalogTransaction, now: datetime) -> CatalogTransaction:
            return drop(tx, open, CatalogTransactionState.ROLLED_BACK, self._versions.default_branch, now)

        return self._end(id, CatalogTransactionState.ROLLED_BACK, end)

    def renew_transaction(self, id: str, lease_seconds: int) -> CatalogTransaction:
        """Let the lease end so many seconds from now; TransactionNotOpen when it has ended already."""
        _check_lease(lease_seconds)

        def run(tx: WriteTransaction) -> CatalogTransaction:
            known, now = _find(tx, id, lock=True), self._clock()
            _require_open(known, now)
            renewed = msgspec.structs.replace(known, expires_at=now + timedelta(seconds=lease_seconds))
            tx.save_catalog_transaction(to_record(renewed))
            return renewed

        return self._store.run(run, TRANSACTIONS + id)

    def reap_transactions(self) -> list[str]:
        """End the transactions whose lease is over, a hundred at most, the first to end first; their ids."""
        return self._reaping.reap()

    def tidy_transactions(self) -> TidiedTransactions:
        """Reap all; forget transactions that ended a week ago; delete branches of transactions that are not open."""
        return self._reaping.tidy()

    def watch(self, branch: str) -> Recorder | None:
        """Called before the branch of a transaction is read: lets it see what it may, and records what it must."""
        with self._store.read() as tx:
            record = tx.get_catalog_transaction(branch.removeprefix(TRANSACTIONS))
            known = from_record(record) if record else None
            target = tx.get_reference(known.target) if known else None
        if known is None or known.state is not OPEN:
            return None
        if known.isolation is Isolation.READ_COMMITTED and target and to_hash(target.head) != known.base_hash:
            with once.aside():
                self._store.run(lambda tx: self._refresh(tx, known.id), known.branch)
        return self._recorder.of(known.id) if known.isolation is Isolation.SERIALIZABLE else None

    def _refresh(self, tx: WriteTransaction, id: str) -> None:
        known = _find(tx, id, lock=True)
        if known.state is OPEN:
            tx.save_catalog_transaction(to_record(refreshing.refresh(tx, known, self._clock)))

    def _end(self, id: str, wanted: CatalogTransactionState, end: End) -> CatalogTransaction:
        """Let `end` end an open transaction; one that is as `wanted` stays as it is."""
        target = self.get_transaction(id).target

        def run(tx: WriteTransaction) -> CatalogTransaction:
            known, now = _find(tx, id, lock=True), self._clock()
            if known.state is wanted:
                return known
            if known.state is not OPEN or wanted is CatalogTransactionState.COMMITTED:
                _require_open(known, now)  # whoever gives one up may do so when its lease has ended, too
            ended = end(tx, known, now)
            tx.delete_reads(id)
            tx.save_catalog_transaction(to_record(ended))
            return ended

        ended = self._store.run(run, target, TRANSACTIONS + id)
        self._recorder.forget(id)
        return ended


def _begin(new: NewCatalogTransaction, id: str, target: str, head: CommitHash, now: datetime) -> CatalogTransaction:
    return CatalogTransaction(
        id=id,
        branch=TRANSACTIONS + id,
        target=target,
        isolation=new.isolation,
        state=OPEN,
        start_hash=head,
        base_hash=head,
        started_at=now,
        expires_at=now + timedelta(seconds=new.lease_seconds),
        author=new.author,
        message=new.message,
    )


def _find(tx: Transaction, id: str, *, lock: bool = False) -> CatalogTransaction:
    record = tx.get_catalog_transaction(id, lock=lock)
    if record is None:
        raise TransactionNotFound(f"Transaction '{id[:80]}' not found; one that has ended is known for seven days.")
    return from_record(record)


def _require_open(known: CatalogTransaction, now: datetime) -> None:
    if known.state is not OPEN:
        raise TransactionNotOpen(f"Transaction {known.id} is {known.state} since {known.ended_at:%Y-%m-%d %H:%M:%S}Z.")
    if known.expires_at <= now:
        raise TransactionNotOpen(
            f"The lease of transaction {known.id} ended at {known.expires_at:%Y-%m-%d %H:%M:%S}Z; begin another one."
        )


def _check_lease(seconds: int) -> None:
    if not 1 <= seconds <= MAX_LEASE_S:
        raise BadRequest(f"leaseSeconds: {seconds} is not between 1 and {MAX_LEASE_S}.")
