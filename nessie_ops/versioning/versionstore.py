"""VersionStore: the facade of the kernel.  Git semantics over a Store; knows neither Iceberg nor HTTP.

Each public method is one database transaction.  Every commit hash that is returned names a commit
that is durable.  Methods that write lock the reference that they move, so they never spin.
Listings are bounded by `limit`; ask for one more than a page to learn whether another page follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Self
from uuid import uuid4

import msgspec

from nessie_ops.buffering import BufferedTransaction
from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    TRANSACTIONS,
    CommitHash,
    CommitResult,
    ContentKey,
    Isolation,
    Merge,
    MergeResult,
    NewCommit,
    Operation,
    Reference,
    ReferenceType,
    RepositoryConfig,
    Transplant,
    Unchanged,
    UnchangedRange,
)
from nessie_ops.store import Job, Store
from nessie_ops.versioning import (
    commits,
    history,
    merging,
    reading,
    references,
    repository,
    reverting,
    transplanting,
)
from nessie_ops.versioning import purge as housekeeping
from nessie_ops.versioning import restore as restoring
from nessie_ops.versioning.purge import Progress, Purged
from nessie_ops.versioning.reader import Reader
from nessie_ops.versioning.restore import Restored

DEFAULT_BRANCH = "main"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class VersionStore(Reader):
    """A versioned catalog: contents under keys, on branches and tags, with full history."""

    def __init__(
        self,
        store: Store,
        *,
        default_branch: str = DEFAULT_BRANCH,
        clock: Callable[[], datetime] = _utc_now,
        new_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """Use `store`, creating the default branch (empty) in a new one."""
        self._clock = clock
        self._new_id = new_id
        with store.read() as tx:
            info = references.get_info(tx)
        info = info or store.run(lambda tx: references.initialize(tx, default_branch, clock()), default_branch)
        super().__init__(store, info)

    @classmethod
    def open(cls, url: str, *, create: bool = True, **options: object) -> Self:
        """The store at a SQLAlchemy URL, such as `sqlite:////path/catalog.db` or `sqlite://` (in memory).

        BadRequest for a wrong URL, and for a database that is not there when `create` is false.
        """
        return cls(Store.open(url, create=create), **options)  # type: ignore[arg-type]

    def close(self) -> None:
        self._store.close()

    # -- references ---------------------------------------------------------------------------

    def update_repository_config(self, config: RepositoryConfig) -> RepositoryConfig | None:
        """Replace the configuration of its type; the one before.  BadRequest when a policy cannot be read."""
        # The default branch's row is locked so that each writer learns what it replaced.
        return self._store.run(lambda tx: repository.update_config(tx, config), self.default_branch)

    def create_reference(
        self, kind: ReferenceType, name: str, target: CommitHash, *, properties: Mapping[str, str] | None = None
    ) -> Reference:
        """A new branch or tag at `target` (NO_ANCESTOR for an empty one): one row and one log row.

        BadRequest (name), ReferenceAlreadyExists, ReferenceNotFound (no such commit).
        """
        if reading.is_transaction(name):
            raise BadRequest(f"name: '{name[:80]}': names that begin with {TRANSACTIONS} are transactions' own.")
        return self._store.run(
            lambda tx: references.create_reference(tx, kind, name, target, properties or {}, self._clock()),
            name,
        )

    def assign_reference(self, name: str, expected: CommitHash | None, target: CommitHash) -> Reference:
        """Move a branch or tag; ReferenceConflict (UNEXPECTED_HASH) unless its head is `expected` (None: any).

        A transaction's branch is a BadRequest: it shows what the transaction may see, and what it has written.
        """
        if reading.is_transaction(name):
            raise BadRequest(f"'{name[:80]}' is the branch of a transaction, which cannot be assigned.")
        return self._store.run(
            lambda tx: references.assign_reference(tx, name, expected, target, self._clock()),
            name,
        )

    def delete_reference(self, name: str, expected: CommitHash | None) -> Reference:
        """Delete a reference and return it as it was; the default branch is a BadRequest."""
        return self._store.run(
            lambda tx: references.delete_reference(tx, name, expected, self.default_branch, self._clock()),
            name,
        )

    def update_properties(
        self, name: str, updates: Mapping[str, str], removals: Iterable[str] = (), *, expected: CommitHash | None = None
    ) -> Reference:
        """Set and remove free-text properties of a reference.  `quarantined` set to a reason forbids merging it."""
        return self._store.run(
            lambda tx: references.update_properties(tx, name, updates, removals, expected, self._clock()),
            name,
        )

    # -- commits ------------------------------------------------------------------------------

    def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """One atomic commit on top of the head of `branch`.

        Operations are read against the commit `expected`; a key conflicts only when its *value* at the
        head differs from its value there.  BadRequest (rules of contents ids, duplicate keys),
        ReferenceNotFound, ReferenceConflict (all conflicts at once).  Nothing is written on error.
        What a commit to a transaction's branch says to be Unchanged, the transaction has read.
        """
        if reading.is_transaction(branch):
            self._record_checks(branch, operations)
        return self._store.run(
            lambda tx: commits.commit(tx, branch, expected, meta, operations, self._clock, self._new_id),
            branch,
        )

    def _record_checks(self, branch: str, operations: Sequence[Operation]) -> None:
        keys = [operation.key for operation in operations if isinstance(operation, Unchanged)]
        ranges = [operation for operation in operations if isinstance(operation, UnchangedRange)]
        recorder = self._watch(branch) if keys or ranges else None
        if recorder:
            recorder.read_keys(keys)
            for prefix, first, last, with_content in map(msgspec.structs.astuple, ranges):
                recorder.read_range(*history.key_span(prefix, first, last), values=with_content)

    def submit_commit(
        self,
        branch: str,
        expected: CommitHash,
        meta: NewCommit,
        operations: Sequence[Operation],
        done: Callable[[Job], object],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        """Like `commit`, without waiting: `done` gets the job in some thread; `start` runs a call in another one.

        Not for a transaction's branch: records nothing.
        """
        self._store.submit(
            lambda tx: commits.commit(tx, branch, expected, meta, operations, self._clock, self._new_id),
            (branch,),
            done,
            start,
        )

    def transaction(
        self,
        on: str = "",
        *,
        isolation: Isolation = Isolation.SERIALIZABLE,
        message: str = "",
        author: str = "",
    ) -> BufferedTransaction:
        """A transaction on a branch, the default one unless named, that becomes one commit at its block's end:

            with catalog.transaction(on="main") as tx:
                tx.put(target, change(tx.get(source)))

        What the levels see and check is told in `nessie_ops.buffering.transaction`.  ReferenceNotFound, BadRequest.
        """
        meta = NewCommit(message=message, authors=(author,) if author else ())
        return BufferedTransaction(self, on or self.default_branch, isolation, meta)

    def merge(self, branch: str, expected: CommitHash | None, request: Merge) -> MergeResult:
        """Merge a commit into `branch` as one commit with two parents, per key; MergeConflict unless as result.

        `expected` must be reachable from the head and is otherwise only echoed.  A quarantined source
        is a Forbidden.  A source that adds nothing is no commit.
        """
        return self._store.run(
            lambda tx: merging.merge(tx, branch, expected, request, self._clock),
            branch,
        )

    def transplant(self, branch: str, expected: CommitHash | None, request: Transplant) -> MergeResult:
        """Apply to `branch` what each commit changed against its own parent, as one new commit each; all or none.

        Errors and `expected` are those of `merge`.  A commit that brings nothing is left out.
        """
        try:
            return self._store.run(
                lambda tx: transplanting.transplant(tx, branch, expected, request, self._clock),
                branch,
            )
        except transplanting.NotApplied as outcome:
            return outcome.result

    def revert(
        self,
        branch: str,
        expected: CommitHash | None,
        commit: CommitHash,
        *,
        meta: NewCommit = reverting.NO_WORDS,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> MergeResult:
        """Undo a commit of the history of `branch` by a new one: its keys get the values of its direct parent.

        A key that no longer has the value that the commit gave it is a conflict.  What was deleted comes back
        with its content id.  Errors and `expected` are those of `merge`.
        """
        options = reverting.Options(meta, dry_run, conflicts_as_result)
        return self._store.run(
            lambda tx: reverting.revert(tx, branch, expected, commit, options, self._clock),
            branch,
        )

    def revert_contents(
        self,
        branch: str,
        expected: CommitHash | None,
        keys: Iterable[ContentKey],
        at: CommitHash,
        *,
        allow_deletes: bool = False,
        meta: NewCommit = reverting.NO_WORDS,
        dry_run: bool = False,
        conflicts_as_result: bool = False,
    ) -> MergeResult:
        """Give `keys` the values that they have at commit `at`, by a new commit.

        A key whose value at the head is not the one at `expected` is a conflict; one that does not exist at
        `at` is a BadRequest, or deleted with `allow_deletes`.  Errors are those of `merge`.
        """
        options = reverting.Options(meta, dry_run, conflicts_as_result)
        wanted = tuple(keys)
        return self._store.run(
            lambda tx: reverting.revert_contents(tx, branch, expected, wanted, at, allow_deletes, options, self._clock),
            branch,
        )

    # -- housekeeping -------------------------------------------------------------------------

    def purge(
        self,
        *,
        grace: timedelta = housekeeping.GRACE,
        dry_run: bool = False,
        progress: Progress = lambda what, count: None,
    ) -> Purged:
        """Delete what neither a reference needs nor a move of one within `grace`; many short transactions."""
        return housekeeping.purge(self._store, now=self._clock(), grace=grace, dry_run=dry_run, progress=progress)

    def restore(self, at: datetime, names: Iterable[str] = (), *, dry_run: bool = False) -> list[Restored]:
        """Move references (all, or `names`) back to where they were at a time; all of it or nothing.

        What did not exist then is deleted, what has been deleted since is created again, without properties.
        BadRequest (a time in the future, or before the repository), ReferenceNotFound (a name; a purged commit).
        """
        wanted = set(names)
        return self._store.run(
            lambda tx: restoring.restore(tx, at, wanted, self.default_branch, self._clock(), dry_run)
        )
