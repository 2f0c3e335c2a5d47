"""Reader: the methods of a version store that change nothing.  Each is one database transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from nessie_ops.errors import BadRequest
from nessie_ops.model import (
    CONFIG_TYPES,
    CheckedCommit,
    CommitHash,
    CommitMeta,
    Consistency,
    Content,
    ContentKey,
    Detached,
    DiffEntry,
    Entry,
    LogEntry,
    Reference,
    ReferenceMove,
    ReferenceSpec,
    ReferenceType,
    RepositoryConfig,
)
from nessie_ops.store import NotCached, Store
from nessie_ops.versioning import (
    consistency,
    events,
    history,
    reading,
    references,
    repository,
)
from nessie_ops.versioning.events import EventPage
from nessie_ops.versioning.history import Divergence
from nessie_ops.versioning.references import RepositoryInfo

MAX_PAGE = 10_000  # rows that one listing returns at most; the REST layer pages through more


class Reader:
    """What a version store holds."""

    def __init__(self, store: Store, info: RepositoryInfo) -> None:
        self._store = store
        self.info = info
        self.watch: reading.Watch | None = None  # asked before a transaction's branch is read

    @property
    def store(self) -> Store:
        """The database below, for what stands beside versioning."""
        return self._store

    @property
    def default_branch(self) -> str:
        return self.info.default_branch

    def get_info(self) -> RepositoryInfo:
        """Default branch and time of creation of the repository."""
        return self.info

    # -- references ---------------------------------------------------------------------------

    def list_repository_configs(self, types: Iterable[str] = CONFIG_TYPES) -> list[RepositoryConfig]:
        """Those configurations of these types that were ever set."""
        with self._store.read() as tx:
            return repository.list_configs(tx, types)

    def list_references(
        self,
        *,
        prefix: str = "",
        after: tuple[ReferenceType, str] | None = None,
        limit: int = MAX_PAGE,
        hidden: bool = False,
    ) -> list[Reference]:
        """Branches by name, then tags by name, from after the given (type, name).

        Transactions' branches only when `hidden` says so, or the prefix is theirs.
        """
        with self._store.read() as tx:
            return references.list_references(tx, prefix, after, limit, hidden)

    def get_reference(self, name: str) -> Reference:
        """The branch or tag `name` with its head; ReferenceNotFound."""
        recorder = self._watch(name)
        found = self.get_references([name])
        if name not in found and reading.is_transaction(name):
            with self._store.read() as tx:
                raise references.not_found(tx, name)
        reference = references.get_named(found, name)
        reading.enter(recorder, reference.hash)
        return reference

    def _watch(self, name: str) -> reading.Recorder | None:
        """Who records what is read through the branch `name`; BadRequest when somebody must, and nobody does."""
        if not reading.is_transaction(name):
            return None
        if self.watch is None:
            raise BadRequest(f"'{name[:80]}' is a transaction's branch: use a server, which records what it reads.")
        return self.watch(name)

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

    def list_moves(
        self,
        *,
        name: str | None = None,
        after_seq: int = 0,
        before_seq: int | None = None,
        limit: int = MAX_PAGE,
        newest_first: bool = False,
    ) -> list[ReferenceMove]:
        """The reference log: every creation, move, property change and deletion, by sequence number."""
        with self._store.read() as tx:
            return references.list_moves(tx, name, after_seq, limit, newest_first, before_seq)

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

    # -- commits and what they hold -----------------------------------------------------------

    def resolve(self, spec: str | ReferenceSpec) -> Reference | Detached:
        """The reference with the commit that `spec` names as its hash; ReferenceNotFound, BadRequest."""
        parsed = ReferenceSpec.parse(spec, self.default_branch) if isinstance(spec, str) else spec
        recorder = self._watch(parsed.name) if parsed.name else None
        with self._store.read() as tx:
            found = history.resolve(tx, parsed)
        reading.enter(recorder, found.hash)
        return found

    def get_commit(self, commit: CommitHash) -> CommitMeta:
        """Who made a commit, when and why; ReferenceNotFound."""
        with self._store.read() as tx:
            return history.get_commit(tx, commit)

    def get_contents(self, at: CommitHash, keys: Iterable[ContentKey]) -> dict[ContentKey, Content]:
        """Contents of those of `keys` that exist at commit `at`, in the order of `keys`."""
        wanted = list(keys)
        for recorder in reading.find(at):
            recorder.read_keys(wanted)
        with self._store.read() as tx:
            return history.get_contents(tx, at, wanted)

    def find_cached_contents(self, at: CommitHash, keys: Sequence[ContentKey]) -> dict[ContentKey, Content] | None:
        """Like `get_contents`, from memory; None when that does not hold all it takes, or the read is recorded."""
        if reading.find(at):
            return None
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
        for recorder in reading.find(at):
            recorder.read_range(*history.key_span(prefix, first, last), values=with_content)
        with self._store.read() as tx:
            return history.list_entries(tx, at, prefix, first, last, limit, with_content)

    def list_log(
        self,
        at: CommitHash,
        *,
        limit_hash: CommitHash | None = None,
        limit: int = 250,
        with_operations: bool = False,
        max_operations: int | None = None,
    ) -> list[LogEntry]:
        """Commits from `at` backwards along direct parents; `limit_hash` is the last one returned.

        No commit follows the one with which their operations become `max_operations` or more.
        """
        with self._store.read() as tx:
            return history.list_log(tx, at, limit_hash, limit, with_operations, max_operations)

    def check_commits(self, hashes: Iterable[CommitHash]) -> list[CheckedCommit]:
        """For each commit whether it, its part of the index and the contents that it put can be read."""
        with self._store.read() as tx:
            return [consistency.check_commit(tx, commit) for commit in hashes]

    def check_log(self, at: CommitHash, limit: int) -> Consistency:
        """The worst that `check_commits` finds among `limit` commits from `at` backwards."""
        with self._store.read() as tx:
            return consistency.check_log(tx, at, limit)

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
        for recorder in reading.find(before, after):
            recorder.read_range(*history.key_span(prefix, first, last), values=True)
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
