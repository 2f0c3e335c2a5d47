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

from nessie_ops.model import (
    CONFIG_TYPES,
    CommitHash,
    CommitMeta,
    CommitResult,
    Content,
    ContentKey,
    Detached,
    DiffEntry,
    Entry,
    LogEntry,
    Merge,
    MergeResult,
    NewCommit,
    Operation,
    Reference,
    ReferenceMove,
    ReferenceSpec,
    ReferenceType,
    RepositoryConfig,
    Transplant,
)
from nessie_ops.store import Job, NotCached, Store
from nessie_ops.versioning import (
    commits,
    events,
    history,
    merging,
    references,
    repository,
    reverting,
    transplanting,
)
from nessie_ops.versioning import purge as housekeeping
from nessie_ops.versioning import restore as restoring
from nessie_ops.versioning.events import EventPage
from nessie_ops.versioning.history import Divergence
from nessie_ops.versioning.purge import Progress, Purged
from nessie_ops.versioning.references import RepositoryInfo
from nessie_ops.versioning.restore import Restored

DEFAULT_BRANCH = "main"
MAX_PAGE = 10_000  # rows that one listing returns at most; the REST layer pages through more


def _utc_now() -> datetime:
    return datetime.now(UTC)


class VersionStore:
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
        self._store = store
        self._clock = clock
        self._new_id = new_id
        with store.read() as tx:
            info = references.get_info(tx)
        self.info = info or store.run(lambda tx: references.initialize(tx, default_branch, clock()), default_branch)

    @classmethod
    def open(cls, url: str, *, create: bool = True, **options: object) -> Self:
        """The store at a SQLAlchemy URL, such as `sqlite:////path/catalog.db` or `sqlite://` (in memory).

        BadRequest for a wrong URL, and for a database that is not there when `create` is false.
        """
        return cls(Store.open(url, create=create), **options)  # type: ignore[arg-type]

    def close(self) -> None:
        self._store.close()

    @property
    def store(self) -> Store:
        """The database below, for what stands beside versioning."""
        return self._store

    @property
    def default_branch(self) -> str:
        return self.info.default_branch

    # -- references ---------------------------------------------------------------------------

    def get_info(self) -> RepositoryInfo:
        """Default branch and time of creation of the repository."""
        return self.info

    def list_repository_configs(self, types: Iterable[str] = CONFIG_TYPES) -> list[RepositoryConfig]:
        """Those configurations of these types that were ever set."""
        with self._store.read() as tx:
            return repository.list_configs(tx, types)

    def update_repository_config(self, config: RepositoryConfig) -> RepositoryConfig | None:
        """Replace the configuration of its type; the one before.  BadRequest when a policy cannot be read."""
        # The default branch's row is locked so that each writer learns what it replaced.
        return self._store.run(lambda tx: repository.update_config(tx, config), self.default_branch)

    def list_references(
        self, *, prefix: str = "", after: tuple[ReferenceType, str] | None = None, limit: int = MAX_PAGE
    ) -> list[Reference]:
        """Branches by name, then tags by name, from after the given (type, name)."""
        with self._store.read() as tx:
            return references.list_references(tx, prefix, after, limit)

    def get_reference(self, name: str) -> Reference:
        """The branch or tag `name` with its head; ReferenceNotFound."""
        return references.get_named(self.get_references([name]), name)

    def get_references(self, names: Sequence[str]) -> dict[str, Reference]:
        """Those of these references that exist, by name, in one query; at most 500."""
        return {name: references.to_reference(record) for name, record in self._store.get_heads(names).items()}

    def watch_references(self) -> references.WatchedReferences | None:
        """A way for one event loop to read references without waiting in a thread; None where there is none."""
        watched = self._store.watch_heads()
        return references.WatchedReferences(watched) if watched else None

    @property
    def reads_inline(self) -> bool:
        """Whether reading a few rows takes less time than handing the work to a thread."""
        return self._store.dialect.inline_reads

    def create_reference(
        self, kind: ReferenceType, name: str, target: CommitHash, *, properties: Mapping[str, str] | None = None
    ) -> Reference:
        """A new branch or tag at `target` (NO_ANCESTOR for an empty one): one row and one log row.

        BadRequest (name), ReferenceAlreadyExists, ReferenceNotFound (no such commit).
        """
        return self._store.run(
            lambda tx: references.create_reference(tx, kind, name, target, properties or {}, self._clock()),
            name,
        )

    def assign_reference(self, name: str, expected: CommitHash | None, target: CommitHash) -> Reference:
        """Move a branch or tag; ReferenceConflict (UNEXPECTED_HASH) unless its head is `expected` (None: any)."""
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

    def list_moves(
        self, *, name: str | None = None, after_seq: int = 0, limit: int = MAX_PAGE, newest_first: bool = False
    ) -> list[ReferenceMove]:
        """The reference log: every creation, move, property change and deletion, by sequence number."""
        with self._store.read() as tx:
            return references.list_moves(tx, name, after_seq, limit, newest_first)

    def list_events(
        self,
        *,
        name: str | None = None,
        after_seq: int = 0,
        limit: int = MAX_PAGE,
        accepts: Callable[[ReferenceMove], bool] | None = None,
    ) -> EventPage:
        """The next `limit` rows of the reference log as events; those that `accepts` refuses are passed over."""
        with self._store.read() as tx:
            return events.list_events(tx, self.info, name, after_seq, limit, accepts)

    # -- reading ------------------------------------------------------------------------------

    def resolve(self, spec: str | ReferenceSpec) -> Reference | Detached:
        """The reference with the commit that `spec` names as its hash; ReferenceNotFound, BadRequest."""
        parsed = ReferenceSpec.parse(spec, self.default_branch) if isinstance(spec, str) else spec
        with self._store.read() as tx:
            return history.resolve(tx, parsed)

    def get_commit(self, commit: CommitHash) -> CommitMeta:
        """Who made a commit, when and why; ReferenceNotFound."""
        with self._store.read() as tx:
            return history.get_commit(tx, commit)

    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist at commit `at`, in the order of `keys`."""
        with self._store.read() as tx:
            return history.get_contents(tx, at, keys)

    def find_cached_contents(self, at: CommitHash, keys: Sequence[ContentKey]) -> dict[ContentKey, Content] | None:
        """Like `get_contents`, from memory; None when that does not hold all it takes."""
        try:
            return history.get_contents(self._store.objects, at, keys)
        except NotCached:
            return None

    def list_entries(
        self,
        at: CommitHash,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = MAX_PAGE,
        with_content: bool = False,
    ) -> list[Entry]:
        """Entries at commit `at` in key order: `prefix` and all below it, or `first` to `last` inclusive."""
        with self._store.read() as tx:
            return history.list_entries(tx, at, prefix, first, last, limit, with_content)

    def list_log(
        self,
        at: CommitHash,
        *,
        limit_hash: CommitHash | None = None,
        limit: int = 250,
        with_operations: bool = False,
    ) -> list[LogEntry]:
        """Commits from `at` backwards along direct parents; `limit_hash` is the last one returned."""
        with self._store.read() as tx:
            return history.list_log(tx, at, limit_hash, limit, with_operations)

    def diff(
        self,
        before: CommitHash,
        after: CommitHash,
        *,
        prefix: ContentKey | None = None,
        first: ContentKey | None = None,
        last: ContentKey | None = None,
        limit: int = MAX_PAGE,
    ) -> list[DiffEntry]:
        """Keys whose value differs between two commits, in key order.  Cost: proportional to the differences."""
        with self._store.read() as tx:
            return history.diff(tx, before, after, prefix, first, last, limit)

    def get_merge_base(self, a: CommitHash, b: CommitHash) -> CommitHash | None:
        """The best common ancestor over direct and merge parents; None when there is none."""
        with self._store.read() as tx:
            return history.get_merge_base(tx, a, b)

    def compare(self, a: CommitHash, b: CommitHash) -> Divergence:
        """Commits on `a` and not on `b` and the reverse, along direct parents, and where they part."""
        with self._store.read() as tx:
            return history.compare(tx, a, b)

    # -- writing ------------------------------------------------------------------------------

    def commit(
        self, branch: str, expected: CommitHash, meta: NewCommit, operations: Sequence[Operation]
    ) -> CommitResult:
        """One atomic commit on top of the head of `branch`.

        Operations are read against the commit `expected`; a key conflicts only when its *value* at the
        head differs from its value there.  BadRequest (rules of contents ids, duplicate keys),
        ReferenceNotFound, ReferenceConflict (all conflicts at once).  Nothing is written on error.
        """
        return self._store.run(
            lambda tx: commits.commit(tx, branch, expected, meta, operations, self._clock, self._new_id),
            branch,
        )

    def submit_commit(
        self,
        branch: str,
        expected: CommitHash,
        meta: NewCommit,
        operations: Sequence[Operation],
        done: Callable[[Job], object],
        start: Callable[[Callable[[], None]], object],
    ) -> None:
        """Like `commit`, without waiting: `done` gets the job in some thread; `start` runs a call in another one."""
        self._store.submit(
            lambda tx: commits.commit(tx, branch, expected, meta, operations, self._clock, self._new_id),
            (branch,),
            done,
            start,
        )

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
